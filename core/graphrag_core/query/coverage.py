"""The second stage of a hybrid query: passages that together cover the question and are linked to each other."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Keys, Ranking, Scores, Sentences
from graphrag_core.query.calibration import Calibration
from graphrag_core.query.matching import QuestionWords
from graphrag_core.query.named_document import named_document
from graphrag_core.query.query import Query, word_weights
from graphrag_core.query.recognise import sides
from graphrag_core.result import Link, LinkKind

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_LEAST_LINK = 0.05  # a link that adds less to the score is not a reason
_LEAST_BRIDGE = 0.1  # bridges that can add at most this much are not looked for
_LEAST_PART = 0.1  # a name that adds less than this part of the best one is not said to decide
_MANY = 10  # passages
_NOTHING: Ranking = (np.empty(0, np.int64), np.empty(0, np.float32))


class Links(NamedTuple):
    """The links between candidates: how much each adds to the score, and through which entity.

    ``held`` and ``subject`` say which candidate mentions an entity and which is about it; ``to_subject`` and
    ``to_mention`` are the strengths of an entity in a candidate, towards others that are about it or mention it.
    """

    strengths: Values
    entities: Keys
    held: Flags
    subject: Flags
    to_subject: Values
    to_mention: Values

    def strongest(self, one: int, other: int) -> tuple[Keys, LinkKind]:
        """Return the entities of the strongest link between two candidates, and what it is to the first."""
        about, other_about = self.subject[one], self.subject[other]
        values = np.stack(
            [
                self.to_subject[other] * about,
                self.to_subject[one] * other_about,
                np.maximum(self.to_mention[one] * self.held[other], self.to_mention[other] * self.held[one]),
            ]
        ).round(6)
        best = values.max(axis=1, initial=0)
        which = int(best.argmax())
        entities = values[which] == best[which]
        both = entities & about & other_about
        if which == 2 and both.any():
            return self.entities[both], "both_about"
        return self.entities[entities], _LINK_KINDS[which]


class Bridges(NamedTuple):
    """Ways from a passage that plain search found through an entity to a candidate, one row for each.

    ``strengths`` are what each adds to the score; the flags say whether the passage and the candidate are about
    the entity.
    """

    starts: Keys
    entities: Keys
    ends: Keys
    strengths: Values
    start_is_about: Flags
    end_is_about: Flags

    def between(self, places: Mapping[int, int]) -> list[_Way]:
        """Return the links from higher-ranked hits to lower-ranked ones, strongest first. ``places`` are ranks."""
        kinds: dict[tuple[bool, bool], LinkKind] = {
            (True, True): "both_about",
            (True, False): "about",
            (False, True): "mentions",
        }
        shown = np.array(sorted(places), np.int64)
        between = among(self.starts, shown) & among(self.ends, shown)
        columns = (column[between].tolist() for column in self._replace(strengths=self.strengths.round(6)))
        ways = [
            _Way(places[end], -strength, places[start], kinds.get((is_about, about), "both_mention"), entity)
            for start, entity, end, strength, about, is_about in zip(*columns, strict=True)
            if places[start] < places[end]
        ]
        return sorted(ways)


class _Way(NamedTuple):
    """A row of :class:`Bridges` between two of the chunks shown, by their places; weak ones have larger numbers."""

    end: int
    weakness: float
    start: int
    kind: LinkKind
    entity: int


class Reasons(NamedTuple):
    """What a reranker knows of its candidates: how they are linked, and how some were found through others."""

    keys: Keys
    terms: Sequence[str]
    links: Links | None = None
    bridges: Bridges | None = None

    def links_of(self, query: Query, shown: Keys, ids: Sequence[str]) -> list[Link | None]:
        """Return the strongest link of each of the chunks shown, which have these ids, to one above it, if any.

        Of links that are equally strong, that to the best chunk, through the first entity by id.
        """
        row_of = {key: row for row, key in enumerate(self.keys.tolist())}
        places = {key: place for place, key in enumerate(shown.tolist()) if key in row_of}
        links: list[Link | None] = [None] * len(shown)
        if self.links is None or len(places) < 2:
            return links
        rows, order = [row_of[key] for key in places], [*places.values()]
        strengths = self.links.strengths[np.ix_(rows, rows)].round(6)  # equal whatever the order of the sums
        ways = self.bridges.between(places) if self.bridges is not None else []
        found: dict[int, tuple[int, Keys, LinkKind, bool]] = {}
        for at in range(1, len(rows)):
            above = int(strengths[at, :at].argmax())
            strength, place = float(strengths[at, above]), order[at]
            bridge = next((way for way in ways if way.end == place), None)
            if bridge is not None and -bridge.weakness >= max(strength, _LEAST_LINK):
                equal = np.array([way.entity for way in ways if way[:4] == bridge[:4]], np.int64)
                found[place] = bridge.start, equal, bridge.kind, True
            elif strength >= _LEAST_LINK:
                found[place] = order[above], *self.links.strongest(rows[at], rows[above]), False
        keys = distinct(
            *(linking for _, linking, _, _ in found.values()), query.entities
        )  # one read: the result has both
        known = dict(zip(keys.tolist(), query.snapshot.entities(keys), strict=True))
        for place, (above, linking, kind, followed) in found.items():
            named = [known[key] for key in linking.tolist()]
            if kind == "both_mention":  # a year that two passages share says nothing about them
                named = [entity for entity in named if any(map(str.isalpha, entity.name))]
            if named:
                entity = min(named, key=attrgetter("id"))
                links[place] = Link(above + 1, ids[above], entity.id, entity.name, kind, followed)
        return links


_LINK_KINDS: tuple[LinkKind, ...] = ("about", "mentions", "both_mention")


class Named(NamedTuple):
    """The names in the question that decide the trust in the graph.

    ``places`` are their positions in :attr:`Query.entities <graphrag_core.query.query.Query.entities>`; ``remark``
    says why they count little, and is empty if they count.
    """

    places: Sequence[int] = ()
    remark: str = ""


@dataclass(frozen=True)
class Reranked:
    """The final ranking of a query.

    Parameters
    ----------
    keys, scores
        All chunks, best first; the scores fall with the rank.
    trust
        How far the graph decided, from 0 to 1; it led from 0.5 on.
    named
        The names that decided this; None if the reranker does not look at names.
    linked
        Passages that were found through links of other passages, and their strengths, best first.
    gate
        The numbers that decided.
    reasons
        What the hits are explained with; None if nothing is known.
    document
        The document that the question names; empty if it names none.
    """

    keys: Keys
    scores: Scores
    trust: float = 1.0
    named: Named | None = None
    linked: Ranking = _NOTHING
    gate: str = ""
    reasons: Reasons | None = None
    document: str = ""


class Reranker(ABC):
    """Orders the passages that plain search and the graph found. A frozen dataclass whose fields are its settings.

    ``scores_are_ranks`` says that the scores say nothing but the order; ``calibration`` computes the scores of hits
    then, 1 / rank if it is None.
    """

    scores_are_ranks: bool = False
    calibration: Calibration | None = None

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
      against the ranking of plain search.
    - how much of the question the first three passages of plain search leave open. Links between passages, and the
      passages that the best ones lead to (``bridge``), count by this or by the trust.

    Plain search decides alone where both are low. If the trust is below 0.5, or if the question compares two things,
    plain search has every other place below the first five. The first five contain the first passage for each of two
    things that the question compares.

    Parameters
    ----------
    similar
        The weight of the words that a passage contains exactly or by a similar word, beside the score of plain search.
        Without an embedder that has token vectors, similar words do not count.
    document
        The weight of the rank inside the document that the question names, by its file, its id or its name.
    cover
        The weight of newly covered words.
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
        An entity that more passages mention, or more than a tenth of a small index, is neither a link nor a bridge.
    least_linked
        Bridges are followed if at least this share of the passages mentions the subject of another one.
    calibration
        Computes the scores of hits: how likely each belongs to the answer. None for 1 / rank.
    """

    similar: float = 0.4
    document: float = 1.0
    cover: float = 1.0
    link: float = 1.0
    bridge: float = 0.7
    rare: float = 2.0
    enough: float = 0.35
    open: float = 0.1
    most_passages: int = 40
    least_linked: float = 0.1
    calibration: Calibration | None = Calibration()  # noqa: RUF009 - frozen

    # Behind each: what another value costs in points of recall@5 / @10, as the mean of musique_train,
    # hotpotqa_train:untitled, 2wiki_train:untitled, emanual_qa, privacy_qa, chroma_chunking and scifact_train
    # (make bench-settings), measured before similar words and named documents counted. Of the fields above:
    # link=0 2.9 / 0.7, bridge=0 0.2 / 0.2, enough=0.01 0.5 / -0.1, open=0 0.0 / 0.0, most_passages=1000 -0.2 / 0.0,
    # least_linked=0 0.1 / -0.3.
    offset: float = 10.0  # a rank counts offset / (rank + offset), counted from 0; 60: 0.1 / 0.2
    far: int = 100  # the rank of a passage in a ranking that does not contain it; 40: 0.1 / 0.0
    subject_link: float = 0.25  # one passage mentions the subject of the other; 0: 0.5 / 0.1
    subject_evidence: float = 1.0  # times the share of the question in the sentence that does; 0: 0.9 / 0.2
    shared_link: float = 0.2  # both mention an entity, times 2 / number of passages that mention it; 0: 0.0 / 0.2
    shared_evidence: float = 0.5  # times the share of the question in the sentence; 0: 0.3 / 0.1
    few: int = 5  # an entity that at most this many passages mention links them in any index; 0: 0.0 / 0.0
    first: int = 3  # plain passages that are looked at for what they leave open; 1: 0.0 / 0.0
    slope: float = 0.08  # how sharply the open share decides; 0.01: 0.0 / 0.0
    little_trust: float = 0.3  # below it plain search keeps its order if it leaves little open; 0: 0.0 / 0.0, slower
    least_graph: float = 0.3  # how far the graph's rank counts without trust; 0: 0.0 / 0.4
    starts: int = 5  # plain passages that are followed; 2: 0.3 / 0.3
    anchors: int = 2  # passages that are chosen before bridges count; 0: 0.0 / 0.2
    head: int = 5  # the first places, below which plain search has every other one without trust; 0: 0.3 / 0.3
    steps: int = 10  # passages that are chosen one by one; the others follow by their last score; 5: 0.0 / 0.3
    graph_candidates: int = 25  # chosen among these first passages of the graph, 40: 0.1 / 0.0
    plain_candidates: int = 30  # of plain search, which are also ordered by similar words
    bridge_candidates: int = 20  # of bridges, and of the document that the question names, 10: 0.0 / -0.1

    scores_are_ranks = True

    def rerank(self, query: Query, plain: Ranking, graph: Ranking) -> Reranked:
        """Return all chunks of both rankings and those that the best plain passages lead to; the score is 1 / rank."""
        snapshot = query.snapshot
        terms = snapshot.terms(query.expected_words)
        everything = _each_once(plain[0], graph[0])
        if not terms or len(everything) == 0:
            return Reranked(everything, _by_rank(everything), trust=0.0, named=Named())
        weights = word_weights(snapshot.term_counts(terms), snapshot.statistics_count)
        trust, share, named = self._trust(query, terms, weights)
        document = named_document(query)
        inside = plain[0][:0] if document is None else document.among(query, plain[0])[: self.bridge_candidates]
        parts = sides(query.text)
        # The first passage of plain search for each side must be among the first five.
        kept = _each_once(query.best_of(parts))[: self.head] if parts else plain[0][:0]
        keys = _each_once(plain[0][: self.plain_candidates], graph[0][: self.graph_candidates], inside, kept)
        sentences = snapshot.sentences(keys, terms)
        words = QuestionWords.of(query, terms, weights)
        word_weight = words.weighed(sentences.of_chunks)
        matches = words.matches(query, keys, sentences.of_chunks)
        order = self._by_similar_words(plain, matches @ word_weight)
        by_plain = np.concatenate([keys[order], plain[0][len(order) :]])
        left_open = float(weights[~sentences.of_chunks[order[: self.first]].any(axis=0)].sum())
        reach = 1 / (1 + math.exp((self.open - left_open) / self.slope))
        numbers = (
            f"trust {trust:.2f}: {share:.0%} of the question consists of rare names that the graph knows, "
            f"and the first passages of plain search leave {left_open:.0%} of it open; "
        )
        if trust < self.little_trust and reach < 0.5 and document is None:
            chosen = self._with_kept(_each_once(by_plain, everything), kept)
            gate = f"{numbers}neither the graph nor links count"
            return Reranked(chosen, _by_rank(chosen), trust, named, gate=gate, reasons=Reasons(plain[0][:0], terms))
        most_passages = min(self.most_passages, max(self.few, snapshot.chunk_count / 10))
        followed, bridges = _NOTHING, None
        follow_weight = (1 - trust) ** 1.5 * self.bridge * reach
        if follow_weight > _LEAST_BRIDGE and snapshot.linked_share >= self.least_linked:
            followed, bridges = self._bridges(query, by_plain[: self.starts], terms, weights, most_passages)
        further = followed[0][~np.isin(followed[0], keys)]
        if len(further):
            of_further = snapshot.sentences(further, terms)
            matches = np.concatenate([matches, words.matches(query, further, of_further.of_chunks)])
            sentences = _joined(sentences, of_further)
            keys = np.concatenate([keys, further])

        values_of = partial(self._rank_values, keys)
        prior = max(trust, self.least_graph) * values_of(graph[0]) + (1 - trust) * values_of(by_plain)
        if document is not None:
            prior += self.document * np.isin(keys, inside) * values_of(by_plain[np.isin(by_plain, inside)])
        bridged = follow_weight * _values_of(keys, *followed, 0.0)
        links = self._links(query, keys, sentences, terms, weights, most_passages, max(trust, reach))
        must = np.flatnonzero(np.isin(keys, kept)).tolist() if parts else []
        chosen = keys[self._choose(prior, bridged, self.cover * word_weight, matches, links.strengths, must)]
        if trust < 0.5 or parts:
            chosen = self._with_turns(chosen, plain[0])
        chosen = _each_once(chosen, by_plain, everything)
        if bridges is not None:
            bridges = bridges._replace(strengths=bridges.strengths * follow_weight)
        return Reranked(
            chosen,
            _by_rank(chosen),
            trust,
            named,
            linked=followed,
            gate=f"{numbers}the graph counts {max(trust, self.least_graph):.0%}, links {max(trust, reach):.0%}",
            reasons=Reasons(keys, terms, links, bridges),
            document="" if document is None else document.name,
        )

    def _by_similar_words(self, plain: Ranking, similar: Values) -> Keys:
        """Return the first places of plain search in the order of their score and their words.

        ``similar`` says how far each passage contains the words of the question; the first are those of ``plain``.
        """
        scores = plain[1][: self.plain_candidates]
        if len(scores) == 0:
            return np.empty(0, np.int64)
        similar = similar[: len(scores)] - similar[: len(scores)].min()
        values = scores + self.similar * similar / max(float(similar.max()), 1e-9)
        return np.argsort(-values.round(6), kind="stable")

    def _rank_values(self, keys: Keys, ranking: Keys) -> Values:
        """Return what the ranks of chunks in a ranking count."""
        known = ranking[: self.far]
        return self.offset / (_values_of(keys, known, np.arange(len(known)), self.far) + self.offset)

    def _trust(self, query: Query, terms: list[str], weights: Values) -> tuple[float, float, Named]:
        """Return the trust in the graph, the share of the question that consists of rare known names, and these."""
        if len(query.entities) == 0:
            return 0.0, 0.0, Named()
        counts = query.snapshot.entity_counts(query.entities)
        named = query.snapshot.terms_in("entities", query.entities, terms)
        rarity = np.minimum(1.0, self.rare / np.maximum(counts, 1))
        share = float((named * rarity[:, None]).max(axis=0) @ weights)
        trust = min(1.0, share / self.enough)
        parts = named @ weights
        if trust >= 0.5:
            value = parts * rarity
            return trust, share, Named(np.flatnonzero(value > value.max() * _LEAST_PART).tolist())
        common = np.flatnonzero((parts > 0) & (counts > self.rare))
        if len(common) == 0 or float(named.any(axis=0) @ weights) < 0.5 * self.enough:
            return trust, share, Named(np.flatnonzero(parts).tolist(), ", a small part of it")
        number = "many" if counts[common].min() >= _MANY else "several"
        return trust, share, Named(common.tolist(), f", which {number} passages mention")

    def _bridges(
        self, query: Query, starts: Keys, terms: list[str], weights: Values, most_passages: float
    ) -> tuple[Ranking, Bridges | None]:
        """Return chunks that share an entity with the best plain passages, their strengths, at most 1, and the ways.

        The question does not name these entities, and few chunks mention them. A chunk is the stronger the
        better the passage it was reached from, the rarer the entity, and the more of the question the chunk
        covers, above all of what the passage does not cover.
        """
        snapshot = query.snapshot
        edges = snapshot.neighbours(starts, to="entities")
        start = np.repeat(np.arange(len(starts)), edges.counts)
        counts = snapshot.entity_counts(edges.targets)
        usable = (counts > 1) & (counts <= most_passages) & ~among(edges.targets, np.sort(query.entities))
        start, entities, counts = start[usable], edges.targets[usable], counts[usable]
        if len(entities) == 0:
            return _NOTHING, None
        found = snapshot.neighbours(entities, to="chunks")
        pair = np.repeat(np.arange(len(entities)), found.counts)
        elsewhere = found.targets != starts[start[pair]]
        start_is_about = edges.is_about[usable][pair][elsewhere]
        is_about = found.is_about[elsewhere]
        pair, reached = pair[elsewhere], found.targets[elsewhere]
        chunks, at = np.unique(reached, return_inverse=True)
        held = snapshot.terms_in("chunks", np.concatenate([starts, chunks]), terms)
        covered, has = held[: len(starts)], held[len(starts) :]
        prior = self.offset / (np.arange(len(starts)) + self.offset) * (0.3 + covered @ weights)
        value = (prior[start] * np.minimum(1, 4 / counts) ** 0.5)[pair]
        missing = np.where(covered, 0, weights)  # of each start
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

    def _links(
        self,
        query: Query,
        keys: Keys,
        sentences: Sentences,
        terms: list[str],
        weights: Values,
        most_passages: float,
        counts: float,
    ) -> Links:
        """Return the strength of the link between each two chunks, and what it consists of.

        ``counts`` is how far links count, from 0 to 1. Entities count that at least two of the chunks mention, and not
        too many of the index.
        """
        snapshot = query.snapshot
        mentions = snapshot.mentions(keys)
        entities = distinct(mentions.targets)
        column = entities.searchsorted(mentions.targets)
        passages = snapshot.entity_counts(entities)
        usable = (np.bincount(column, minlength=len(entities)) > 1) & (passages <= most_passages)
        kept = usable[column]
        row, column = np.arange(len(keys)).repeat(mentions.counts)[kept], (usable.cumsum() - 1)[column[kept]]
        entities, passages = entities[usable], passages[usable]
        held, subject = (np.zeros((len(keys), len(entities)), np.bool_) for _ in range(2))
        held[row, column], subject[row, column] = True, mentions.is_about[kept]
        # The best sentence of a chunk that mentions an entity: how much of the question it covers besides the name.
        evidence = np.zeros(held.shape)
        rows = snapshot.fact_rows(sentences.facts)
        fact, kept = np.arange(len(rows.keys)).repeat(rows.counts), among(rows.entities, entities)
        fact, column = fact[kept], entities.searchsorted(rows.entities[kept])
        stated = sentences.of_facts[fact] & ~snapshot.terms_in("entities", entities, terms)[column]
        np.maximum.at(evidence, (sentences.owners[fact], column), np.vecdot(stated, weights))
        rarity = 2 / np.maximum(passages, 2)
        rarity[among(entities, np.sort(query.entities))] = 0
        # Two chunks about the same thing, such as two sections of a document, are not linked by that.
        weight = self.link * counts
        to_subject = weight * (held & ~subject) * (self.subject_link + self.subject_evidence * evidence)
        to_mention = weight * held * rarity * (self.shared_link + self.shared_evidence * evidence)
        links = np.maximum(_strongest(to_subject, subject), _strongest(to_mention, held))
        links = np.maximum(links, links.T)
        np.fill_diagonal(links, 0)
        return Links(links, entities, held, subject, to_subject, to_mention)

    def _choose(
        self, prior: Values, bridged: Values, weights: Values, matches: Values, links: Values, kept: list[int]
    ) -> Keys:
        """Return positions of candidates, best first: the first ten one by one, each with regard to those before it.

        A score consists of what a candidate has by its rank and by bridges, the weights of the words that it contains
        more than those before it, and its links. ``kept`` are among the first five.
        """
        contained, linked = np.zeros(len(weights)), np.zeros(len(prior))
        left = np.ones(len(prior), np.bool_)
        chosen: list[int] = []
        while True:
            score = prior + np.maximum(matches - contained, 0) @ weights + linked
            if len(chosen) >= self.anchors:
                score += bridged
            score = score.round(6)  # equal whatever the order of the sums
            if len(chosen) == min(self.steps, len(score)):
                break
            waiting = [place for place in kept if left[place]]
            if len(chosen) < self.head <= len(chosen) + len(waiting):
                best = max(waiting, key=lambda place: (score[place], -place))
            else:
                best = int(np.where(left, score, -np.inf).argmax())
            chosen.append(best)
            left[best] = False
            contained = np.maximum(contained, matches[best])
            linked = np.maximum(linked, links[best])
        rest = np.flatnonzero(left)
        return np.array([*chosen, *rest[np.argsort(-score[rest], kind="stable")].tolist()], np.int64)

    def _with_turns(self, chosen: Keys, plain: Keys) -> Keys:
        """Return a ranking in which plain search has every other place below the first five."""
        head = chosen[: self.head]
        others = plain[~np.isin(plain, head)][: len(chosen) - len(head)]
        turns = np.stack([others, chosen[self.head : self.head + len(others)]], axis=1).ravel()
        return np.concatenate([head, turns, chosen])

    def _with_kept(self, keys: Keys, kept: Keys) -> Keys:
        """Return a ranking whose first five contain some passages: these replace the last of the others."""
        head = keys[: self.head].tolist()
        others = [key for key in head if key not in kept]
        missing = [key for key in kept.tolist() if key not in head]
        gone = set(others[len(others) - len(missing) :]) if missing else set()
        return _each_once(np.array([*(key for key in head if key not in gone), *missing], np.int64), keys)


def _strongest(values: Values, flags: Flags) -> Values:
    """Return for each two rows the largest value of the second in a column that the first has; both are 2-D."""
    strongest = np.zeros((len(flags), len(values)))
    rows, columns = np.nonzero(flags)
    if len(rows):
        first = np.concatenate([[0], 1 + np.flatnonzero(rows[1:] != rows[:-1])])
        strongest[rows[first]] = np.maximum.reduceat(values.T[columns], first)
    return strongest


def _joined(sentences: Sentences, others: Sentences) -> Sentences:
    """Return the sentences of two lists of chunks as those of one."""
    owners = others.owners + len(sentences.of_chunks)
    of_chunks, facts, owners, of_facts = (
        np.concatenate(both) for both in zip(sentences, others._replace(owners=owners), strict=True)
    )
    return Sentences(of_chunks, facts, owners, of_facts)


def _values_of(keys: Keys, known: Keys, values: npt.NDArray[Any], otherwise: float) -> Values:
    """Return the values of keys, some of which are known."""
    of = dict(zip(known.tolist(), values.tolist(), strict=True))
    return np.array([of.get(key, otherwise) for key in keys.tolist()], np.float64)


def _each_once(*keys: Keys) -> Keys:
    everything = np.concatenate(keys).tolist()
    return np.array(list(dict.fromkeys(everything)), np.int64)  # faster than np.unique for a few hundred


def _by_rank(keys: Keys) -> Scores:
    scores: Scores = (1 / np.arange(1, len(keys) + 1)).astype(np.float32)
    return scores
