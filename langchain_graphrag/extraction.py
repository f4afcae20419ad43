"""What language models read in documents, for the graph: asked here, or asked before by LangChain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.runnables import Runnable

import graphrag_core
from graphrag_core import Chunk, Combined, Extraction, KnowledgeExtractor, LLMExtractor, SentenceExtractor
from graphrag_core.errors import InputError
from graphrag_core.ports import Extractor
from langchain_graphrag.documents import Knowledge, knowing, known_in, to_core


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
    """Reads with another extractor, and adds what came with the documents.

    Its identity is the other's: what came with a document is part of it, and tells by itself
    when it changes. So a folder that the core filled is not read anew.
    """

    def __init__(self, extractor: Extractor) -> None:
        self._both = Combined(extractor, KnowledgeExtractor(knowledge=known_in))
        self.identity = str(getattr(extractor, "identity", type(extractor).__qualname__))

    def extract(self, chunks: Sequence[Chunk]) -> Sequence[Extraction]:
        """Return one extraction for each chunk, in order."""
        return self._both.extract(chunks)


def sources_of(graph_documents: Iterable[Any]) -> list[graphrag_core.Document]:
    """Return the sources of graph documents as the core takes them, each with what was found in it."""
    graphs = list(graph_documents)
    taken = [to_core([graph.source])[0] for graph in graphs]
    known = read_graph(graphs, [document.id for document in taken])
    sources = {document.id: document for document in taken}
    return [knowing(document, known[name]) for name, document in sources.items()]


def read_graph(graph_documents: Iterable[Any], ids: Sequence[str]) -> dict[str, Knowledge]:
    """Return what graph documents say, by the id of their source; those of one source are joined.

    In the plain values that :class:`graphrag_core.KnowledgeExtractor` reads.
    """
    entities: dict[str, dict[str, dict[str, str]]] = {}
    relations: dict[str, list[dict[str, str]]] = {}
    for graph, source in zip(graph_documents, ids, strict=True):
        ends = [end for relation in graph.relationships for end in (relation.source, relation.target)]
        found = (_entity(node) for node in (*ends, *graph.nodes))
        entities.setdefault(source, {}).update((entity["name"], entity) for entity in found if entity["name"])
        relations.setdefault(source, []).extend(_relation(relation) for relation in graph.relationships)
    return {
        source: {"entities": list(entities[source].values()), "relations": relations[source]} for source in entities
    }


def _entity(node: Any) -> dict[str, str]:
    kind = "" if node.type == "Node" else str(node.type)  # Node is LangChain's word for no type
    properties = dict(getattr(node, "properties", None) or {})
    described = properties.pop("description", None) or "; ".join(f"{key}: {properties[key]}" for key in properties)
    return {"name": str(node.id).strip(), "type": kind, "description": str(described)}


def _relation(relation: Any) -> dict[str, str]:
    source, target, kind = (str(part).strip() for part in (relation.source.id, relation.target.id, relation.type))
    words = kind.replace("_", " ")
    described = (getattr(relation, "properties", None) or {}).get("description")
    text = str(described or f"{source} {words.lower() if words.isupper() else words} {target}")
    return {"source": source, "target": target, "type": kind, "description": text}
