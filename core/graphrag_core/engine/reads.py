"""``Reads``: what a question reads of arrays and rows, in one generation and scope. Edits do not apply here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.engine import analysis
from graphrag_core.engine.adjacency import Graph
from graphrag_core.engine.arrays import Flags, Numbers
from graphrag_core.engine.attributes import AttributeColumns
from graphrag_core.engine.records import Records
from graphrag_core.engine.rows import Accesses, keyword_fields
from graphrag_core.engine.segments import FACT_BITS, LAST_FACT
from graphrag_core.engine.vectors import Vectors
from graphrag_core.engine.view import View
from graphrag_core.filters import Filter, Group, Hidden, asked_keys, mark_unknown, unknown_keys
from graphrag_core.key_sets import among, best, ranges
from graphrag_core.model import Chunk, Fact
from graphrag_core.ports import Keys, Kind, Matrix, Ranking, Scores
from graphrag_core.text import EDGE
from graphrag_core.text.markup import plain

EmbedTokens = Callable[[Keys, npt.NDArray[Any]], Matrix] | None
"""Makes the vectors of facts of their tokens; None if the embedder has no tokens."""

_MOST_SCOPES = 16  # of a generation, that are kept
_AHEAD = 4  # times as many names are searched as are wanted in a scope


class Scope:
    """What questions with the same filter share: which passages they see, and their graph.

    Attributes
    ----------
    seen
        Which passages are in scope; None for all that were not deleted.
    size
        How many these are.
    unknown_keys
        The keys of the filter that no document has.
    rows
        Values that were read in this scope, by kind.
    """

    def __init__(self, view: View, seen: Flags | None, unknown: tuple[str, ...] = ()) -> None:
        self.seen, self.unknown_keys = seen, unknown
        self.size = view.size if seen is None else int(np.count_nonzero(seen))
        self.graph = Graph(view, seen)
        self.visible = seen if seen is not None else view.alive if view.dead else None
        self.rows: dict[str, Any] = {}


class NameVectors:
    """The vectors of names, which are read when the first question needs them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: Keys = np.empty(0, np.int64)
        self._vectors = Vectors(0)

    def current(self, records: Records) -> tuple[Keys, Vectors]:
        """Return the keys of all names that have or had a vector, and the vectors."""
        with self._lock:
            last = int(self._keys[-1]) if len(self._keys) else -1
            keys, vectors = records.all_name_vectors(last)
            if len(keys):
                self._vectors = self._vectors.appended(vectors, len(self._keys), len(keys))
                self._keys = np.concatenate([self._keys, keys])
            return self._keys, self._vectors


class Reads:
    """One generation of an index, restricted to a scope.

    Passages, facts and entities are given by the numbers of the view. Entities follow the passages.
    """

    def __init__(
        self, view: View, records: Records, scope: Filter | None, columns: AttributeColumns, names: NameVectors,
        accesses: Accesses, embed_tokens: EmbedTokens = None,
    ) -> None:  # fmt: skip
        self.view, self.records, self.accesses = view, records, accesses
        self._embed_tokens = embed_tokens
        self._columns, self._names = columns, names
        self.scope = self._scope(scope)
        self.graph = self.scope.graph
        self.meta = records.meta()

    def _scope(self, scope: Filter | None) -> Scope:
        """Return what questions with this scope share. What is hidden depends on the time, and rarely changes."""
        chosen, hidden = parts_of(scope)
        gone = np.flatnonzero(self.matching(hidden)) if hidden is not None else np.empty(0, np.int64)
        known: dict[Any, Scope] = self.view.derived("scopes", dict)
        key = chosen, gone.tobytes()
        if (found := known.get(key)) is None:
            found = self._new_scope(chosen, gone)
            if len(known) >= _MOST_SCOPES:
                known.clear()
            known[key] = found
        return found

    def _new_scope(self, chosen: Filter | None, gone: Keys) -> Scope:
        view, documents, unknown = self.view, self.view["passage_document"].all(), tuple[str, ...]()
        seen = view.alive.copy()
        if chosen is not None:
            chosen = self.marked(chosen)
            unknown = unknown_keys(chosen)
            seen &= self.matching(chosen)[documents]
        if len(gone):
            seen &= ~among(documents, gone)
        everything = np.count_nonzero(seen) == view.size
        return Scope(view, None if everything else seen, unknown)

    def matching(self, scope: Filter) -> Flags:
        """Return which documents match a filter, by key."""
        documents = self.view["passage_document"]
        last = documents.tail if len(documents.tail) else documents.base
        count = int(last[-1]) + 1 if len(last) else 0
        return self._columns.matches(scope, count, self.records.attribute)

    def marked(self, scope: Filter) -> Filter:
        """Return a filter whose comparisons with keys that no document has are marked, so that they match nothing."""
        names = asked_keys(scope)
        unknown = {*names}.difference(self.records.metadata_keys(names)) if names else set()
        return mark_unknown(scope, unknown) if unknown else scope

    # -- rankings

    def nearest(self, vectors: Matrix, k: int) -> list[Ranking]:
        """Return for each vector the nearest ``k`` passages by cosine, and what ties with the last."""
        return self.view.vectors.search(vectors, k, self.scope.visible)

    def nearest_names(self, vectors: Matrix, k: int) -> list[Ranking]:
        """Return for each vector the nearest ``k`` names, given by key."""
        keys, store = self._names.current(self.records)
        if len(keys) == 0:
            return [(keys, np.empty(0, np.float32)) for _ in np.atleast_2d(vectors)]
        numbers = self.view["name"].find(keys)
        written = numbers >= 0
        written[written] = self.view.uses.take(numbers[written]) > 0
        if self.scope.seen is None:
            rankings = store.search(vectors, k, written)
            return [(keys[at], scores) for at, scores in rankings]
        wanted = _AHEAD * k
        while True:
            rankings = []
            for at, scores in store.search(vectors, wanted, written):
                seen = self.graph.uses(keys[at]) > 0
                rankings.append(best(keys[at[seen]], scores[seen], k))
            if wanted >= len(keys) or all(len(found) >= k for found, _ in rankings):
                return rankings
            wanted *= _AHEAD

    def has(self, kind: Kind, *, vectors: bool = False) -> bool:
        """Return whether there are any passages, facts or entities, or any vectors of them."""
        view = self.view
        if vectors:
            if kind == "entities":
                return bool(self.records.rows("SELECT EXISTS (SELECT 1 FROM name_vectors)")[0][0])
            has_any = view.vectors.dim > 0 and view.size > 0
            return has_any and (kind == "chunks" or self._embed_tokens is not None)
        if self.scope.size == 0:
            return False
        if kind == "entities":
            return bool(view.derived("has_entities", lambda: bool(view.exists.any())))
        facts = view["fact_passage"]
        return kind == "chunks" or (len(facts) > 0 and (view.dead == 0 or bool(view.alive[facts.all()].any())))

    def keywords(self, text: str, k: int) -> Ranking:
        """Return the best ``k`` passages by BM25, and what ties with the last."""
        return self.view.postings().search(text, k, self.scope.seen, self._bodies)

    def _bodies(self, passages: Keys) -> list[str]:
        return [keyword_fields(c.title, c.headings, (), plain(c.text))[0] for c in self.chunks(passages)]

    def counts(self, terms: Sequence[str]) -> Keys:
        """Return the number of passages of all documents that have each term, 0 for one that none in scope has."""
        return self.view.postings().counts(terms, self.scope.seen)

    def cosines(self, passages: Keys, vector: Matrix) -> Scores:
        """Return the cosines of passages. Row by row: a matrix product rounds a row differently by its position."""
        if self.view.vectors.dim == 0:
            return np.zeros(len(passages), np.float32)
        scores: Scores = np.vecdot(self.view.vectors.take(passages), vector)
        return scores

    def cosines_of_facts(self, facts: Keys, vector: Matrix) -> Scores:
        """Return the cosines of facts, whose vectors are made of their tokens."""
        if self._embed_tokens is None or len(facts) == 0:
            return np.zeros(len(facts), np.float32)
        scores: Scores = np.vecdot(self._embed_tokens(*self.fact_tokens(facts)), vector)
        return scores

    # -- passages

    def find(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the passages in scope with some ids."""
        keys = self.records.keys_of_passages(ids)
        numbers = self.view["passage"].find(np.array([*keys.values()], np.int64))
        seen = self.view.alive if self.scope.seen is None else self.scope.seen
        pairs = zip(keys, numbers.tolist(), strict=True)
        return {name: number for name, number in pairs if number >= 0 and seen[number]}

    def keys(self, passages: Keys) -> list[int]:
        """Return the keys of passages."""
        keys: list[int] = self.view["passage"].take(passages).tolist()
        return keys

    def chunks(self, passages: Keys) -> list[Chunk]:
        """Return passages in the order given."""
        return self.records.chunks(self.keys(passages))

    def sentences(self, passages: Keys, terms: Sequence[str]) -> npt.NDArray[np.uint32]:
        """Return in which sentences of passages terms are: a row for each passage, a column for each term.

        The bits are those of :mod:`graphrag_core.engine.segments`.
        """
        found = np.zeros((len(passages), len(terms)), np.uint32)
        table = self.view.forward["term"]
        starts, counts = table.locate(passages)
        at = ranges(starts, counts)
        column = analysis.matched(table.values[0].take(at), terms)
        hit = np.flatnonzero(column >= 0)
        found[np.arange(len(passages)).repeat(counts)[hit], column[hit]] = table.values[1].take(at[hit])
        return found

    def tokens(self, passages: Keys) -> tuple[Keys, npt.NDArray[np.uint16]]:
        """Return the number of token ids of each passage, and the ids one passage after the other."""
        return self.view.forward["token"].gather(passages)

    # -- facts

    def fact_tokens(self, facts: Keys) -> tuple[Keys, npt.NDArray[np.uint16]]:
        """Return the number of tokens of each fact, and their ids: of a sentence with the label of its passage."""
        passages, numbers = self.fact_places(facts)
        own, place = np.unique(passages, return_inverse=True)
        counts, sizes = self.view.forward["part"].gather(own)
        first = counts.cumsum() - counts
        ends = sizes.cumsum(dtype=np.int64)
        starts = ends - sizes - (np.append(ends, 0)[first - 1] * (first > 0)).repeat(counts)  # within the passage
        has = (counts >= 2)[place]
        at = np.minimum(first[place] + 1 + numbers, max(len(sizes) - 1, 0))
        label = np.minimum(first[place], max(len(sizes) - 1, 0))
        begin = self.view.forward["token"].starts.take(passages)
        if len(sizes) == 0:
            return np.zeros(len(facts), np.int64), np.empty(0, np.uint16)
        of_label = np.where(has & ~self.view["fact_triple"].take(facts), sizes[label].astype(np.int64), 0)
        of_fact = np.where(has, sizes[at].astype(np.int64), 0)
        spans = np.stack([begin, begin + starts[at]], axis=1).ravel()
        lengths = np.stack([of_label, of_fact], axis=1).ravel()
        ids: npt.NDArray[np.uint16] = self.view.forward["token"].values[0].take(ranges(spans, lengths))
        return of_label + of_fact, ids

    def facts_of(self, passages: Keys) -> tuple[Numbers, Keys, Numbers]:
        """Return how many facts passages have, the facts, and the number of each in its passage."""
        starts, counts = self.view.forward["fact"].locate(passages)
        return counts, ranges(starts, counts), ranges(np.zeros_like(counts), counts)

    def fact_places(self, facts: Keys) -> tuple[Keys, Keys]:
        """Return the passage of each fact, and its number in it."""
        passages = self.view["fact_passage"].take(facts).astype(np.int64)
        return passages, facts - self.view.forward["fact"].starts.take(passages)

    def fact_keys(self, facts: Keys) -> Keys:
        """Return the keys of facts."""
        passages, numbers = self.fact_places(facts)
        return self.view["passage"].take(passages) << FACT_BITS | numbers

    def fact_numbers(self, keys: Keys) -> Keys:
        """Return the facts of keys."""
        passages = self.view["passage"].find(keys >> FACT_BITS)
        return np.asarray(self.view.forward["fact"].starts.take(passages) + (keys & ((1 << FACT_BITS) - 1)), np.int64)

    def facts(self, facts: Keys) -> list[tuple[list[int], Fact]]:
        """Return the names that facts hold, and the facts without entities."""
        keys, pending = self.fact_keys(facts).tolist(), self.accesses.pending
        rows = self.records.facts(keys)
        return [
            (names, accessed(fact, pending[key]) if key in pending else fact)
            for key, (names, fact) in zip(keys, rows, strict=True)
        ]

    def fact_columns(self, facts: Keys) -> tuple[Scores, Keys]:
        """Return the weights of facts, and numbers that are equal for facts that say the same."""
        return self.view["fact_weight"].take(facts), self.view["fact_statement"].take(facts)

    def with_relations(self, facts: Keys, relations: Sequence[str]) -> Keys:
        """Return the facts that are triples of some relations."""
        keys = self.fact_keys(facts)
        return facts[np.isin(keys, self.records.with_relations(keys, relations))]

    def outgoing(self, facts: Keys, names: Keys) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        """Return the facts whose subject is an entity, given by its names, with confidence and last access time."""
        pending, subjects = self.accesses.pending, set(names.tolist())
        both_ways = set(self.records.keys_of_name(EDGE)) if self.graph.has_edges else set()
        rows = [
            (key, confidence, pending[key][1] if key in pending else last)
            for key, relation, ends, confidence, last in self.records.ends(self.fact_keys(facts))
            if relation is None or (ends and (ends[0] in subjects or ends[-1] in both_ways))
        ]
        keys, confidences, times = [*zip(*rows, strict=True)] or ((), (), ())
        numbers = self.fact_numbers(np.array(keys, np.int64))
        return numbers, np.array(confidences, np.float32), np.array(times, np.float64)

    # -- names

    def name_terms(self, names: Keys) -> tuple[Keys, npt.NDArray[np.uint32]]:
        """Return the terms of names as hashes: the number of terms of each name, and the terms."""
        counts, terms = self.view.forward["name_term"].gather(self.view["name"].find(names))
        return counts, terms.astype(np.uint32)

    def claims(self, names: Sequence[int]) -> list[tuple[int, str, str]]:
        """Return the types and descriptions that passages in scope give to names."""
        rows = self.records.claims(names)
        if self.scope.visible is None or not rows:
            return [row[1:] for row in rows]
        numbers = self.view["passage"].find(np.array([row[0] for row in rows], np.int64))
        return [row[1:] for row, at in zip(rows, numbers.tolist(), strict=True) if at >= 0 and self.scope.visible[at]]


def fact_bits(numbers: Numbers) -> npt.NDArray[np.uint32]:
    """Return the bits of facts in a mask of sentences, given their numbers in their passages."""
    return np.minimum(numbers + 1, LAST_FACT).astype(np.uint32)


def accessed(fact: Fact, more: tuple[int, float]) -> Fact:
    """Return a fact with accesses that are not stored yet."""
    return Fact(
        fact.entities, fact.text, fact.relation, fact.weight, fact.confidence, fact.source, fact.status, fact.value,
        fact.created, more[1], fact.access_count + more[0], fact.span, fact.id, fact.chunk_id, fact.valid_from,
        fact.valid_to,
    )  # fmt: skip


def parts_of(scope: Filter | None) -> tuple[Filter | None, Filter | None]:
    """Return what a caller chose, and what is hidden from every query."""
    if isinstance(scope, Hidden):
        return None, scope.part
    if isinstance(scope, Group) and scope.all and len(scope.parts) == 2 and isinstance(scope.parts[1], Hidden):
        return scope.parts[0], scope.parts[1].part
    return scope, None
