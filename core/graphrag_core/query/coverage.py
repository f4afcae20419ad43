"""The second stage of a hybrid query: passages that together cover the question and are linked to each other."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from graphrag_core.key_sets import among
from graphrag_core.ports import Keys, Ranking, Scores, Snapshot
from graphrag_core.query.query import Query, word_weights
from graphrag_core.query.reasons import Bridges, Flags, Links, Reasons, Values
from graphrag_core.query.sides import sides

_FAR = 100  # the rank of a passage in a ranking that does not contain it
_FEW = 5  # an entity that so few passages mention links them in any index
_SUBJECT = 5.0  # an edge from a chunk to its subject weighs more than this
_OFFSET = 10.0  # a rank counts offset / (rank + offset), counted from 0
_COVER_PLAIN = 0.9  # the weight of newly covered words without trust
_TITLE = 0.3  # the weight of the question's words in a passage's subject
_SUBJECT_LINK, _SUBJECT_EVIDENCE = 0.25, 1.0  # one passage mentions the subject of the other
_SHARED_LINK, _SHARED_EVIDENCE = 0.2, 0.5  # both mention an entity, times 2 / number of passages that mention it
_SIBLINGS = 0.5  # how much a bridge counts between passages about the same thing, such as two sections of a document
_FIRST = 3  # plain passages that are looked at for what they leave open
_SLOPE = 0.08  # how sharply the open share decides
_LITTLE_TRUST = 0.3  # below it plain search keeps its order if it leaves little open
_LEAST_GRAPH = 0.3  # how far the graph's rank counts without trust: it tells apart what plain search ranks alike
_PINNED = 1  # plain passages that stay first if the graph does not lead
_STARTS = 5  # plain passages that are followed
_ANCHORS = 2  # passages that are chosen before bridges count
_HEAD = 5  # the first places, among which plain search has its best passages
_STEPS = 10  # passages that are chosen one by one; the others follow by their last score
_GRAPH_CANDIDATES, _PLAIN_CANDIDATES, _BRIDGE_CANDIDATES = 40, 20, 20
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


class Reranker(ABC):
    """Orders the passages that plain search and the graph found. A frozen dataclass whose fields are its settings.

    ``scores_are_ranks`` says that the scores say nothing but the order, so that they can be calibrated.
    """

    scores_are_ranks: bool = False

    @abstractmethod
    def rerank(self, query: Query, plain: Ranking, graph: Ranking) -> Reranked:
        """Return the chunks of both rankings, each once, best first, and others that belong to them."""

    def rerank_plain(self, query: Query, plain: Ranking) -> Ranking:  # noqa: ARG002 - for subclasses
        """Return the ranking of a query for which the graph was not searched; by default as it is."""
        return plain


@dataclass(frozen=True, kw_only=True)
class Coverage(Reranker):
    """Chooses passages one by one, so that together they cover the question and are linked to each other.

    A passage scores by its rank, by the words of the question that it contains and no chosen passage
    contains, and by its strongest link to a chosen passage. Two signals decide how far the graph counts:

    - ``trust``: how much of the question consists of rare names that the graph knows. It weighs the graph's ranking
      against that of plain search.
    - how much of the question the first three passages of plain search leave open. Links between passages, and the
      passages that the best ones lead to (``bridge``), count by this or by the trust.

    Plain search keeps its order where both are low. If the trust is below 0.5, the first five passages contain the best
    ones of plain search (:attr:`Query.best <graphrag_core.query.query.Query.best>`), and plain search has every other
    place below them. If the question compares two things, the first five contain the first passage for each of them.

    Parameters
    ----------
    cover
        The weight of newly covered words with full trust; less without.
    link
        The weight of links between passages: one mentions the subject of the other, or both mention an entity.
    bridge
        The weight of a passage that the best plain passages lead to through what they mention or link to. The
        trust in the graph reduces it.
    rare, enough
        A name that ``rare`` passages or fewer mention counts in full, others less. If such names are this share of the
        question, trust is 1.
    open
        The share of the question that must be left open for links and bridges to count by half.
    most_passages
        An entity that more passages mention, or more than a tenth of a small index, links none and is no bridge.
    least_linked
        Bridges are followed if at least this share of the passages mentions the subject of another one.
    """

    cover: float = 1.5
    link: float = 1.0
    bridge: float = 0.7
    rare: float = 3.0
    enough: float = 0.35
    open: float = 0.1
    most_passages: int = 40
    least_linked: float = 0.1

    scores_are_ranks = True

    def rerank(self, query: Query, plain: Ranking, graph: Ranking) -> Reranked:
        """Return all chunks of both rankings and those that the best plain passages lead to; the score is 1 / rank."""
        snapshot = query.snapshot
        terms = snapshot.terms(query.text)
        everything = _each_once(np.concatenate([plain[0], graph[0]]))
        if not terms or len(everything) == 0:
            return _ranked(everything, 0.0, "plain search leads: the question has no words to cover")
        weights = word_weights(snapshot.term_counts(terms), snapshot.statistics_count)
        trust, share = self._trust(query, terms, weights)
        first = snapshot.terms_in("chunks", plain[0][:_FIRST], terms)
        left_open = float(weights[~first.any(axis=0)].sum())
        reach = 1 / (1 + math.exp((self.open - left_open) / _SLOPE))
        kept = self._kept(query, trust)
        why = (
            f"{share:.0%} of the question consists of rare names that the graph knows, "
            f"and the first passages of plain search leave {left_open:.0%} of it open"
        )
        if trust < _LITTLE_TRUST and reach < 0.5:
            reasons = Reasons(everything[:0], terms, Links.none(), Bridges.none())
            alone = f"plain search decides alone: {why}"
            return replace(_ranked(_with_kept(everything, kept), trust, alone), reasons=reasons)
        follow = self.bridge > 0 and trust < 1 and snapshot.linked_share >= self.least_linked
        followed, bridges = self._bridges(query, plain[0], terms, weights) if follow else (_NOTHING, Bridges.none())
        keys = _each_once(
            np.concatenate([graph[0][:_GRAPH_CANDIDATES], plain[0][:_PLAIN_CANDIDATES], followed[0], kept])
        )
        covered = snapshot.terms_in("chunks", keys, terms)
        mentions = _Mentions.of(snapshot, keys, self._most(snapshot))

        by_graph, by_plain = (_OFFSET / (_ranks(keys, r[0]) + _OFFSET) for r in (graph, plain))
        prior = max(trust, _LEAST_GRAPH) * by_graph + (1 - trust) * by_plain
        if trust > 0:
            prior += trust * _TITLE * _subject_share(snapshot, mentions, terms, weights)
        strength = dict(zip(followed[0].tolist(), followed[1].tolist(), strict=True))
        follow_weight = (1 - trust) ** 1.5 * self.bridge * reach
        bridged = follow_weight * np.array([strength.get(key, 0.0) for key in keys.tolist()])
        links = self._links(query, keys, mentions, terms, weights, max(trust, reach))
        cover = _COVER_PLAIN + (self.cover - _COVER_PLAIN) * trust
        scores = _Scores(prior, bridged, cover * weights, covered, links.strengths)
        places = {key: place for place, key in enumerate(keys.tolist())}
        pinned = [places[key] for key in plain[0][:_PINNED].tolist()] if trust < 0.5 else []
        chosen = keys[scores.choose(pinned, [places[key] for key in kept.tolist()])]
        if trust < 0.5:
            chosen = _alternate(chosen, plain[0])
        bridges = bridges._replace(strengths=bridges.strengths * follow_weight)
        how_far = f"leads (graph {max(trust, _LEAST_GRAPH):.0%}, links {max(trust, reach):.0%}): {why}"
        return replace(
            _ranked(_each_once(np.concatenate([chosen, everything])), trust, "", followed),
            remark=f"plain search {how_far}" if trust < 0.5 else "",
            gate=f"the graph {how_far}" if trust >= 0.5 else "",
            reasons=Reasons(keys, terms, links, bridges),
        )

    def _kept(self, query: Query, trust: float) -> Keys:
        """Return the passages of plain search that must be among the first five."""
        firsts = [query.best] if trust < 0.5 else []
        if parts := sides(query.text):
            firsts.append(query.best_of(parts))
        return _each_once(np.concatenate(firsts))[:_HEAD] if firsts else np.empty(0, np.int64)

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
        snapshot, starts = query.snapshot, plain[:_STARTS]
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
        prior = _OFFSET / (np.arange(len(starts)) + _OFFSET) * (0.3 + covered @ weights)
        value = (prior[start] * np.minimum(1, 4 / counts) ** 0.5)[pair]
        missing = np.where(covered, 0, weights)  # of each start
        value *= np.where(start_is_about & is_about, _SIBLINGS, 1.0)
        value *= (0.15 + (has @ weights)[at] + (has[at] * missing[start[pair]]).sum(axis=1)) ** 2
        best = np.zeros(len(chunks))
        np.maximum.at(best, at, value)
        order = query.order("chunks", chunks, np.round(best, 6).astype(np.float32))[:_BRIDGE_CANDIDATES]
        most = max(float(best.max()), 1e-9)
        kept = value >= best[at] / 2  # another start may be shown where the best is not
        kept &= among(at, np.sort(order))
        ways = Bridges(
            starts[start[pair[kept]]], entities[pair[kept]], reached[kept], value[kept] / most, start_is_about[kept],
            is_about[kept],
        )  # fmt: skip
        return (chunks[order], (best[order] / most).astype(np.float32)), ways

    def _links(
        self, query: Query, keys: Keys, mentions: _Mentions, terms: list[str], weights: Values, counts: float
    ) -> Links:
        """Return the strength of the link between each two chunks, and what it consists of.

        ``counts`` is how far links count, from 0 to 1.
        """
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
        weight = self.link * counts
        to_subject = weight * (mentions.held & ~mentions.subject) * (_SUBJECT_LINK + _SUBJECT_EVIDENCE * evidence)
        to_mention = weight * mentions.held * rarity * (_SHARED_LINK + _SHARED_EVIDENCE * evidence)
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

    def choose(self, pinned: Sequence[int], kept: Sequence[int]) -> Keys:
        """Return positions, best first: the first ten one by one, each with regard to those before it.

        ``pinned`` come first, and ``kept`` are among the first five.
        """
        missing, linked = self.weights.copy(), np.zeros(len(self.prior))
        left = np.ones(len(self.prior), np.bool_)
        covered = self.covered.astype(np.float64)
        chosen: list[int] = []
        while True:
            score = self.prior + covered @ missing + linked
            if len(chosen) >= _ANCHORS:
                score += self.bridged
            score = score.round(6)  # equal whatever the order of the sums
            if len(chosen) == min(_STEPS, len(score)):
                break
            waiting = [place for place in kept if left[place]]
            if len(chosen) < len(pinned):
                best = pinned[len(chosen)]
            elif len(chosen) < _HEAD <= len(chosen) + len(waiting):
                best = max(waiting, key=lambda place: (score[place], -place))
            else:
                best = int(np.where(left, score, -np.inf).argmax())
            chosen.append(best)
            left[best] = False
            missing[self.covered[best]] = 0
            linked = np.maximum(linked, self.links[best])
        rest = np.flatnonzero(left)
        return np.array([*chosen, *rest[np.argsort(-score[rest], kind="stable")].tolist()], np.int64)


def _alternate(chosen: Keys, plain: Keys) -> Keys:
    """Return what was chosen with every other place below the first five given to plain search, best first."""
    head = chosen[:_HEAD].tolist()
    others = [key for key in plain.tolist() if key not in head]
    turns = [key for pair in zip(others, chosen[_HEAD:].tolist(), strict=False) for key in pair]
    return _each_once(np.array([*head, *turns, *chosen.tolist()], np.int64))


def _with_kept(keys: Keys, kept: Keys) -> Keys:
    """Return a ranking whose first five contain some passages: these replace the last of the others."""
    head = keys[:_HEAD].tolist()
    others = [key for key in head if key not in kept]
    missing = [key for key in kept.tolist() if key not in head]
    gone = set(others[len(others) - len(missing) :]) if missing else set()
    return _each_once(np.array([*(key for key in head if key not in gone), *missing, *keys.tolist()], np.int64))


def _ranks(keys: Keys, ranked: Keys) -> Values:
    place = {key: rank for rank, key in enumerate(ranked[:_FAR].tolist())}
    return np.array([place.get(key, _FAR) for key in keys.tolist()], np.float64)


def _each_once(keys: Keys) -> Keys:
    return np.array(list(dict.fromkeys(keys.tolist())), np.int64)  # faster than np.unique for a few hundred


def _ranked(keys: Keys, trust: float, remark: str, linked: Ranking = _NOTHING) -> Reranked:
    return Reranked(keys, (1 / np.arange(1, len(keys) + 1)).astype(np.float32), trust, remark, linked)
