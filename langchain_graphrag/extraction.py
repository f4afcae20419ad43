"""Entities and relations: found by a chat model, given as graph documents, stored with documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.runnables import Runnable

import graphrag_core
from graphrag_core import Combined, KnowledgeExtractor, LLMExtractor, SentenceExtractor
from graphrag_core.errors import InputError
from graphrag_core.extract.knowledge import strength_of
from graphrag_core.ports import Extractor
from langchain_graphrag.documents import Knowledge, knowledge_of, to_core_document, with_knowledge


def llm_extractor(llm: Runnable[Any, Any], **settings: Any) -> Combined:
    """Return an extractor that combines a chat model with the default sentence extractor.

    Parameters
    ----------
    llm
        A chat model, or any runnable that turns a prompt into a message or a string.
    settings
        Settings of :class:`graphrag_core.LLMExtractor`, such as ``cache="answers.sqlite"`` to
        avoid paying twice for the same passage, ``entity_types``, ``concurrency``, ``retries``.
    """
    if not callable(getattr(llm, "invoke", None)):
        raise InputError(f"{type(llm).__qualname__} is not a chat model: it needs invoke(prompt)")

    def complete(prompt: str) -> str:
        answer = llm.invoke(prompt)
        return answer if isinstance(answer, str) else str(answer.text)

    names = (getattr(llm, name, None) for name in ("model_name", "model", "model_id"))
    model = next((name for name in names if isinstance(name, str)), "")
    return Combined(SentenceExtractor(), LLMExtractor(complete, **{"model": model, **settings}))


class StoredKnowledgeExtractor(Combined):
    """Runs another extractor and adds the knowledge stored with the documents.

    It has the identity of the other extractor, so an index that was built by the core alone is not extracted again.
    Stored knowledge is part of the document's metadata: a change of it is detected without a new identity.
    """

    def __init__(self, extractor: Extractor | None) -> None:
        super().__init__(extractor or SentenceExtractor(), KnowledgeExtractor(knowledge=knowledge_of))

    @property
    def identity(self) -> str:
        """The identity of the other extractor."""
        return str(getattr(self.extractors[0], "identity", type(self.extractors[0]).__qualname__))


def from_graph_documents(graph_documents: Iterable[Any]) -> list[graphrag_core.Document]:
    """Return the source documents with the nodes and relationships of their graphs; one for each source."""
    documents: dict[str, graphrag_core.Document] = {}
    graphs: dict[str, list[Any]] = {}
    for graph in graph_documents:
        document = to_core_document(graph.source)
        documents[document.id] = document
        graphs.setdefault(document.id, []).append(graph)
    return [with_knowledge(document, _knowledge(graphs[name])) for name, document in documents.items()]


def _knowledge(graphs: Sequence[Any]) -> Knowledge:
    """Return the nodes and relationships of one source's graphs."""
    entities: dict[str, dict[str, str]] = {}
    relations = []
    for graph in graphs:
        ends = [end for relation in graph.relationships for end in (relation.source, relation.target)]
        entities |= {entity["name"]: entity for entity in map(_entity, (*ends, *graph.nodes)) if entity["name"]}
        relations += [_relation(relation) for relation in graph.relationships]
    return {"entities": list(entities.values()), "relations": relations}


def _entity(node: Any) -> dict[str, str]:
    kind = "" if node.type == "Node" else str(node.type)  # "Node" is LangChain's default for untyped nodes
    properties = dict(getattr(node, "properties", None) or {})
    description = properties.pop("description", None) or "; ".join(f"{key}: {properties[key]}" for key in properties)
    return {"name": str(node.id).strip(), "type": kind, "description": str(description)}


def _relation(relation: Any) -> dict[str, Any]:
    source, target, kind = (str(part).strip() for part in (relation.source.id, relation.target.id, relation.type))
    words = kind.replace("_", " ")
    properties = dict(getattr(relation, "properties", None) or {})
    text = str(properties.get("description") or f"{source} {words.lower() if words.isupper() else words} {target}")
    return {"source": source, "target": target, "type": kind, "description": text, "strength": strength_of(properties)}
