"""Convert LlamaIndex documents to nodes, nodes to core documents, and search hits back to nodes.

A node is stored as one document. Its metadata becomes the document's metadata, so that filters
work; the rest of the node (type, relationships, templates, extracted knowledge) is stored as
JSON under one extra metadata key.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_index.core.constants import DATA_KEY, TYPE_KEY
from llama_index.core.graph_stores.types import KG_NODES_KEY, KG_RELATIONS_KEY, EntityNode, LabelledNode, Relation
from llama_index.core.ingestion import run_transformations
from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
    TransformComponent,
)
from llama_index.core.schema import Document as LlamaDocument
from llama_index.core.settings import Settings
from llama_index.core.storage.docstore.utils import json_to_doc

from graphrag_core import Chunk, Document, Result
from graphrag_core.adapter import CITATION, added_metadata, to_core
from graphrag_core.errors import DocumentError, InputError
from graphrag_core.extract.knowledge import KnowledgeExtractor, strength_of
from graphrag_core.filters import json_value
from graphrag_core.ingest.chunker import whole_document
from graphrag_core.ingest.remembered import FACT_KEY
from graphrag_core.ingest.titles import stated_title, title_of
from graphrag_core.model import ADAPTER_KEY
from graphrag_core.result import joined_hits
from graphrag_core.text import chunk_text, label
from graphrag_core.text.markup import plain

SOURCE = f"{ADAPTER_KEY}.source"
"""The filter key for the id of the source document (``ref_doc_id``)."""

_KNOWLEDGE_KEYS = (KG_NODES_KEY, KG_RELATIONS_KEY)
_TITLE_KEYS = ("title", "name", "file_name")
_HEADING_KEYS = ("header_path", *(f"Header{separator}{level}" for separator in " _" for level in range(1, 7)))
_STATED = KnowledgeExtractor.key  # under which a document states entities and relations: no text for a model
_DESCRIPTION_KEYS = ("description", "entity_description", "relationship_description")
_UNTYPED = {"entity", "node", "__entity__"}  # labels of LlamaIndex and its stores for "no type"
_RANDOM_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


# -- documents to nodes


def split(
    documents: Sequence[LlamaDocument],
    transformations: Sequence[TransformComponent] | None,
    show_progress: bool | None = False,
) -> list[BaseNode]:
    """Return the nodes of documents, which are not changed.

    A random id that a splitter gave to a node is replaced by ``"<source id>#<number>"``, so that documents with stable
    ids can be indexed again without duplicates. The source of a node states the hash of the document as it was before
    the transformations: by it an unchanged document is known again.
    """
    for document in documents:
        if not isinstance(document, BaseNode):
            raise InputError(
                f"expected a LlamaIndex Document, got {type(document).__qualname__}: wrap a text as Document(text=...)"
            )
    copies = [document.model_copy(update={"metadata": dict(document.metadata)}) for document in documents]
    steps = Settings.transformations if transformations is None else transformations
    nodes = run_transformations(copies, steps, show_progress=bool(show_progress))
    hashes = {document.node_id: document.hash for document in documents}
    renamed = _stable_ids(nodes)

    def rename(info: RelatedNodeInfo) -> RelatedNodeInfo:
        return info.model_copy(update={"node_id": renamed.get(info.node_id, info.node_id)})

    stable = []
    for node in nodes:
        for relation in _relations(node):  # ImplicitPathExtractor writes ids of nodes into them
            relation.source_id = renamed.get(relation.source_id, relation.source_id)
            relation.target_id = renamed.get(relation.target_id, relation.target_id)
        relationships = _mapped(node, rename)
        info = node.source_node or RelatedNodeInfo(node_id=node.node_id)
        if info.node_id in hashes:
            relationships[NodeRelationship.SOURCE] = info.model_copy(update={"hash": hashes[info.node_id]})
        name = renamed.get(node.node_id, node.node_id)
        stable.append(node.model_copy(update={"id_": name, "relationships": relationships}))
    return stable


def _stable_ids(nodes: Sequence[BaseNode]) -> dict[str, str]:
    """Return the ids that replace random ones."""
    seen, renamed = Counter[str](), dict[str, str]()
    for node in nodes:
        source = node.ref_doc_id
        if source is not None and source != node.node_id:
            if _RANDOM_ID.fullmatch(node.node_id):
                renamed[node.node_id] = f"{source}#{seen[source]}"
            seen[source] += 1
    return renamed


def _mapped(node: BaseNode, change: Callable[[RelatedNodeInfo], RelatedNodeInfo]) -> dict[NodeRelationship, Any]:
    """Return the relationships of a node, each changed."""
    return {
        kind: [change(related) for related in info] if isinstance(info, list) else change(info)
        for kind, info in node.relationships.items()
    }


# -- nodes to documents


def to_documents(nodes: Sequence[BaseNode]) -> list[Document]:
    """Return one document for each node.

    The document's text is the node's text without metadata, so that entities are extracted
    from text alone; of raw HTML it is the readable text. A node whose metadata states no title
    gets the title of its source document: its first heading, or the name of its file.
    """
    first_nodes: dict[str, list[BaseNode]] = {}
    for node in nodes:
        if node.ref_doc_id and node.prev_node is None:
            first_nodes.setdefault(node.ref_doc_id, []).append(node)
    titles = {source: _source_title(first[0]) for source, first in first_nodes.items() if len(first) == 1}
    return [_to_document(node, titles.get(node.ref_doc_id or "", "")) for node in nodes]


def _source_title(first: BaseNode) -> str:
    """Return the title of the document whose first node this is."""
    source = first.source_node
    return title_of(_readable(first)) or (title_of(Document("", "", metadata=source.metadata)) if source else "")


def _readable(node: BaseNode) -> Document:
    """Return a node's text and metadata, without knowledge."""
    hidden = _KNOWLEDGE_KEYS if _has_knowledge(node) else ()
    metadata = {key: value for key, value in node.metadata.items() if key not in hidden}
    text = node.get_content(MetadataMode.NONE)
    return to_core(node.node_id, text if text.strip() else node.get_content(MetadataMode.EMBED), metadata)


def _to_document(node: BaseNode, source_title: str) -> Document:
    bare = _readable(node)
    title = "" if stated_title(bare.metadata) else source_title or bare.title
    try:
        update: dict[str, Any] = {"relationships": _mapped(node, _plain_info)}
        if isinstance(node, IndexNode) and not isinstance(node.obj, BaseNode):
            update["obj"] = None
        data = node.model_copy(update=update).to_dict(mode="json", exclude={"id_", "embedding", "metadata"})
    except Exception as error:
        raise DocumentError(node.node_id, f"the node cannot be stored as JSON: {error}") from error
    data.pop("metadata_seperator", None)  # releases up to 0.13 write this too, and prefer it to the other
    if data.get("text") == bare.text:
        del data["text"]
    rest: dict[str, Any] = {"node": data, "type": node.get_type()}
    if _has_knowledge(node):
        rest["knowledge"] = _read_knowledge(node)
    # Metadata values inside nested lists are not indexed for filters, so the JSON text costs no index entry.
    stored: dict[str, Any] = {
        "source": node.ref_doc_id or node.node_id,
        "kept": [[json.dumps(rest, ensure_ascii=False)]],
    }
    if (start := getattr(node, "start_char_idx", None)) is not None:
        stored["start"] = [[start]]
    return Document(node.node_id, bare.text, title, {**bare.metadata, ADAPTER_KEY: stored})


def _plain_info(info: RelatedNodeInfo) -> RelatedNodeInfo:
    """Return a relationship with its metadata as it is stored."""
    return info.model_copy(update={"metadata": json_value(info.metadata, "metadata")})


def embedding_text(node: BaseNode, document: Document) -> str | None:
    """Return the text to embed for a node, or None if it is that of the core.

    It is LlamaIndex's without markup, with title and heading once and at the start.
    """
    whole = whole_document(document)
    hidden = {*node.excluded_embed_metadata_keys, *_HEADING_KEYS}
    if isinstance(node.metadata.get(_STATED), (dict, list)):
        hidden.add(_STATED)
    for key in _TITLE_KEYS:
        if whole.title and title_of(Document("", "", metadata={key: node.metadata.get(key)})) == whole.title:
            hidden.add(key)
    if _has_knowledge(node):
        hidden.update(_KNOWLEDGE_KEYS)
    visible = node.model_copy(update={"excluded_embed_metadata_keys": sorted(hidden)})
    if (prose := plain(document.text)) != node.get_content(MetadataMode.NONE) and node.get_content(MetadataMode.NONE):
        visible.set_content(prose)
    start = label(whole.title, whole.headings)
    text = chunk_text(start, visible.get_content(MetadataMode.EMBED))
    return None if text == chunk_text(start, plain(whole.text)) else text


# -- stored documents


def is_node(document: Document) -> bool:
    """Return whether a stored document is a node; others were added without LlamaIndex."""
    return isinstance(document.metadata.get(ADAPTER_KEY), dict)


def stored_node(chunk: Chunk) -> BaseNode:
    """Return the node of a chunk as it was inserted."""
    stored = chunk.metadata.get(ADAPTER_KEY)
    own = {key: value for key, value in chunk.metadata.items() if key != ADAPTER_KEY}
    metadata = json.loads(json.dumps(own))  # a copy: the core may cache the result
    if not isinstance(stored, dict):  # a passage that was indexed without LlamaIndex
        hidden = [FACT_KEY] if FACT_KEY in metadata else []
        return TextNode(
            id_=chunk.id, text=chunk.text, start_char_idx=chunk.start, end_char_idx=chunk.start + len(chunk.text),
            metadata=metadata, excluded_embed_metadata_keys=[*hidden], excluded_llm_metadata_keys=[*hidden],
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=chunk.document_id)},
        )  # fmt: skip
    rest = json.loads(stored["kept"][0][0])
    data = {"text": chunk.text, **rest["node"], "id_": chunk.id, "metadata": metadata}
    return json_to_doc({DATA_KEY: data, TYPE_KEY: rest["type"]})


# -- hits to nodes


def to_nodes(result: Result, add_metadata: tuple[str, ...]) -> list[NodeWithScore]:
    """Return the nodes of a result as they were inserted. What is added to their metadata replaces nothing of it.

    What cannot be cited is hidden from the LLM and from the embedding.
    """
    found = []
    for hit in joined_hits(result.hits):
        node = stored_node(hit.chunk)
        if hit.expanded is not None:
            node.set_content(hit.chunk.text)
            if isinstance(node, TextNode) and node.start_char_idx is not None:
                node.start_char_idx, node.end_char_idx = hit.expanded.start, hit.expanded.end
        added = added_metadata(result, hit, add_metadata)
        if "document_id" in added:
            added["document_id"] = node.ref_doc_id or hit.chunk.document_id
        added = {name: value for name, value in added.items() if name not in node.metadata}
        hidden = [name for name in added if name not in CITATION]
        if isinstance(node.metadata.get(_STATED), (dict, list)):
            hidden.append(_STATED)
        node.metadata.update(added)
        node.excluded_embed_metadata_keys.extend(hidden)
        node.excluded_llm_metadata_keys.extend(hidden)
        found.append(NodeWithScore(node=node, score=hit.score))
    return found


# -- knowledge: entities and relations that a LlamaIndex extractor wrote to a node's metadata


def _has_knowledge(node: BaseNode) -> bool:
    """Return whether an extractor processed the node; a user's own metadata under these keys does not count."""
    entities, relations = (node.metadata.get(key) for key in _KNOWLEDGE_KEYS)
    if not _is_list_of(LabelledNode, entities) or not _is_list_of(Relation, relations):
        return False
    return bool(entities or relations) or (entities is not None and relations is not None)


def knowledge_of(chunk: Chunk) -> Mapping[str, Any] | None:
    """Return the knowledge stored with a chunk's node."""
    stored = chunk.metadata.get(ADAPTER_KEY)
    return json.loads(stored["kept"][0][0]).get("knowledge") if isinstance(stored, dict) else None


def description_of(item: LabelledNode | Relation) -> str:
    """Return the description of an entity or a relation, or an empty string."""
    texts = (item.properties.get(key) for key in _DESCRIPTION_KEYS)
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


def _read_knowledge(node: BaseNode) -> dict[str, Any]:
    """Return a node's entities and relations for the core.

    Only names, types, descriptions and strengths are used: extractors copy the node's metadata into the
    other properties, and a property with the node's own value is such a copy. Relations between nodes
    (next, previous, source) are left out.
    """
    entities = [entity for entity in node.metadata.get(KG_NODES_KEY) or () if isinstance(entity, EntityNode)]
    names = {entity.id: entity.name for entity in entities}
    # The order of the keys is stored: another one would make every node look changed.
    found: dict[str, list[dict[str, Any]]] = {"entities": [], "relations": []}
    for entity in entities:
        kind = "" if entity.label.lower() in _UNTYPED else entity.label
        found["entities"].append({"name": entity.name, "type": kind, "description": description_of(entity)})
    for relation in _relations(node):
        if node.node_id not in (relation.source_id, relation.target_id):
            source, target = (names.get(end, end) for end in (relation.source_id, relation.target_id))
            own = {key: value for key, value in relation.properties.items() if node.metadata.get(key) != value}
            about = {"description": description_of(relation), "strength": strength_of(own)}
            found["relations"].append({"source": source, "type": relation.label, "target": target, **about})
    return found


def _relations(node: BaseNode) -> list[Relation]:
    """Return the relations that an extractor wrote to a node."""
    relations = node.metadata.get(KG_RELATIONS_KEY)
    return relations if relations and _is_list_of(Relation, relations) else []


def _is_list_of(kind: type, values: Any) -> bool:
    return values is None or (isinstance(values, list) and all(isinstance(value, kind) for value in values))
