"""``Linear``: the second stage of a hybrid question, one linear score for each passage given those chosen before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Keys, Ranking, Scores, Sentences
from graphrag_core.query.matching import Flags, QuestionWords, Values
from graphrag_core.query.named_document import named_document
from graphrag_core.query.query import Query, word_weights
from graphrag_core.query.reasons import Candidates, Links
from graphrag_core.query.reranker import Reranked, Reranker
from graphrag_core.result import Signal

_PLAIN, _GRAPH, _INSIDE = 30, 25, 20  # candidates: first passages of plain search, the graph and the named document
_OFFSET, _FAR = 10, 100  # a rank, from 0, counts 10 / (rank + 10); that of a passage which a ranking lacks is 100
_STEPS = 10  # passages that are chosen one by one; the others follow by their last score
_BACKGROUND = 1_000  # passages added to the count when words are weighed: in a small index all words are rare
_TOGETHER = 5  # passages whose words are looked at together for the probability
_FEW = 5  # passages that mention an entity link each other in any index
_RARE = 2.0  # passages that mention a name which counts in full
_ENOUGH = 0.25  # the share of such names from which on the graph is trusted in full


@dataclass(frozen=True, kw_only=True)
class Linear(Reranker):
    """Chooses passages one by one by a linear score, so that together they cover the question and hang together.

    The score of a passage is a weighted sum: its ranks in plain search, in the graph, by vector and in the document
    that the question names, the words of the question that it adds to those chosen before, and its strongest link to
    one of these. The trust decides between plain search and the graph. It is the share of the question that consists of
    rare names which the graph knows, 1 from a quarter on. A rank counts 10 / (rank + 10).

    The score of a hit is the probability that it belongs to the answer: a logistic function of the sum, the rank, the
    trust and the share of the question's words in the first five. Beside each weight: its worth in points of recall@5.
    """

    graph: float = 0.3  # rank in the graph without trust; grows to 1 with it, as plain search falls: 6 on Wikipedia
    vector: float = 0.15  # rank by vector: 1.5 on documents; 0.3 adds 1.8 on SciFact and costs 0.7 on Wikipedia
    document: float = 1.2  # rank inside the named document: 6.6 on policies of companies, 0 elsewhere
    cover: float = 1.2  # words of the question that no chosen passage has: 1.2 on documents, 1.8 on Wikipedia
    link: float = 0.9  # strongest link to a chosen passage: 2.1 on documents, 5.5 on Wikipedia
    similar: float = 0.4  # words, exact or similar, in the order of plain search: 1.0 to 2.9 on documents
    most_passages: int = 40  # an entity that more passages mention, or a tenth of a small index, links none
    # Of the probability, by ``make bench-calibration``: constant, score, ln(rank), trust, share of the words.
    probability: tuple[float, ...] = (-7.11, 2.11, -0.67, 0.95, 3.32)

    has_probabilities = True

    def rerank(self, query: Query, plain: Ranking, graph: Ranking) -> Reranked:
        """Return all chunks of both rankings, best first, with the probability that each belongs to the answer."""
        everything = _each_once(plain[0], graph[0])
        words = QuestionWords.of(query)
        if not words.terms or len(everything) == 0:
            return Reranked(everything, self.probabilities(np.zeros(0), 0.0, 0.0, len(everything)), named=())
        trust, share, named = _trust(query, words)
        document = named_document(query)
        inside = plain[0][:0]
        if document is not None:
            inside = plain[0][query.snapshot.documents_of(plain[0]) == document.number][:_INSIDE]
        keys = _each_once(plain[0][:_PLAIN], graph[0][:_GRAPH], inside)
        sentences = query.snapshot.sentences(keys, words.terms)
        matches = words.matches(query, keys, sentences.of_chunks)
        by_words = self._by_words(plain, matches.sum(axis=1))
        nearest = plain[0][np.argsort(-query.snapshot.cosines(plain[0], query.vector), kind="stable")]
        by_plain = _by_rank(keys, plain[0])
        signals: dict[Signal, Values] = {
            "plain": (1 - trust) * by_plain,
            "words": (1 - trust) * (_by_rank(keys, by_words) - by_plain),
            "graph": (self.graph + (1 - self.graph) * trust) * _by_rank(keys, graph[0]),
            "vector": (self.vector if query.vector is not None else 0) * _by_rank(keys, nearest),
            "document": self.document * np.isin(keys, inside) * _by_rank(keys, by_words[np.isin(by_words, inside)]),
        }
        links = self._links(query, keys, sentences, words)
        static = np.sum([*signals.values()], axis=0)
        order, sums, added, linked = _choose(static, self.cover * matches, self.link * links.strengths)
        ranking = _each_once(keys[order], by_words, everything)
        contained = _contained(query, words.terms, sentences.of_chunks[order[:_TOGETHER]])
        sums -= signals["document"][order[: len(sums)]]  # every passage of it has that
        scores = self.probabilities(sums, trust, contained, len(ranking))
        candidates = Candidates(keys, plain[0], words.terms, signals, order, added, linked, links)
        return Reranked(ranking, scores, trust, share, named, document.name if document else "", candidates)

    def rerank_plain(self, query: Query, plain: Ranking) -> Ranking:
        """Return plain search in its order, with probabilities by its ranks and by the words of the question."""
        snapshot, first = query.snapshot, plain[0][:_STEPS]
        terms = snapshot.terms(query.expected_words)
        if not terms or len(first) == 0:
            return plain[0], self.probabilities(np.zeros(0), 0.0, 0.0, len(plain[0]))
        counts, covered = snapshot.term_counts(terms), snapshot.contained(first, terms)
        weights = word_weights(counts, snapshot.statistics_count) * covered.any(axis=0)
        matches = covered * (weights / max(float(weights.sum()), 1e-9))
        contained = np.maximum.accumulate(matches)
        added = np.maximum(matches[1:] - contained[:-1], 0).sum(axis=1)
        scores = _by_rank(first, first) * (1 + self.graph) + self.cover * np.append(matches[0].sum(), added)
        together = _contained(query, terms, covered[:_TOGETHER])
        return plain[0], self.probabilities(scores, 0.0, together, len(plain[0]))

    def probabilities(self, scores: Values, trust: float, contained: float, count: int) -> Scores:
        """Return falling probabilities for a ranking whose first passages have these scores."""
        ranks = np.arange(1, count + 1)
        known = np.concatenate([scores, np.full(max(0, count - len(scores)), scores[-1:].min(initial=0))])[:count]
        constant, of_score, of_rank, of_trust, of_words = self.probability
        logit = constant + of_score * known + of_rank * np.log(ranks) + of_trust * trust + of_words * contained
        falling: Scores = np.minimum.accumulate(1 / (1 + np.exp(-logit))).astype(np.float32)
        return falling * (1 - np.float32(1e-6) * ranks.astype(np.float32))

    def _by_words(self, plain: Ranking, contained: Values) -> Keys:
        """Return plain search with its first passages in the order of their score and of the words they contain."""
        scores, first = plain[1][:_PLAIN], contained[: len(plain[0][:_PLAIN])]
        if len(first) == 0:
            return plain[0]
        similar = (first - first.min()) / max(float(np.ptp(first)), 1e-9)
        order = np.argsort(-(scores + self.similar * similar).round(6), kind="stable")
        return np.concatenate([plain[0][order], plain[0][len(order) :]])

    def _links(self, query: Query, keys: Keys, sentences: Sentences, words: QuestionWords) -> Links:
        """Return the links between chunks: one mentions what the other is about, or both mention a rare entity.

        A link is the stronger the more words of the question the sentence with the entity has, besides its name.
        """
        snapshot = query.snapshot
        mentions = snapshot.mentions(keys)
        entities = distinct(mentions.targets)
        column = entities.searchsorted(mentions.targets)
        passages = snapshot.entity_counts(entities)
        most = min(self.most_passages, max(_FEW, snapshot.chunk_count / 10))
        usable = (np.bincount(column, minlength=len(entities)) > 1) & (passages <= most)
        kept = usable[column]
        row, column = np.arange(len(keys)).repeat(mentions.counts)[kept], (usable.cumsum() - 1)[column[kept]]
        entities, passages = entities[usable], passages[usable]
        held, subject = np.zeros((2, len(keys), len(entities)), np.bool_)
        held[row, column], subject[row, column] = True, mentions.is_about[kept]
        evidence = np.zeros(held.shape)
        rows = snapshot.fact_rows(sentences.facts)
        fact, kept = np.arange(len(rows.keys)).repeat(rows.counts), among(rows.entities, entities)
        fact, column = fact[kept], entities.searchsorted(rows.entities[kept])
        stated = sentences.of_facts[fact] & ~snapshot.in_names(entities, words.terms)[column]
        np.maximum.at(evidence, (sentences.owners[fact], column), np.vecdot(stated, words.term_weights))
        rarity = np.where(among(entities, np.sort(query.entities)), 0, 2 / np.maximum(passages, 2))
        to_subject, to_mention = (held & ~subject) * (0.25 + evidence), held * rarity * (0.2 + 0.5 * evidence)
        strengths = np.maximum(_strongest(to_subject, subject), _strongest(to_mention, held))
        strengths = np.maximum(strengths, strengths.T)
        np.fill_diagonal(strengths, 0)
        return Links(strengths, entities, held, subject, to_subject, to_mention)


def _choose(static: Values, matches: Values, links: Values) -> tuple[Keys, Values, Values, Values]:
    """Return the candidates in order: the first ten one by one, each by what it adds to those before it.

    With the scores of these, and at each step the new words and the links of all candidates.
    """
    steps = min(_STEPS, len(static))
    contained, left = np.zeros(matches.shape[1]), static.copy()
    chosen, scores = np.empty(steps, np.int64), np.empty(steps)
    added, linked = np.zeros((2, steps + 1, len(static)))
    for step in range(steps + 1):
        np.maximum(matches - contained, 0).sum(axis=1, out=added[step])
        score = (left + added[step] + linked[step]).round(6)  # equal whatever the order of the sums
        if step == steps:
            break
        best = int(score.argmax())
        chosen[step], scores[step], left[best] = best, score[best], -np.inf
        contained = np.maximum(contained, matches[best])
        np.maximum(linked[step], links[best], out=linked[step + 1])
    rest = np.argsort(-score, kind="stable")[: len(static) - steps]
    return np.concatenate([chosen, rest]), scores, added, linked


def _strongest(values: Values, flags: Flags) -> Values:
    """Return for each two rows the largest value of the second in a column that the first has; both are 2-D."""
    strongest = np.zeros((len(flags), len(values)))
    rows, columns = np.nonzero(flags)
    if len(rows):
        first = np.concatenate([[0], 1 + np.flatnonzero(rows[1:] != rows[:-1])])
        strongest[rows[first]] = np.maximum.reduceat(values.T[columns], first)
    return strongest


def _contained(query: Query, terms: Sequence[str], covered: Flags) -> float:
    """Return the share of the question's words that some passages contain together, rare words more."""
    counts = query.snapshot.term_counts(terms).clip(1)
    return float(covered.any(axis=0) @ word_weights(counts, query.snapshot.statistics_count + _BACKGROUND))


def _trust(query: Query, words: QuestionWords) -> tuple[float, float, list[int]]:
    """Return the trust in the graph, the share of the question that consists of rare known names, and these.

    A name is as rare as its mentions and its rarest word are together: "File" is not, in a manual full of files.
    """
    if len(query.entities) == 0:
        return 0.0, 0.0, []
    mentions = query.snapshot.entity_counts(query.entities).clip(1).astype(np.float64)
    named = query.snapshot.in_names(query.entities, words.terms)
    of_words = np.where(named, query.snapshot.term_counts(words.terms), np.inf).min(axis=1)
    of_words = np.where(np.isfinite(of_words), of_words, mentions)
    rarity = np.minimum(1, _RARE / np.maximum(mentions, np.sqrt(mentions * of_words)))
    share = float((named * rarity[:, None]).max(axis=0) @ words.term_weights)
    deciding = np.flatnonzero((named @ words.term_weights) * rarity > 0.1 * share)
    return min(1.0, share / _ENOUGH), share, deciding.tolist()


def _by_rank(keys: Keys, ranking: Keys) -> Values:
    """Return what the rank of each chunk counts."""
    rank_of = {key: rank for rank, key in enumerate(ranking[:_FAR].tolist())}
    return _OFFSET / np.array([rank_of.get(key, _FAR) + _OFFSET for key in keys.tolist()], np.float64)


def _each_once(*keys: Keys) -> Keys:
    return np.array(list(dict.fromkeys(np.concatenate(keys).tolist())), np.int64)
