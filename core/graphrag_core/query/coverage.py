"""The second stage of a hybrid query: passages that together cover the question and are linked to each other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from graphrag_core.key_sets import among
from graphrag_core.ports import Keys, Ranking, Scores, Snapshot
from graphrag_core.query.query import Query, word_weights
from graphrag_core.query.reasons import Bridges, Flags, Links, Reasons, Values

_FAR = 100  # the rank of a passage in a ranking that does not contain it
_FEW = 5  # an entity that so few passages mention links them in any index
_SUBJECT = 5.0  # an edge from a chunk to its subject weighs more than this
_NOTHING: Ranking = (np.empty(0, np.int64), np.empty(0, np.float32))


@dataclass(frozen=True)
class Reranked:
    """The final ranking of a query.

    Parameters
    ----------
    keys, scores
        All chunks, best first; the scores fall with the rank.
    trust
        How far the graph decided, from 0 to 1.
    remark
        Why plain search decided; empty if the graph did.
    linked
        Passages that were found through links of other passages, and their strengths, best first.
    gate
        Why the graph decided; empty if plain search did.
    reasons
        What the hits are explained with; None if nothing is known.
    """

    keys: Keys
    scores: Scores
    trust: float = 1.0
    remark: str = ""
    linked: Ranking = field(default_factory=lambda: _NOTHING)
    gate: str = ""
    reasons: Reasons | None = None


class Reranker(Protocol):
    """Orders the passages that plain search and the graph found. A frozen dataclass whose fields are its settings."""

    def rerank(self, query: Query, plain: Ranking, graph: Ranking) -> Reranked:
        """Return the chunks of both rankings, each once, best first, and others that belong to them."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Chooses passages one by one, so that together they cover the question and are linked to each other.

    A passage scores by its rank, by the words of the question that it contains and no chosen passage
    contains, and by its strongest link to a chosen passage. How far the graph's rank counts, and not
    that of plain search, depends on how much of the question consists of rare names that the graph
    knows (``trust``). What the best passages of plain search mention or link to is followed as well
    (``bridge``), as the answer is often in a passage that shares no words with the question.

    Parameters
    ----------
    rank_offset
        A rank counts ``rank_offset / (rank + rank_offset)``, counted from 0.
    cover, cover_plain
        The weight of newly covered words with full trust and without trust.
    title
        The weight of the question's words in a passage's subject, times the trust.
    subject, subject_evidence
        A link where one passage mentions the subject of the other: a constant, and the weight of the question's
        words in the sentence that mentions it.
    shared, shared_evidence
        The same for an entity that both passages mention, times ``2 / number of passages that mention it``.
    most_passages
        An entity that more passages mention, or more than a tenth of a small index, links none and is no bridge.
    rare, enough
        A name that ``rare`` passages or fewer mention counts in full, others less. If such names are this share of the
        question, trust is 1.
    bridge
        The weight of a passage found through what the best plain passages mention or link to. The trust in the graph
        reduces it.
    anchors
        How many passages are chosen before bridges count.
    siblings
        How much a bridge counts between passages about the same thing, such as two sections of a document.
    bridges_from
        How many plain passages are followed.
    least_linked
        Bridges are followed if at least this share of the passages mentions the subject of another one.
    graph_candidates, plain_candidates, bridge_candidates
        How many passages of each ranking are considered.
    steps
        How many passages are chosen one by one; the others follow by their last score.
    """

    rank_offset: float = 10.0
    cover: float = 1.5
    cover_plain: float = 0.7
    title: float = 0.3
    subject: float = 0.25
    subject_evidence: float = 1.0
    shared: float = 0.2
    shared_evidence: float = 0.5
    most_passages: int = 40
    rare: float = 3.0
    enough: float = 0.4
    bridge: float = 0.7
    anchors: int = 2
    siblings: float = 0.5
    bridges_from: int = 5
    least_linked: float = 0.1
    graph_candidates: int = 40
    plain_candidates: int = 20
    bridge_candidates: int = 20
    steps: int = 10

    scores_are_ranks: ClassVar[bool] = True

    def rerank(self, query: Query, plain: Ranking, graph: Ranking) -> Reranked:
        """Return all chunks of both rankings and those that the best plain passages lead to; the score is 1 / rank."""
        snapshot = query.snapshot
        terms = snapshot.terms(query.text)
        everything = _each_once(np.concatenate([plain[0], graph[0]]))
        if not terms or len(everything) == 0:
            return _ranked(everything, 0.0, "plain search leads: the question has no words to cover")
        weights = word_weights(snapshot.term_counts(terms), snapshot.chunk_count)
        trust, share = self._trust(query, terms, weights)
        follow = self.bridge > 0 and trust < 1 and snapshot.linked_share >= self.least_linked
        followed, bridges = self._bridges(query, plain[0], terms, weights) if follow else (_NOTHING, Bridges.none())
        keys = _each_once(
            np.concatenate([graph[0][: self.graph_candidates], plain[0][: self.plain_candidates], followed[0]])
        )
        covered = snapshot.terms_in("chunks", keys, terms)
        mentions = _Mentions.of(snapshot, keys, self._most(snapshot))

        by_graph, by_plain = (self.rank_offset / (_ranks(keys, r[0]) + self.rank_offset) for r in (graph, plain))
        prior = trust * by_graph + (1 - trust) * by_plain
        if trust > 0:
            prior += trust * self.title * _subject_share(snapshot, mentions, terms, weights)
        strength = dict(zip(followed[0].tolist(), followed[1].tolist(), strict=True))
        follow_weight = (1 - trust) ** 1.5 * self.bridge
        bridged = follow_weight * np.array([strength.get(key, 0.0) for key in keys.tolist()])
        links = self._links(query, keys, mentions, terms, weights)
        cover = self.cover_plain + (self.cover - self.cover_plain) * trust
        scores = _Scores(prior, bridged, cover * weights, covered, links.strengths)
        chosen = keys[scores.choose(self.steps, self.anchors)]
        bridges = bridges._replace(strengths=bridges.strengths * follow_weight)
        why = f"{share:.0%} of the question consists of rare names that the graph knows"
        return replace(
            _ranked(_each_once(np.concatenate([chosen, everything])), trust, "", followed),
            remark=f"plain search leads: {why}" if trust < 0.5 else "",
            gate=f"the graph leads: {why}" if trust >= 0.5 else "",
            reasons=Reasons(keys, terms, covered, links, bridges),
        )

    def _most(self, snapshot: Snapshot) -> float:
        """Return how many passages may mention an entity that links passages."""
        return min(self.most_passages, max(_FEW, snapshot.chunk_count / 10))

    def _trust(self, query: Query, terms: list[str], weights: Values) -> tuple[float, float]:
        """Return the trust in the graph, and the share of the question that consists of rare known names."""
        if len(query.entities) == 0:
            return 0.0, 0.0
        counts, _ = query.snapshot.entity_counts(query.entities)
        named = query.snapshot.terms_in("entities", query.entities, terms)
        rarity = np.minimum(1.0, self.rare / np.maximum(counts, 1))
        share = float((named * rarity[:, None]).max(axis=0) @ weights)
        return min(1.0, share / self.enough), share

    def _bridges(self, query: Query, plain: Keys, terms: list[str], weights: Values) -> tuple[Ranking, Bridges]:
        """Return chunks that share an entity with the best plain passages, their strengths, at most 1, and the ways.

        The question does not name these entities, and few chunks mention them. A chunk is the stronger the
        better the passage it was reached from, the rarer the entity, and the more of the question the chunk
        covers, above all of what the passage does not cover.
        """
        snapshot, starts = query.snapshot, plain[: self.bridges_from]
        edges = snapshot.neighbours(starts, to="entities")
        start = np.repeat(np.arange(len(starts)), edges.counts)
        counts, _ = snapshot.entity_counts(edges.targets)
        usable = (counts > 1) & (counts <= self._most(snapshot)) & ~among(edges.targets, np.sort(query.entities))
        start, entities, counts = start[usable], edges.targets[usable], counts[usable]
        if len(entities) == 0:
            return _NOTHING, Bridges.none()
        found = snapshot.neighbours(entities, to="chunks")
        pair = np.repeat(np.arange(len(entities)), found.counts)
        elsewhere = found.targets != starts[start[pair]]
        start_is_about = (edges.weights[usable] > _SUBJECT)[pair][elsewhere]
        is_about = (found.weights > _SUBJECT)[elsewhere]
        pair, reached = pair[elsewhere], found.targets[elsewhere]
        chunks, at = np.unique(reached, return_inverse=True)
        held = snapshot.terms_in("chunks", np.concatenate([starts, chunks]), terms)
        covered, has = held[: len(starts)], held[len(starts) :]
        offset = self.rank_offset
        prior = offset / (np.arange(len(starts)) + offset) * (0.3 + covered @ weights)
        value = (prior[start] * np.minimum(1, 4 / counts) ** 0.5)[pair]
        missing = np.where(covered, 0, weights)  # of each start
        value *= np.where(start_is_about & is_about, self.siblings, 1.0)
        value *= (0.15 + (has @ weights)[at] + (has[at] * missing[start[pair]]).sum(axis=1)) ** 2
        best = np.zeros(len(chunks))
        np.maximum.at(best, at, value)
        order = query.order("chunks", chunks, np.round(best, 6).astype(np.float32))[: self.bridge_candidates]
        most = max(float(best.max()), 1e-9)
        kept = value >= best[at] / 2  # another start may be shown where the best is not
        kept &= among(at, np.sort(order))
        ways = Bridges(
            starts[start[pair[kept]]], entities[pair[kept]], reached[kept], value[kept] / most, start_is_about[kept],
            is_about[kept],
        )  # fmt: skip
        return (chunks[order], (best[order] / most).astype(np.float32)), ways

    def _links(self, query: Query, keys: Keys, mentions: _Mentions, terms: list[str], weights: Values) -> Links:
        """Return the strength of the link between each two chunks, and what it consists of."""
        snapshot, entities = query.snapshot, mentions.entities
        # The best sentence of a chunk that mentions an entity: how much of the question it covers besides the name.
        evidence = np.zeros(mentions.held.shape)
        facts = snapshot.facts_of(entities)
        rows = snapshot.fact_rows(facts)
        fact = np.repeat(np.arange(len(facts)), rows.counts)
        kept = among(rows.entities, entities) & among(rows.chunks, np.sort(keys))[fact]
        fact, column = fact[kept], np.searchsorted(entities, rows.entities[kept])
        if len(fact):
            used, place = np.unique(fact, return_inverse=True)
            named, own = np.unique(column, return_inverse=True)
            besides = ~snapshot.terms_in("entities", entities[named], terms)
            said = snapshot.terms_in("facts", facts[used], terms)[place] & besides[own]
            order = np.argsort(keys, kind="stable")
            row = order[np.searchsorted(keys[order], rows.chunks[fact])]
            np.maximum.at(evidence, (row, column), said @ weights)
        rarity = np.where(among(entities, np.sort(query.entities)), 0, 2 / np.maximum(mentions.counts, 2))
        # Two chunks about the same thing, such as two sections of a document, are not linked by that.
        to_subject = (mentions.held & ~mentions.subject) * (self.subject + self.subject_evidence * evidence)
        to_mention = mentions.held * rarity * (self.shared + self.shared_evidence * evidence)
        links = np.maximum(_strongest(to_subject, mentions.subject), _strongest(to_mention, mentions.held))
        links = np.maximum(links, links.T)
        np.fill_diagonal(links, 0)
        return Links(links, entities, mentions.held, mentions.subject, to_subject, to_mention)


def _strongest(values: Values, flags: Flags) -> Values:
    """Return for each two rows the largest value of the second in a column that the first has; both are 2-D."""
    strongest = np.zeros((len(flags), len(values)))
    rows, columns = np.nonzero(flags)
    if len(rows):
        first = np.concatenate([[0], 1 + np.flatnonzero(rows[1:] != rows[:-1])])
        strongest[rows[first]] = np.maximum.reduceat(values.T[columns], first)
    return strongest


class _Mentions(NamedTuple):
    """The entities that at least two of some chunks mention, and which chunk mentions which.

    ``subject`` says of which chunk an entity is the subject; ``subjects`` are all pairs of a chunk's position and
    an entity it is about, and ``counts`` the number of chunks in the index that mention each entity.
    """

    entities: Keys
    counts: Keys
    held: Flags
    subject: Flags
    subjects: tuple[Keys, Keys]

    @classmethod
    def of(cls, snapshot: Snapshot, keys: Keys, most: float) -> _Mentions:
        """Return the mentions of chunks, without entities that more than ``most`` chunks of the index mention."""
        edges = snapshot.neighbours(keys, to="entities")
        row = np.repeat(np.arange(len(keys)), edges.counts)
        about = snapshot.subjects(keys)
        about_row = np.repeat(np.arange(len(keys)), about.counts)
        entities, holders = np.unique(edges.targets, return_counts=True)
        counts, _ = snapshot.entity_counts(entities)
        kept = (holders > 1) & (counts <= most)
        entities, counts = entities[kept], counts[kept]
        held = np.zeros((len(keys), len(entities)), np.bool_)
        subject = np.zeros_like(held)
        for flags, owners, targets in ((held, row, edges.targets), (subject, about_row, about.targets)):
            inside = among(targets, entities)
            flags[owners[inside], np.searchsorted(entities, targets[inside])] = True
        return cls(entities, counts, held, subject, (about_row, about.targets))


def _subject_share(snapshot: Snapshot, mentions: _Mentions, terms: list[str], weights: Values) -> Values:
    """Return for each chunk the share of the question in the name of its subject."""
    rows, entities = mentions.subjects
    shares = np.zeros(len(mentions.held))
    if len(entities):
        found = np.zeros((len(mentions.held), len(terms)), np.bool_)
        np.logical_or.at(found, rows, snapshot.terms_in("entities", entities, terms))
        shares = found @ weights
    return shares


class _Scores(NamedTuple):
    """What the score of each candidate consists of.

    ``prior`` by rank, ``bridged`` by bridges, ``weights`` of the terms, ``covered`` which candidate has
    which term, ``links`` between candidates.
    """

    prior: Values
    bridged: Values
    weights: Values
    covered: Flags
    links: Values

    def choose(self, steps: int, anchors: int) -> Keys:
        """Return positions, best first: the first ``steps`` one by one, each with regard to those before it."""
        missing, linked = self.weights.copy(), np.zeros(len(self.prior))
        left = np.ones(len(self.prior), np.bool_)
        covered = self.covered.astype(np.float64)
        chosen: list[int] = []
        while True:
            score = self.prior + covered @ missing + linked
            if len(chosen) >= anchors:
                score += self.bridged
            score = score.round(6)  # equal whatever the order of the sums
            if len(chosen) == min(steps, len(score)):
                break
            best = int(np.where(left, score, -np.inf).argmax())
            chosen.append(best)
            left[best] = False
            missing[self.covered[best]] = 0
            linked = np.maximum(linked, self.links[best])
        rest = np.flatnonzero(left)
        return np.array([*chosen, *rest[np.argsort(-score[rest], kind="stable")].tolist()], np.int64)


def _ranks(keys: Keys, ranked: Keys) -> Values:
    place = {key: rank for rank, key in enumerate(ranked[:_FAR].tolist())}
    return np.array([place.get(key, _FAR) for key in keys.tolist()], np.float64)


def _each_once(keys: Keys) -> Keys:
    return np.array(list(dict.fromkeys(keys.tolist())), np.int64)  # faster than np.unique for a few hundred


def _ranked(keys: Keys, trust: float, remark: str, linked: Ranking = _NOTHING) -> Reranked:
    return Reranked(keys, (1 / np.arange(1, len(keys) + 1)).astype(np.float32), trust, remark, linked)
