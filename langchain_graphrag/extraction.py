"""What language models read in documents, for the graph: asked here, or asked before by LangChain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from langchain_core.runnables import Runnable

from graphrag_core import Chunk, Combined, Extraction, Fact, LLMExtractor, Mention, SentenceExtractor
from graphrag_core.errors import InputError
from graphrag_core.ports import Extractor
from graphrag_core.text import fingerprint, normalise

Told = Mapping[str, Extraction]
_told: ContextVar[Told | None] = ContextVar("told", default=None)


def llm_extractor(llm: Runnable[Any, Any], **settings: Any) -> Combined:
    """Return an extractor that asks a chat model, beside the one that reads sentences.

    Parameters
    ----------
    llm
        A chat model, or anything that turns a prompt into a message or a text.
    settings
        As for :class:`graphrag_core.LLMExtractor`: ``cache="answers.sqlite"`` so that nothing
        is paid for twice, ``entity_types``, ``concurrency``, ``retries``.
    """
    if not callable(getattr(llm, "invoke", None)):
        raise InputError(f"{type(llm).__qualname__} is no chat model: it needs invoke(prompt)")
    model = next((name for key in ("model_name", "model") if isinstance(name := getattr(llm, key, None), str)), "")

    def complete(prompt: str) -> str:
        answer = llm.invoke(prompt)
        return answer if isinstance(answer, str) else str(answer.text)

    return Combined(SentenceExtractor(), LLMExtractor(complete, **{"model": model, **settings}))


class Reader:
    """Reads with another extractor, and adds what the caller was told of the same documents."""

    def __init__(self, extractor: Extractor) -> None:
        self.extractor = extractor

    @property
    def identity(self) -> str:
        """The other's identity; while there is something told, that too."""
        own = str(getattr(self.extractor, "identity", type(self.extractor).__qualname__))
        told = _told.get()
        return f"{own} + {fingerprint(f'{key}{told[key]!r}' for key in sorted(told))}" if told else own

    def extract(self, chunks: Sequence[Chunk]) -> Sequence[Extraction]:
        """Return one extraction for each chunk, in order."""
        told = _told.get()
        return self.extractor.extract(chunks) if told is None else Combined(self.extractor, _Told(told)).extract(chunks)


class _Told:
    def __init__(self, told: Told) -> None:
        self.told = told

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        return [self.told.get(chunk.document_id, Extraction()) for chunk in chunks]


@contextmanager
def told(extractions: Told | None) -> Iterator[None]:
    """Let a :class:`Reader` know extractions by document, inside."""
    token = _told.set(extractions)
    try:
        yield
    finally:
        _told.reset(token)


def read_graph(graph_documents: Iterable[Any], ids: Sequence[str]) -> dict[str, Extraction]:
    """Return what graph documents say, by the id of their source; those of one source are joined."""
    mentions: dict[str, dict[Mention, None]] = {}
    facts: dict[str, dict[Fact, None]] = {}
    for graph, source in zip(graph_documents, ids, strict=True):
        ends = [end for relation in graph.relationships for end in (relation.source, relation.target)]
        nodes = {mention.name: mention for end in ends if (mention := _mention(end))}
        nodes |= {mention.name: mention for node in graph.nodes if (mention := _mention(node))}
        mentions.setdefault(source, {}).update(dict.fromkeys(nodes.values()))
        stated = (fact for relation in graph.relationships if (fact := _fact(relation)))
        facts.setdefault(source, {}).update(dict.fromkeys(stated))
    return {source: Extraction(tuple(mentions[source]), tuple(facts[source])) for source in mentions}


def _mention(node: Any) -> Mention | None:
    name = str(node.id).strip()
    if not normalise(name):
        return None
    kind = "" if node.type == "Node" else str(node.type).lower()  # Node is LangChain's word for no type
    properties = dict(getattr(node, "properties", None) or {})
    described = properties.pop("description", None) or "; ".join(f"{key}: {properties[key]}" for key in properties)
    return Mention(name, kind, str(described))


def _fact(relation: Any) -> Fact | None:
    source, target, kind = (str(part).strip() for part in (relation.source.id, relation.target.id, relation.type))
    if not (normalise(source) and normalise(target) and kind):
        return None
    words = kind.replace("_", " ")
    described = (getattr(relation, "properties", None) or {}).get("description")
    text = str(described or f"{source} {words.lower() if words.isupper() else words} {target}")
    return Fact((source, target), text, relation=kind)
