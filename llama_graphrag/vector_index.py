"""The nodes of an existing ``VectorStoreIndex``, with their embeddings where its store gives them."""

from __future__ import annotations

from llama_index.core.indices.vector_store.base import VectorStoreIndex
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.simple import SimpleVectorStore

from graphrag_core.errors import InputError


def read_index(index: VectorStoreIndex) -> list[BaseNode]:
    """Return the index's nodes; those whose embedding could be had carry it."""
    store = index.vector_store
    ids = index.index_struct.nodes_dict  # from the store's ids to the docstore's
    if isinstance(store, SimpleVectorStore):  # keeps every embedding; a node without one was deleted
        vectors = {ids[key]: vector for key, vector in store.data.embedding_dict.items() if key in ids}
        nodes = index.docstore.get_nodes(list(vectors), raise_error=False)
        return [node.model_copy(update={"embedding": vectors[node.node_id]}) for node in nodes]
    nodes = index.docstore.get_nodes(list(ids.values()), raise_error=False)
    if not store.stores_text:
        return list(nodes)
    try:
        stored = store.get_nodes()
    except (NotImplementedError, TypeError, ValueError) as error:
        name = type(store).__qualname__
        raise InputError(f"{name} does not give its nodes back ({error}): pass them to from_nodes") from error
    own = {node.node_id: node for node in stored}
    return list({**own, **{node.node_id: node for node in nodes if node.node_id not in own}}.values())
