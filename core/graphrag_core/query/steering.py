"""Steering a query: entities from which the graph starts, and entities and documents that it leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from difflib import SequenceMatcher
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from graphrag_core.errors import InputError
from graphrag_core.filters import DOCUMENT_ID, Condition, Filter, Group, Hidden
from graphrag_core.ports import Adjacency, Engine, Keys, Kind, Matrix, Ranking, Scores, Snapshot
from graphrag_core.text import normalise

_NEAR = 3  # names of similar spelling that an error lists
_PASSAGES = 30  # that are searched for such names
_LEAST_SIMILAR = 0.6


def without_documents(engine: Engine, scope: Filter | None, names: Sequence[str]) -> tuple[Filter | None, set[str]]:
    """Return a scope without the documents among some names, and their ids.

    Only documents of the scope count: what is outside is neither seen nor told.
    """
    if not names:
        return scope, set()
    own = Condition(DOCUMENT_ID, "in", tuple(("text", name) for name in names))
    found = set(engine.document_ids(own if scope is None else Group(all=True, parts=(scope, own))))
    if not found:
        return scope, found
    hidden = Hidden(Condition(DOCUMENT_ID, "in", tuple(("text", name) for name in sorted(found))))
    return hidden if scope is None else Group(all=True, parts=(scope, hidden)), found


def without_entities(snapshot: Snapshot, names: Sequence[str], known: set[str]) -> tuple[Snapshot, list[str]]:
    """Return a snapshot whose graph lacks the entities among some names, and the names that name nothing.

    ``known`` are those that are documents.
    """
    found = snapshot.find_entities([normalise(name) for name in names])
    unknown = [name for name in names if normalise(name) not in found and name not in known]
    if not found:
        return snapshot, unknown
    keys = np.array(sorted(set(found.values())), np.int64)
    return cast("Snapshot", _Without(snapshot, keys)), unknown


def seed_keys(
    snapshot: Snapshot, names: Sequence[str], everything: Callable[[], AbstractContextManager[Snapshot]] | None = None
) -> tuple[Keys, list[str]]:
    """Return the entities of some names, and the names that only excluded documents have.

    ``everything`` opens a snapshot of the scope without exclusions; None if nothing is excluded.

    Raises
    ------
    InputError
        A name is unknown in the scope. The message lists names of similar spelling.
    """
    norms = {name: normalise(name) for name in names}
    found = snapshot.find_entities(norms.values())
    missing = [name for name, norm in norms.items() if norm not in found]
    excluded: list[str] = []
    if missing and everything is not None:
        with everything() as whole:
            known = whole.find_entities([norms[name] for name in missing])
        excluded = [name for name in missing if norms[name] in known]
    for name in missing:
        if name not in excluded:
            near = near_names(snapshot, name)
            hint = did_you_mean(near) or "no document in the scope names it: check the filter, or list the entities"
            raise InputError(f"seed_entities: no entity is named {name!r}: {hint}")
    keys = dict.fromkeys(found[norm] for norm in norms.values() if norm in found)
    return np.array(list(keys), np.int64), excluded


def did_you_mean(names: Sequence[str]) -> str:
    """Return the question whether one of some names was meant; an empty text for none."""
    return f"did you mean {' or '.join(map(repr, names))}?" if names else ""


def near_names(snapshot: Snapshot, name: str) -> list[str]:
    """Return the names most similar in spelling, among those of passages that have a part of the name.

    A part with a spelling mistake is in no passage, so the most mentioned entities are looked at, too.
    """
    passages, _ = snapshot.search_keywords("chunks", name, _PASSAGES)
    keys = np.union1d(snapshot.neighbours(passages, to="entities").targets, snapshot.top_entities(5_000))
    wanted = normalise(name)
    scored = []
    for entity in snapshot.entities(keys):
        if entity.id.startswith("→"):
            continue
        matcher = SequenceMatcher(None, wanted, entity.id, autojunk=False)
        if matcher.real_quick_ratio() < _LEAST_SIMILAR or matcher.quick_ratio() < _LEAST_SIMILAR:
            continue
        if (ratio := matcher.ratio()) >= _LEAST_SIMILAR:
            scored.append((-ratio, -entity.mentions, entity.name))
    return [one for _, _, one in sorted(scored)[:_NEAR]]


class _Without:
    """A snapshot in which some entities have no edges, no facts and no names. Everything else is the snapshot's."""

    def __init__(self, snapshot: Snapshot, excluded: Keys) -> None:
        self._inner = snapshot
        self._excluded = excluded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _kept(self, nodes: Keys, edges: Adjacency) -> Adjacency:
        """Return the edges of nodes without those from and to an excluded entity."""
        owners = np.repeat(np.arange(len(nodes)), edges.counts)
        gone = np.isin(edges.targets, self._excluded) | np.isin(nodes, self._excluded)[owners]
        if not gone.any():
            return edges
        lost = np.bincount(owners[gone], edges.weights[gone], len(nodes)).astype(edges.totals.dtype)
        return Adjacency(
            np.bincount(owners[~gone], minlength=len(nodes)).astype(edges.counts.dtype),
            edges.targets[~gone],
            edges.weights[~gone],
            (edges.totals - lost).clip(0),
        )

    def _facts(self, facts: Keys) -> npt.NDArray[np.bool_]:
        """Return which facts hold no excluded entity."""
        rows = self._inner.fact_rows(facts)
        owners = np.repeat(np.arange(len(facts)), rows.counts)
        kept: npt.NDArray[np.bool_] = np.bincount(owners, np.isin(rows.entities, self._excluded), len(facts)) == 0
        return kept

    def walk(self, nodes: Keys, masses: npt.NDArray[np.float64], damping: float, least: float) -> Adjacency:
        return self._kept(nodes, self._inner.walk(nodes, masses, damping, least))

    def neighbours(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        return self._kept(nodes, self._inner.neighbours(nodes, to, limit))

    def subjects(self, chunks: Keys) -> Adjacency:
        return self._kept(chunks, self._inner.subjects(chunks))

    def facts_of(
        self,
        entities: Keys,
        *,
        joint: bool = False,
        relations: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Keys:
        found = self._inner.facts_of(entities, joint=joint, relations=relations, limit=limit)
        return found[self._facts(found)]

    def outgoing_facts(self, entity: int, limit: int) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        facts, confidence, accessed = self._inner.outgoing_facts(entity, limit)
        kept = self._facts(facts)
        return facts[kept], confidence[kept], accessed[kept]

    def search_vectors(self, kind: Kind, vectors: Matrix, k: int) -> list[Ranking]:
        return [self._ranked(kind, ranking) for ranking in self._inner.search_vectors(kind, vectors, k)]

    def search_keywords(self, kind: Kind, text: str, k: int) -> Ranking:
        return self._ranked(kind, self._inner.search_keywords(kind, text, k))

    def _ranked(self, kind: Kind, ranking: Ranking) -> Ranking:
        keys, scores = ranking
        if kind == "chunks" or not len(keys):
            return ranking
        kept = self._facts(keys) if kind == "facts" else ~np.isin(keys, self._excluded)
        return keys[kept], scores[kept]

    def find_entities(self, names: Iterable[str]) -> dict[str, int]:
        gone = set(self._excluded.tolist())
        return {name: key for name, key in self._inner.find_entities(names).items() if key not in gone}

    def top_entities(self, count: int) -> Keys:
        found = self._inner.top_entities(count + len(self._excluded))
        return found[~np.isin(found, self._excluded)][:count]
