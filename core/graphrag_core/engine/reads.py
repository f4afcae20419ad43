"""``Reads``: the numbers that a question reads of an index, in one generation and scope; edits are applied."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from graphrag_core.engine import analysis
from graphrag_core.engine.arrays import Flags
from graphrag_core.engine.counters import kept_rows
from graphrag_core.engine.edits import SUBJECT_WEIGHT, EditedGraph
from graphrag_core.engine.name_vectors import NameVectors
from graphrag_core.engine.records import Records
from graphrag_core.engine.rows import Accesses, keyword_fields
from graphrag_core.engine.scope import Scope
from graphrag_core.engine.segments import FACT_BITS, LAST_FACT, PASSAGE
from graphrag_core.engine.view import View
from graphrag_core.key_sets import distinct, ranges
from graphrag_core.model import Chunk, Fact
from graphrag_core.ports import Adjacency, FactRows, Keys, Matrix, Ranking, Scores, Sentences
from graphrag_core.text import EDGE, hash64, normalise
from graphrag_core.text.markup import plain

EmbedTokens = Callable[[Keys, npt.NDArray[np.uint16]], Matrix] | None
"""Makes the vectors of facts of their tokens; None if the embedder has no tokens."""

_OPENING = 200  # characters at the beginning of a passage, which may open with the name of what it is about
_OPENING_WORDS = 8  # of a passage, among which the name that it opens with is looked up
_TOP_CANDIDATES = 3  # for each entity wanted, since numbers are left out
_MOST_LINKED = 64  # entities of a fact that are linked with each other


class Reads(ABC):
    """What :class:`~graphrag_core.engine.snapshot.Snapshot` reads as numbers, and the passages.

    Attributes
    ----------
    generation, token, numbering
        The number of changes the index has seen, and the token of the last one. Snapshots of a generation with one
        numbering have the same keys.
    chunk_count, statistics_count
        The number of passages, and of those of all documents.
    first_entity, node_limit
        Keys of passages are below the first number, keys of entities are not; all keys are below the second.
    has_vectors, has_entities
        Whether passages have vectors, and whether they mention entities.
    unknown_keys
        The metadata keys of the scope that no document of the index has.
    walk, degrees, entity_counts, entity_ids, entities_of
        The mentions of nodes, how many each has, how many passages mention each entity, the ids of entities, which
        other snapshots know, and the entities that facts hold: how many each has, and which.
    are_triples, order, tokens
        Which facts have a relation; numbers that sort passages by id; the number of token ids of each passage, and the
        ids one passage after the other.
    """

    def __init__(
        self, view: View, records: Records, scope: Scope, names: NameVectors, accesses: Accesses,
        embed_tokens: EmbedTokens = None,
    ) -> None:  # fmt: skip
        self.view, self.records, self.scope, self.accesses = view, records, scope, accesses
        self.name_vectors, self._embed_tokens = names, embed_tokens
        self.graph: Scope | EditedGraph = scope
        edits = records.meta().get("edits", "")
        if edits or scope.has_edges:
            self.graph = EditedGraph(scope, edits, self.named_facts)
        self.generation, self.token, self.numbering = view.generation, view.token, view.numbering
        self.unknown_keys, self.chunk_count, self.statistics_count = scope.unknown_keys, scope.size, view.size
        self.first_entity, self.node_limit = scope.first_entity, scope.node_limit
        self.walk, self.degrees, self.entity_counts = self.graph.walk, self.graph.degrees, self.graph.entity_counts
        self.entities_of, self.entity_ids = self.graph.entities_of, self.graph.ids
        self.are_triples, self.order, self.tokens = scope.are_triples, view.id_order, view.forward["token"].gather
        self.has_vectors = view.vectors.dim > 0 and view.size > 0
        self.has_entities = scope.size > 0 and bool(view.exists.any())
        self._counts: dict[str, int] = {}  # passages that have a term

    @abstractmethod
    def named_facts(self, facts: Keys) -> list[tuple[list[int], Fact]]:
        """Return the ids of the names that facts hold, and the facts."""

    # -- search

    terms = staticmethod(analysis.content_terms)
    """Return the terms of a text as keyword search sees them: stemmed, without stop words, each once."""

    def nearest(self, vectors: Matrix, k: int) -> list[Ranking]:
        """Return for each vector the nearest ``k`` passages by cosine, and what ties with the last."""
        return self.view.vectors.search(vectors, k, self.scope.visible)

    def keywords(self, text: str, k: int) -> Ranking:
        """Return the best ``k`` passages by BM25 with a positive score, and what ties with the last.

        Phrases in quotation marks count as phrases.
        """

        def bodies(passages: Keys) -> list[str]:
            return [keyword_fields(c.title, c.headings, (), plain(c.text))[0] for c in self.chunks(passages)]

        return self.view.postings.search(text, k, self.scope.filtered, bodies)

    def term_counts(self, terms: Sequence[str]) -> Keys:
        """Return how many passages of all documents contain each term in their title, headings or text.

        0 for a term that no passage in scope contains: a score must not tell whether other documents contain a word.
        """
        if missing := [term for term in terms if term not in self._counts]:
            counts = self.view.postings.counts(missing, self.scope.filtered)
            self._counts.update(zip(missing, counts.tolist(), strict=True))
        return np.array([self._counts[term] for term in terms], np.int64)

    def cosines(self, passages: Keys, vector: Matrix | None) -> Scores:
        """Return the cosines of passages; 0 without vectors. Row by row: a product of matrices rounds differently."""
        if vector is None or self.view.vectors.dim == 0:
            return np.zeros(len(passages), np.float32)
        scores: Scores = np.vecdot(self.view.vectors.take(passages), vector)
        return scores

    def fact_cosines(self, facts: Keys, vector: Matrix | None) -> Scores:
        """Return the cosines of facts, whose vectors are made of their tokens; 0 without.

        Those of a sentence are its own with the label of its passage. The tokens of a passage are those of its label,
        of each fact and of the rest; ``part`` has their numbers.
        """
        passages, numbers = self._fact_places(facts)
        own, place = np.unique(passages, return_inverse=True)
        counts, sizes = self.view.forward["part"].gather(own)
        if vector is None or self._embed_tokens is None or len(sizes) == 0:
            return np.zeros(len(facts), np.float32)
        first = (counts.cumsum() - counts)[place]
        before = sizes.cumsum(dtype=np.int64) - sizes
        at, label = np.minimum(first + 1 + numbers, len(sizes) - 1), np.minimum(first, len(sizes) - 1)
        has = (counts >= 2)[place]
        of_label = np.where(has & ~self.view.columns["fact_triple"].take(facts), sizes[label].astype(np.int64), 0)
        of_fact = np.where(has, sizes[at].astype(np.int64), 0)
        tokens = self.view.forward["token"]
        begin = tokens.starts.take(passages)
        spans = np.stack([begin, begin + before[at] - before[label]], axis=1).ravel()
        ids = tokens.values[0].take(ranges(spans, np.stack([of_label, of_fact], axis=1).ravel()))
        scores: Scores = np.vecdot(self._embed_tokens(of_label + of_fact, ids), vector)
        return scores

    @property
    def has_name_vectors(self) -> bool:
        """Whether names have vectors."""
        return bool(self.records.rows("SELECT EXISTS (SELECT 1 FROM name_vectors)")[0][0])

    # -- passages

    def chunks(self, passages: Keys) -> list[Chunk]:
        """Return passages in the order given."""
        return self.records.chunks(self.view.columns["passage"].take(passages).tolist())

    def find_chunks(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the passages in scope with some ids."""
        keys = self.records.keys_of_passages(ids)
        numbers = self.view.columns["passage"].find(np.array([*keys.values()], np.int64))
        seen = self.view.alive if self.scope.visible is None else self.scope.visible
        pairs = zip(keys, numbers.tolist(), strict=True)
        return {name: number for name, number in pairs if number >= 0 and seen[number]}

    def documents_of(self, passages: Keys) -> Keys:
        """Return a number for each passage, which passages of the same document share."""
        return self.view.columns["passage_document"].take(passages).astype(np.int64)

    def sentences(self, passages: Keys, terms: Sequence[str]) -> Sentences:
        """Return which terms passages and each of their facts contain."""
        starts, counts = self.view.forward["fact"].locate(passages)
        facts, owners = ranges(starts, counts), np.arange(len(passages)).repeat(counts)
        if isinstance(self.graph, EditedGraph):
            seen = ~self.graph.hidden(facts)
            facts, owners = facts[seen], owners[seen]
        # In which sentences of each passage terms are, as the bits of :mod:`graphrag_core.engine.segments`.
        table, masks = self.view.forward["term"], np.zeros((len(passages), len(terms)), np.uint32)
        begin, counts = table.locate(passages)
        at = ranges(begin, counts)
        hit, column = analysis.matched(table.values[0].take(at), terms)
        masks[np.arange(len(passages)).repeat(counts)[hit], column] = table.values[1].take(at[hit])
        bits = np.minimum(facts - starts[owners] + 1, LAST_FACT).astype(np.uint32)
        of_facts = masks[owners] >> bits[:, None] & 1
        return Sentences(masks & PASSAGE > 0, facts, owners, of_facts.astype(np.bool_))

    # -- entities

    def find_entities(self, names: Iterable[str]) -> dict[str, int]:
        """Return the entities of normalised names; unknown names are left out."""
        # A question names no address but that of a file.
        by_id = {hash64(name): name for name in names if name[:1] != "→" or name[1:2] == "/"}
        if not by_id:
            return {}
        found = {
            by_id[name_id]: entities[0] if len(entities) == 1 else self.most_mentioned(entities)
            for name_id, entities in self.graph.find([*by_id]).items()
        }
        introduced = self.graph.new_names[1]
        return found | {by_id[name_id]: entity for name_id, entity in introduced.items() if name_id in by_id}

    def most_mentioned(self, entities: Sequence[int]) -> int:
        """Return one of the entities of a name. Of equal ones an alias counts more than the name itself, the first."""
        counts = self.entity_counts(np.array(entities, np.int64)).tolist()
        ranked = ((count, at > 0, -entity) for at, (count, entity) in enumerate(zip(counts, entities, strict=True)))
        return -max(ranked)[2]

    def top_entities(self, count: int) -> Keys:
        """Return the entities that the most passages mention, most first; no numbers, such as years."""
        return self.without_numbers(self.graph.top(_TOP_CANDIDATES * count))[:count]

    def without_numbers(self, entities: Keys) -> Keys:
        """Remove entities that are numbers."""
        ids = self.graph.ids(entities)
        return entities[~np.isin(ids, self.records.numbers_among(ids))]

    def in_names(self, entities: Keys, terms: Sequence[str]) -> Flags:
        """Return which terms the names of entities contain: a row for each entity."""
        found = np.zeros((len(entities), len(terms)), np.bool_)
        counts, names = self.graph.names(entities)
        sizes, numbers = self.view.forward["name_term"].gather(names)
        hit, term = analysis.matched(numbers, terms)
        found[np.arange(len(entities)).repeat(counts).repeat(sizes)[hit], term] = True
        new_names = self.graph.new_names[0]
        for row, entity in enumerate(entities.tolist() if new_names else ()):
            if entity in new_names:
                own = analysis.content_terms(normalise(new_names[entity]))
                found[row] |= [term in own for term in terms]
        return found

    # -- mentions and relations

    def mentions(self, passages: Keys) -> Adjacency:
        """Return the entities that passages mention, in the order in which they were found.

        An entity that a passage is about weighs 6. A passage that is about none is about the one with the longest name
        that it opens with.
        """
        edges = self.walk(passages)
        counts, targets, weights = edges
        has_subject = kept_rows(counts, weights == SUBJECT_WEIGHT) > 0
        without = np.flatnonzero(~has_subject & (counts > 0))
        if len(without):
            ids, ends, weights = self.graph.ids(targets), counts.cumsum(), weights.copy()
            for at, chunk in zip(without.tolist(), self.chunks(passages[without]), strict=True):
                start, end = ends[at] - counts[at], ends[at]
                if (opened := _opened(chunk.text[:_OPENING], ids[start:end].tolist())) is not None:
                    weights[start + opened] = SUBJECT_WEIGHT
        return edges._replace(weights=weights)

    def neighbours(self, nodes: Keys, to: str = "", limit: int | None = None) -> Adjacency:
        """Return the edges of nodes; with ``to`` those that lead to ``"chunks"`` or ``"entities"``.

        With ``limit`` the strongest edges of each node, strongest first, ties by key.
        """
        is_entity = nodes >= self.first_entity
        walked = ~is_entity if to == "entities" else is_entity if to == "chunks" else nodes >= 0
        counts, targets, weights = self.walk(nodes[walked])
        owner = np.flatnonzero(walked).repeat(counts)
        if to != "chunks" and is_entity.any():
            of, others, sums = self._links(nodes[is_entity])
            owner = np.concatenate([owner, np.flatnonzero(is_entity)[of]])
            targets, weights = np.concatenate([targets, others]), np.concatenate([weights, sums])
        # Strongest first; of equal ones passages by key, then entities by id.
        to_entity = targets >= self.first_entity
        keys = np.empty(len(targets), np.int64)
        keys[~to_entity] = self.view.columns["passage"].take(targets[~to_entity])
        keys[to_entity] = self.graph.ids(targets[to_entity])
        order = np.lexsort((keys, to_entity, np.zeros(len(owner)) if limit is None else -weights, owner))
        owner, targets, weights = owner[order], targets[order], weights[order]
        counts = np.bincount(owner, minlength=len(nodes))
        if limit is not None:
            first = np.arange(len(owner)) - (counts.cumsum() - counts).repeat(counts) < limit
            owner, targets, weights, counts = owner[first], targets[first], weights[first], np.minimum(counts, limit)
        return Adjacency(counts, targets, weights)

    def _links(self, entities: Keys) -> tuple[Keys, Keys, Scores]:
        """Return the entities that share a fact with each: the position of the entity, the other one, and the weight.

        The weight is the sum of a tenth of the weights of these facts. A fact of many entities is a list, which does
        not relate each to each.
        """
        counts, facts = self.graph.facts_of(entities)
        owner, every = np.arange(len(entities)).repeat(counts), distinct(facts)
        sizes, held = self.graph.entities_of(every)
        at = every.searchsorted(facts)
        wanted = np.where(sizes[at] > _MOST_LINKED, 0, sizes[at])
        owner, other = owner.repeat(wanted), held[ranges((sizes.cumsum() - sizes)[at], wanted)]
        strength = (
            (self.view.columns["fact_weight"].take(facts) / 10).astype(np.float32).astype(np.float64).repeat(wanted)
        )
        related = other != entities[owner]
        bits = self.node_limit.bit_length()
        codes, place = np.unique(owner[related] << bits | other[related], return_inverse=True)
        sums = np.round(np.bincount(place, strength[related], len(codes)), 6).astype(np.float32)
        codes, sums = codes[sums != 0], sums[sums != 0]
        return codes >> bits, codes & ((1 << bits) - 1), sums

    # -- facts

    def fact_rows(self, facts: Keys) -> FactRows:
        """Return facts as columns, in the order given."""
        passages, weights = self.view.columns["fact_passage"].take(facts), self.view.columns["fact_weight"].take(facts)
        return FactRows(facts, passages.astype(np.int64), weights, *self.graph.entities_of(facts))

    def facts_of(
        self, entities: Keys, *, joint: bool = False, relations: Sequence[str] | None = None, limit: int | None = None
    ) -> Keys:
        """Return the facts that hold any of some entities, or with ``joint`` all of them, in order of key.

        ``relations`` restricts them to triples of these relations, ``limit`` restricts their number per entity.
        """
        wanted = distinct(entities)
        _, facts = self.graph.facts_of(wanted, limit)
        if len(wanted) > 1:
            facts, holders = np.unique(facts, return_counts=True)
            facts = facts[holders == len(wanted)] if joint else facts
        if relations is None or len(facts) == 0:
            return facts
        keys = self.fact_keys(facts)
        return facts[np.isin(keys, self.records.with_relations(keys, relations))]

    def first_said(self, facts: Keys) -> Keys:
        """Return the positions of facts in the order of their ids; of those that say the same only the first."""
        order = np.argsort(self.fact_order(facts))
        _, first = np.unique(self.view.columns["fact_statement"].take(facts[order]), return_index=True)
        return order[np.sort(first)]

    def fact_order(self, facts: Keys) -> Keys:
        """Return numbers that sort facts by the id of their passage and their place in it."""
        passages, numbers = self._fact_places(facts)
        _, places = np.unique(self.view.id_order(passages), return_inverse=True)
        return places << FACT_BITS | numbers

    def outgoing_facts(self, entity: int, facts: Keys) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        """Return which of an entity's facts start at it: sentences, and triples whose subject it is.

        With each fact's confidence and the time of its last access, or of its creation if it was never accessed.
        """
        pending, subjects = (
            self.accesses.pending,
            {*self.view.columns["name"].take(self.graph.names(np.array([entity]))[1]).tolist()},
        )
        both_ways = {*self.records.keys_of_name(EDGE)} if self.scope.has_edges else set()
        rows = [
            (key, confidence, pending[key][1] if key in pending else last)
            for key, relation, ends, confidence, last in self.records.ends(self.fact_keys(facts))
            if relation is None or (ends and (ends[0] in subjects or ends[-1] in both_ways))
        ]
        keys, confidences, times = [*zip(*rows, strict=True)] or ((), (), ())
        wanted = np.array(keys, np.int64)
        first = self.view.forward["fact"].starts.take(self.view.columns["passage"].find(wanted >> FACT_BITS))
        numbers = np.asarray(first + (wanted & ((1 << FACT_BITS) - 1)), np.int64)
        return numbers, np.array(confidences, np.float32), np.array(times, np.float64)

    def record_access(self, facts: Keys, now: float) -> None:
        """Count an access of each fact. It is written with the next change of the index."""
        self.accesses.note(self.fact_keys(facts).tolist(), now)

    def fact_keys(self, facts: Keys) -> Keys:
        """Return the keys of the rows of facts."""
        passages, numbers = self._fact_places(facts)
        return self.view.columns["passage"].take(passages) << FACT_BITS | numbers

    def _fact_places(self, facts: Keys) -> tuple[Keys, Keys]:
        """Return the passage of each fact, and its number in it."""
        passages = self.view.columns["fact_passage"].take(facts).astype(np.int64)
        return passages, facts - self.view.forward["fact"].starts.take(passages)


def _opened(text: str, ids: list[int]) -> int | None:
    """Return the position of the entity with the longest name that a text opens with; None for none."""
    words = text.split()[:_OPENING_WORDS]
    openings = (normalise(" ".join(words[:count])) for count in range(len(words), 0, -1))
    return next((ids.index(name_id) for name in openings if name and (name_id := hash64(name)) in ids), None)
