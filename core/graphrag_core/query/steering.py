"""Seeds and excludes of a query: entities at which the graph starts, and entities and documents to leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from difflib import SequenceMatcher
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from graphrag_core.errors import InputError
from graphrag_core.filters import DOCUMENT_ID, Filter, Hidden, parse, parse_all
from graphrag_core.ports import Adjacency, Engine, Keys, Kind, Matrix, Ranking, Sentences, Snapshot
from graphrag_core.text import normalise

_NEAR = 3  # names of similar spelling that an error lists
_PASSAGES = 30  # that are searched for such names
_LEAST_SIMILAR = 0.6
_MAX_UNNAMED = 5  # names without an entity that are listed


def without_documents(engine: Engine, scope: Filter | None, names: Sequence[str]) -> tuple[Filter | None, set[str]]:
    """Return a scope without the documents among some names, and their ids.

    Only documents of the scope count: what is outside is neither seen nor told.
    """
    found = set(engine.document_ids(parse_all(scope, {DOCUMENT_ID: {"in": names}}))) if names else set()
    hidden = Hidden(parse({DOCUMENT_ID: {"in": sorted(found)}})) if found else None
    return parse_all(scope, hidden), found


def without_entities(snapshot: Snapshot, names: Sequence[str]) -> Snapshot:
    """Return a snapshot whose graph lacks the entities among some names."""
    found = snapshot.find_entities([normalise(name) for name in names])
    keys = np.array(sorted(set(found.values())), np.int64)
    return cast("Snapshot", _Without(snapshot, keys)) if found else snapshot


def steer(
    snapshot: Snapshot,
    whole: Callable[[], AbstractContextManager[Snapshot]],
    exclude: Sequence[str],
    documents: set[str],
    seeds: Sequence[str],
) -> tuple[Snapshot, Keys, tuple[str, ...]]:
    """Return a snapshot without excluded entities, the entities of the seeds, and remarks on unused names.

    Parameters
    ----------
    snapshot, whole
        A snapshot without the excluded documents, and what opens one with them.
    exclude, documents
        Names of entities and ids of documents, and the ids among them.
    seeds
        Names of entities.

    Raises
    ------
    InputError
        A seed is unknown in the scope. The message lists names of similar spelling.
    """
    named = snapshot.find_entities(map(normalise, exclude))
    remarks = []
    if unnamed := [name for name in exclude if normalise(name) not in named and name not in documents]:
        remarks.append(f"exclude: no entity or document is named {', '.join(map(repr, unnamed[:_MAX_UNNAMED]))}")
    snapshot = without_entities(snapshot, exclude)
    keys, excluded = _find_seeds(snapshot, seeds, whole if exclude else None)
    if excluded:
        names = ", ".join(map(repr, excluded[:_MAX_UNNAMED]))
        remarks.append(f"seed_entities: {names} left out, since exclude names it or all documents that mention it")
    return snapshot, keys, tuple(remarks)


def _find_seeds(
    snapshot: Snapshot, seeds: Sequence[str], whole: Callable[[], AbstractContextManager[Snapshot]] | None
) -> tuple[Keys, list[str]]:
    """Return the entities of the seeds, and the seeds that are excluded. Raise ``InputError`` for an unknown seed."""
    norms = {name: normalise(name) for name in seeds}
    found = snapshot.find_entities(norms.values())
    missing = [name for name in seeds if norms[name] not in found]
    known: dict[str, int] = {}
    if missing and whole is not None:
        with whole() as everything:
            known = everything.find_entities([norms[name] for name in missing])
    for name in missing:
        if norms[name] not in known:
            near = did_you_mean(near_names(snapshot, name))
            hint = near or "no document in the scope names it: check the filter, or list the entities"
            raise InputError(f"seed_entities: no entity is named {name!r}: {hint}")
    keys = dict.fromkeys(found[norms[name]] for name in seeds if norms[name] in found)
    return np.array(list(keys), np.int64), missing


def did_you_mean(names: Sequence[str]) -> str:
    """Return the question whether one of some names was meant; an empty text for none."""
    return f"did you mean {' or '.join(map(repr, names))}?" if names else ""


def near_names(snapshot: Snapshot, name: str) -> list[str]:
    """Return the names most similar in spelling, from passages that have a part of the name.

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
        bounds = matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio  # the cheapest upper bound first
        if all(ratio() >= _LEAST_SIMILAR for ratio in bounds):
            scored.append((-matcher.ratio(), -entity.mentions, entity.name))
    return [near for _, _, near in sorted(scored)[:_NEAR]]


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

    def walk(self, nodes: Keys) -> Adjacency:
        return self._kept(nodes, self._inner.walk(nodes))

    def neighbours(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        return self._kept(nodes, self._inner.neighbours(nodes, to, limit))

    def mentions(self, chunks: Keys) -> Adjacency:
        return self._kept(chunks, self._inner.mentions(chunks))

    def sentences(self, chunks: Keys, terms: Sequence[str]) -> Sentences:
        of_chunks, facts, owners, of_facts = self._inner.sentences(chunks, terms)
        kept = self._facts(facts)
        return Sentences(of_chunks, facts[kept], owners[kept], of_facts[kept])

    def facts_of(self, entities: Keys, **options: Any) -> Keys:
        found = self._inner.facts_of(entities, **options)
        return found[self._facts(found)]

    def search_vectors(self, kind: Kind, vectors: Matrix, k: int) -> list[Ranking]:
        return [self._ranked(kind, ranking) for ranking in self._inner.search_vectors(kind, vectors, k)]

    def search_keywords(self, kind: Kind, text: str, k: int) -> Ranking:
        return self._ranked(kind, self._inner.search_keywords(kind, text, k))

    def facts_in(self, chunks: Keys) -> Keys:
        facts = self._inner.facts_in(chunks)
        return facts[self._facts(facts)]

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
