"""Nodes, an embedding and a scripted model that the LlamaIndex adapter's tests use."""

from __future__ import annotations

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from graphrag_core.testing import CHAIN, CHAIN_QUESTION, HashEmbedder

QUESTION = CHAIN_QUESTION


class Hashed(BaseEmbedding):
    """A LlamaIndex embedding over hashed words that records each call: the method and the text."""

    _inner: HashEmbedder = PrivateAttr(default_factory=HashEmbedder)
    _asked: list[tuple[str, str]] = PrivateAttr(default_factory=list)

    @property
    def asked(self) -> list[tuple[str, str]]:
        return self._asked

    @property
    def texts(self) -> list[str]:
        return [text for way, text in self._asked if way.endswith("text")]

    def _vector(self, way: str, text: str) -> list[float]:
        self._asked.append((way, text))
        return self._inner.embed_query(text).tolist()

    def _get_query_embedding(self, query):
        return self._vector("query", query)

    def _get_text_embedding(self, text):
        return self._vector("text", text)

    async def _aget_query_embedding(self, query):
        return self._vector("async query", query)

    async def _aget_text_embedding(self, text):
        return self._vector("async text", text)


def make_nodes() -> list[TextNode]:
    return [
        TextNode(
            id_=one.id,
            text=one.text,
            metadata={"title": one.title, **one.metadata},
            excluded_embed_metadata_keys=["tenant", "year"],
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"{one.metadata['tenant']}.md")},
        )
        for one in CHAIN
    ]


def ids(found) -> list[str]:
    return [one.node_id for one in found]


class Scripted(FunctionCallingLLM):
    """Answers with one text and without a tool, and keeps the messages it was sent."""

    seen: list = Field(default_factory=list)
    answer: str = "I see, and I will keep that in mind for later."

    @property
    def metadata(self):
        return LLMMetadata(is_function_calling_model=True, model_name="scripted")

    def respond(self, messages):
        self.seen.append(list(messages))
        return ChatResponse(message=ChatMessage(self.answer, role="assistant"))

    def chat(self, messages, **_):
        return self.respond(messages)

    async def achat(self, messages, **_):
        return self.respond(messages)

    async def astream_chat(self, messages, **_):
        async def pieces():
            yield self.respond(messages)

        return pieces()

    def _prepare_chat_with_tools(self, tools, **settings):
        return {"messages": [*(settings.get("chat_history") or []), *filter(None, [settings.get("user_msg")])]}

    def get_tool_calls_from_response(self, response, **_):
        return []

    def complete(self, *_, **__): ...
    async def acomplete(self, *_, **__): ...
    def stream_complete(self, *_, **__): ...
    async def astream_complete(self, *_, **__): ...
    def stream_chat(self, *_, **__): ...
