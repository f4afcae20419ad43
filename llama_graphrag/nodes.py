"""Nodes to documents of the core, and hits back to the nodes they were."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from llama_index.core.constants import DATA_KEY, TYPE_KEY
from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore.utils import json_to_doc

from graphrag_core import Chunk, Document, Hit, Result
from graphrag_core.errors import DocumentError
from graphrag_core.ingest.chunk import title_of
from graphrag_core.query.account import account
from graphrag_core.text import chunk_text
from llama_graphrag.knowledge import KNOWLEDGE_KEYS, carries_knowledge, read_knowledge

REPORT = "graphrag"
"""The metadata key under which a retrieved node says how it was found."""

_OURS = "__graphrag__"
SOURCE = f"{_OURS}.source"
"""What the core filters on to find the nodes of a source document."""

_TITLE_KEYS = ("title", "name", "file_name")


def to_documents(nodes: Iterable[BaseNode]) -> list[Document]:
    """Return the documents that keep nodes, each whole.

    A document's text is the node's own, without metadata, so that entities are read in text
    alone. The node's metadata lies flat in the document's, for filters; everything else that
    makes the node lies beside it under one key.
    """
    nodes = list(nodes)
    headings = _headings(nodes)
    return [_document(node, headings.get(node.ref_doc_id or "", "")) for node in nodes]


def _headings(nodes: Iterable[BaseNode]) -> dict[str, str]:
    """Return by source document the title of its first node, where a heading stands, if one node is the first."""
    first: dict[str, list[BaseNode]] = {}
    for node in nodes:
        if node.ref_doc_id and node.prev_node is None:
            first.setdefault(node.ref_doc_id, []).append(node)
    return {source: title_of(_bare(found[0])) for source, found in first.items() if len(found) == 1}


def embedding_text(node: BaseNode, document: Document) -> str:
    """Return what is embedded for a node: what LlamaIndex would, with the title in the core's way and once."""
    title = title_of(document)
    hidden = {*node.excluded_embed_metadata_keys, REPORT}
    hidden.update(key for key in _TITLE_KEYS if title and _title_in(node.metadata, key) == title)
    if carries_knowledge(node):
        hidden.update(KNOWLEDGE_KEYS)
    shown = node.model_copy(update={"excluded_embed_metadata_keys": sorted(hidden)})
    return chunk_text(title, shown.get_content(MetadataMode.EMBED))


def is_node(document: Document) -> bool:
    """Tell a node from a document that was added without LlamaIndex."""
    return _OURS in document.metadata


def known_in(chunk: Chunk) -> Mapping[str, Any] | None:
    """Return the knowledge that came with a chunk's node."""
    kept = _kept(chunk.metadata)
    return kept.get("knowledge") if kept else None


def to_nodes(result: Result) -> list[NodeWithScore]:
    """Return the nodes of a result as they were put in, each with the report of how it was found."""
    return [NodeWithScore(node=_found(hit, result), score=hit.score) for hit in result.hits]


class Reported(dict[str, Any]):
    """Metadata with a report, which its text leaves out.

    LlamaIndex hashes a text node by the text of its metadata, and its fusion takes nodes of
    one hash for one node: without this, a node found here and by another retriever would be two.
    """

    def __str__(self) -> str:
        return str({key: value for key, value in self.items() if key != REPORT})


def _found(hit: Hit, result: Result) -> BaseNode:
    node = _node(hit.chunk)
    return node.model_copy(
        update={
            "metadata": Reported(node.metadata, **{REPORT: account(result, hit)}),
            "excluded_embed_metadata_keys": [*node.excluded_embed_metadata_keys, REPORT],
            "excluded_llm_metadata_keys": [*node.excluded_llm_metadata_keys, REPORT],
        }
    )


def _node(chunk: Chunk) -> BaseNode:
    kept = _kept(chunk.metadata)
    shown = {key: value for key, value in chunk.metadata.items() if key != _OURS}
    metadata = json.loads(json.dumps(shown))  # the core may remember its result: what is handed out is a copy
    if kept is None:  # a passage of an index that was filled without LlamaIndex
        return TextNode(
            id_=chunk.id,
            text=chunk.text,
            metadata=metadata,
            start_char_idx=chunk.start,
            end_char_idx=chunk.start + len(chunk.text),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=chunk.document_id)},
        )
    data = {"text": chunk.text, **kept["node"], "id_": chunk.id, "metadata": metadata}
    return json_to_doc({DATA_KEY: data, TYPE_KEY: kept["type"]})


def _document(node: BaseNode, heading: str) -> Document:
    bare = _bare(node)
    title = "" if title_of(replace(bare, text="")) else heading  # a title in the metadata is the node's own
    exclude = {"id_", "embedding", "metadata"}
    keeps_obj = isinstance(node, IndexNode) and isinstance(node.obj, BaseNode)
    plain = node if keeps_obj or not isinstance(node, IndexNode) else node.model_copy(update={"obj": None})
    try:
        data = plain.to_dict(mode="json", exclude=exclude)
    except Exception as error:
        raise DocumentError(node.node_id, f"the node cannot be written as JSON: {error}") from error
    data.pop("metadata_seperator", None)  # releases up to 0.13 write this too, and read it in place of the other
    for key in ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys"):
        data[key] = [name for name in data[key] if name != REPORT]
    if data.get("text") == bare.text:
        del data["text"]
    kept: dict[str, Any] = {"node": data, "type": node.get_type()}
    if carries_knowledge(node):
        kept["knowledge"] = read_knowledge(node)
    # Filters look into mappings and lists but not into lists of lists: what is kept costs no index.
    ours = {"source": node.ref_doc_id or node.node_id, "kept": [[json.dumps(kept, ensure_ascii=False)]]}
    return Document(node.node_id, bare.text, title, {**bare.metadata, _OURS: ours})


def _bare(node: BaseNode) -> Document:
    metadata = {key: value for key, value in node.metadata.items() if key != REPORT}
    if carries_knowledge(node):
        metadata = {key: value for key, value in metadata.items() if key not in KNOWLEDGE_KEYS}
    text = node.get_content(MetadataMode.NONE)
    return Document(node.node_id, text if text.strip() else node.get_content(MetadataMode.EMBED), metadata=metadata)


def _title_in(metadata: Mapping[str, Any], key: str) -> str:
    return title_of(Document("", "", metadata={key: metadata.get(key)}))


def _kept(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    if (ours := metadata.get(_OURS)) is None:
        return None
    kept: dict[str, Any] = json.loads(ours["kept"][0][0])
    return kept
