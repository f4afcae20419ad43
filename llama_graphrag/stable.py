"""Ids that a later run gives again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from llama_index.core.schema import BaseNode, RelatedNodeInfo

_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def with_stable_ids(nodes: Sequence[BaseNode]) -> list[BaseNode]:
    """Return nodes that a splitter made, their random ids changed for "<source id>#<number>".

    So documents with ids of their own can be indexed again without becoming twice as many. Ids
    that are not random, and nodes that are documents themselves, stay as they are.
    """
    seen: Counter[str] = Counter()
    renamed: dict[str, str] = {}
    for node in nodes:
        source = node.ref_doc_id
        if source is not None and source != node.node_id:
            if _RANDOM.fullmatch(node.node_id):
                renamed[node.node_id] = f"{source}#{seen[source]}"
            seen[source] += 1
    return [_renamed(node, renamed) for node in nodes]


def _renamed(node: BaseNode, names: dict[str, str]) -> BaseNode:
    def of(info: RelatedNodeInfo) -> RelatedNodeInfo:
        return info.model_copy(update={"node_id": names.get(info.node_id, info.node_id)})

    relationships = {
        kind: [of(one) for one in info] if isinstance(info, list) else of(info)
        for kind, info in node.relationships.items()
    }
    own = names.get(node.node_id, node.node_id)
    return node.model_copy(update={"id_": own, "relationships": relationships})
