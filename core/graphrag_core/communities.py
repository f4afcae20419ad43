"""Communities of entities: groups that are linked with each other more than with the rest, by the Leiden algorithm.

References
----------
Traag, Waltman and van Eck (2019). From Louvain to Leiden: guaranteeing well-connected communities.
"""

from __future__ import annotations

import os
import random
import re
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from graphrag_core.deadline import check_deadline
from graphrag_core.model import Community, Entity
from graphrag_core.ports import Keys
from graphrag_core.text import FUNCTION, has_cjk
from graphrag_core.text.words import WORD

if TYPE_CHECKING:
    from graphrag_core.engine.snapshot import Snapshot

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_SEED = 19
_MIN_ENTITIES = 3  # of a community that is returned
_MAX_ENTITIES = 200_000  # the most mentioned ones
_MAX_LENGTH = 60  # of a name, in characters
_MAX_NAMES = 8
_MAX_WORDS = 4  # of a name; a longer one is a heading
_NAMES_IN_NAME = 3
_PAGE = 2_000
_DOMAIN = re.compile(r"[\w.-]+\.[a-z]{2,4}", re.IGNORECASE)  # of an address
_LETTERS = re.compile(r"[^\W\d_]{2}")
_RNG_LOCK = threading.Lock()
if hasattr(os, "register_at_fork"):  # another thread may have held it
    os.register_at_fork(after_in_child=_RNG_LOCK._at_fork_reinit)  # type: ignore[attr-defined]  # noqa: SLF001


def find_communities(snapshot: Snapshot) -> list[Community]:
    """Return the communities of the entities of a snapshot, the largest first.

    An edge weighs ``log(1 + weight)``, divided by the fourth root of how often its two ends are mentioned, so that
    names that occur everywhere do not join everything.
    """
    keys = snapshot.top_entities(_MAX_ENTITIES)
    entities, edges, weights = _read(snapshot, keys)
    if not entities:
        return []
    groups = _partition(len(entities), edges, weights)
    inside = groups[edges[:, 0]] == groups[edges[:, 1]]
    strengths = np.bincount(edges[inside].T.ravel(), np.tile(weights[inside], 2), len(entities))
    order = np.lexsort((-np.round(strengths, 9), groups))
    members = np.split(order, np.cumsum(np.bincount(groups))[:-1])
    members = [group for group in members if len(group) >= _MIN_ENTITIES]
    members.sort(key=len, reverse=True)
    communities = list[Community]()
    for group in members:
        linked = [entities[at] for at in group.tolist()]  # the most strongly linked first
        names, ids = _typical_names(linked), tuple(entity.id for entity in linked)
        name = ", ".join(names[:_NAMES_IN_NAME]) or linked[0].name
        communities.append(Community(ids[0], name, tuple(names), len(linked), ids))
    return communities


def _read(snapshot: Snapshot, keys: Keys) -> tuple[list[Entity], Ints, Floats]:
    """Return entities, and the edges between them with their weights, each edge once."""
    entities = list[Entity]()
    pairs, weights = [np.empty((0, 2), np.int64)], [np.empty(0)]
    order = np.argsort(keys)
    for start in range(0, len(keys), _PAGE):
        check_deadline()
        page = keys[start : start + _PAGE]
        entities += snapshot.entities(page)
        found = snapshot.neighbours(page, to="entities")
        sources = np.repeat(np.arange(start, start + len(page)), found.counts)
        targets = order[np.searchsorted(keys, found.targets, sorter=order).clip(max=len(keys) - 1)]
        kept = (keys[targets] == found.targets) & (sources < targets)
        pairs.append(np.column_stack([sources[kept], targets[kept]]))
        weights.append(found.weights[kept].astype(np.float64))
    edges = np.concatenate(pairs)
    mentions = np.array([entity.mentions for entity in entities], np.float64).clip(1)
    return entities, edges, np.log1p(np.concatenate(weights)) / mentions[edges].prod(axis=1) ** 0.25


def _partition(count: int, edges: Ints, weights: Floats) -> Ints:
    """Return the group of each of ``count`` nodes, by the Leiden algorithm for modularity, with a fixed seed."""
    import igraph  # noqa: PLC0415 - imports matplotlib if that is installed, which takes long

    graph = igraph.Graph(count, edges.tolist())
    with _RNG_LOCK:
        igraph.set_random_number_generator(random.Random(_SEED))  # noqa: S311 - no secret
        try:
            found = graph.community_leiden("modularity", weights=weights.tolist(), n_iterations=4)
        finally:
            igraph.set_random_number_generator(random)
    return np.array(found.membership, np.int64)


def _typical_names(entities: Iterable[Entity]) -> list[str]:
    """Return the first names: no numbers, headings or domains, and none whose words another one has."""
    names: dict[str, set[str]] = {}
    for entity in entities:
        words = set(WORD.findall(entity.name.casefold()))
        is_part = any(words <= other or other <= words for other in names.values())
        if not is_part and not entity.id.startswith("→") and _is_name(entity.name):
            names[entity.name] = words
        if len(names) == _MAX_NAMES:
            break
    return [*names]


def _is_name(text: str) -> bool:
    """Return whether a text is a name and not a number, a heading or an address.

    >>> [_is_name(text) for text in ("Auth Service", "2024", "Limits and the Project", "example.org")]
    [True, False, False, False]
    """
    words = text.lower().split()
    is_heading = len(words) > _MAX_WORDS or (len(words) > 1 and not FUNCTION.isdisjoint(words))
    has_letters = _LETTERS.search(text) or has_cjk(text)
    return bool(has_letters) and not is_heading and len(text) <= _MAX_LENGTH and not _DOMAIN.fullmatch(text)
