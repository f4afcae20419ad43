"""``GraphRAGMemoryBlock``: a retriever as the long-term memory of a LlamaIndex agent."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.schema import TextNode
from pydantic import Field
from typing_extensions import override

from graphrag_core.ingest.validation import to_json
from graphrag_core.text import fingerprint
from llama_graphrag.models import count_tokens
from llama_graphrag.retriever import GraphRAGRetriever


class GraphRAGMemoryBlock(BaseMemoryBlock[str]):
    """Remembers the messages that leave the short-term memory, and finds those that answer the newest message.

    Messages are nodes of the retriever's index with ``role`` and, if there is one, ``session_id`` in their metadata.
    Documents of the index are found too. Restrict the retriever with ``with_filters`` to keep users apart.

    Parameters
    ----------
    retriever
        What is searched, and whose index is written.
    metadata
        Metadata of the messages that are remembered, such as ``{"user": "ada"}``.
    max_tokens
        The budget of what is found.

    Examples
    --------
    ::

        memory = Memory.from_defaults(session_id="1", memory_blocks=[GraphRAGMemoryBlock(retriever=retriever)])
        await FunctionAgent(llm=llm, tools=[]).run("Who owns the Auth Service?", memory=memory)
    """

    name: str = "long_term_memory"
    description: str | None = "Passages and earlier messages that belong to the question."
    priority: int = 0  # never truncated: max_tokens limits it
    retriever: GraphRAGRetriever
    metadata: dict[str, Any] = Field(default_factory=dict)
    max_tokens: int = 1_000

    @override
    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        said = messages or []
        asked = [at for at, message in enumerate(said) if message.role == MessageRole.USER and message.content]
        if not asked:
            return ""
        result = await self.retriever.asearch(said[asked[-1]].content, history=said[: asked[-1]])
        return str(result.context(self.max_tokens, tokenizer=count_tokens)) if result.hits else ""

    @override
    async def _aput(self, messages: list[ChatMessage]) -> None:
        salt = await asyncio.to_thread(self.retriever.index.pipeline.salt)
        spoken = (MessageRole.USER, MessageRole.ASSISTANT)
        nodes = [self._node(message, salt) for message in messages if message.content and message.role in spoken]
        await self.retriever.ainsert_nodes(nodes)

    def _node(self, message: ChatMessage, salt: str) -> TextNode:
        role, session = message.role.value, message.additional_kwargs.get("session_id")
        key = fingerprint([salt, role, str(message.content), str(session), to_json(self.metadata)])
        metadata = {"role": role, **({"session_id": session} if session else {}), **self.metadata}
        hidden = ["session_id", *self.metadata]
        return TextNode(
            id_=f"message/{key}", text=message.content, metadata=metadata,
            excluded_embed_metadata_keys=hidden, excluded_llm_metadata_keys=hidden,
        )  # fmt: skip
