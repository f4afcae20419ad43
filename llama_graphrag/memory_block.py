"""``GraphRAGMemoryBlock``: a retriever as the long-term memory of a LlamaIndex agent."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.schema import TextNode
from pydantic import Field, field_validator
from typing_extensions import override

from graphrag_core.filters import parse_all
from graphrag_core.ingest.validation import to_json
from graphrag_core.query.per_request import OfRequest, filter_of_memory, per_request
from graphrag_core.text import fingerprint
from llama_graphrag.models import count_tokens
from llama_graphrag.retriever import GraphRAGRetriever


class GraphRAGMemoryBlock(BaseMemoryBlock[str]):
    """Remembers the messages that leave the short-term memory, and finds those that answer the newest message.

    Messages are nodes of the retriever's index with ``role`` and, if there is one, ``session_id`` in their metadata.
    Documents of the index are found too. One block serves all users if ``metadata`` is a function.

    Parameters
    ----------
    retriever
        What is searched, and whose index is written.
    metadata
        Metadata of the messages that are remembered, such as ``{"user": "ada"}``; or a function of the ``session_id``
        of the ``Memory``: ``metadata=lambda session_id: {"user": users[session_id]}``. If the function returns nothing,
        an empty mapping, or an empty value, :class:`~graphrag_core.errors.InputError` ends the run, and nothing is
        searched or remembered.
    where
        Narrows the retriever's filters, in the form of :mod:`graphrag_core.filters`, or a function of the
        ``session_id``. If ``metadata`` is a function, it is the filter too, unless there is another one.
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
    metadata: dict[str, Any] | OfRequest = Field(default_factory=dict)
    where: Any = None
    max_tokens: int = 1_000

    @field_validator("where")
    @classmethod
    def _read_once(cls, where: Any) -> Any:
        return where if callable(where) else parse_all(where)

    @override
    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        said = messages or []
        asked = [at for at, message in enumerate(said) if message.role == MessageRole.USER and message.content]
        if not asked:
            return ""
        where = filter_of_memory(self.where, self.metadata, type(self).__name__)(block_kwargs.get("session_id"))
        history = said[: asked[-1]]
        result = await self.retriever.asearch(said[asked[-1]].content, where=where, history=history)
        return str(result.context(self.max_tokens, tokenizer=count_tokens)) if result.hits else ""

    @override
    async def _aput(self, messages: list[ChatMessage]) -> None:
        salt = await asyncio.to_thread(self.retriever.index.pipeline.salt)
        spoken = (MessageRole.USER, MessageRole.ASSISTANT)
        nodes = [self._node(message, salt) for message in messages if message.content and message.role in spoken]
        await self.retriever.ainsert_nodes(nodes)

    def _node(self, message: ChatMessage, salt: str) -> TextNode:
        role, session = message.role.value, message.additional_kwargs.get("session_id")
        own = per_request(self.metadata, f"metadata of {type(self).__name__}", dict)(session)
        key = fingerprint([salt, role, str(message.content), str(session), to_json(own)])
        metadata = {"role": role, **({"session_id": session} if session else {}), **own}
        hidden = ["session_id", *own]
        return TextNode(
            id_=f"message/{key}", text=message.content, metadata=metadata,
            excluded_embed_metadata_keys=hidden, excluded_llm_metadata_keys=hidden,
        )  # fmt: skip
