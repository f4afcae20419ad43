"""``Linear``: the second stage of a hybrid question, one linear score for each passage given those chosen before it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.errors import InputError, check_number
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Keys, Ranking, Scores, Sentences
from graphrag_core.query.query import Query
from graphrag_core.query.reasons import Choice, Flags, Links, Values
from graphrag_core.query.rerank import Reranked, Reranker
from graphrag_core.result import Signal
from graphrag_core.text.names import file_address

_PLAIN, _GRAPH, _INSIDE = 30, 25, 20  # candidates: first passages of plain search, the graph and the named document
_OFFSET, _FAR = 10, 100  # a rank, from 0, counts 10 / (rank + 10); that of a passage which a ranking lacks is 100
_STEPS = 10  # passages that are chosen one by one; the others follow by their last score
_BACKGROUND = 1_000  # passages added to the count when words are weighed: in a small index all words are rare
_TOGETHER = 5  # passages whose words are looked at together for the probability
_FEW = 5  # passages that mention an entity link each other in any index
_RARE = 2.0  # passages that mention a name which counts in full
_ENOUGH = 0.25  # the share of such names from which on the graph is trusted in full
_WORD = re.compile(r"\w+(?:[-_.:/]\w+)*")
_MOST_TOKENS = 65_536  # of a vocabulary
_MOST_PRODUCTS = 200_000  # in one matrix product: from 262,144 on OpenBLAS wakes its threads, which spin
_FILE = re.compile(r"[\w-][\w.-]*\.[A-Za-z]{1,8}\b")
_MOST_FILES = 20
_FEWEST, _MOST = 3, 1_000  # passages that mention the name of a document; beyond, it is the topic of the collection
_OF_PROBABILITY = ("the constant", "score", "ln(rank)", "trust", "share of the words")
_SHARE = 0.8  # of these passages are of one document


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

    def __post_init__(self) -> None:
        for name in ("graph", "vector", "document", "cover", "link", "similar"):
            check_number(getattr(self, name), f"reranker.{name}")
        if len(self.probability) != len(_OF_PROBABILITY) or not np.isfinite(self.probability).all():
            raise InputError(f"probability is {self.probability!r:.80}: use numbers for {', '.join(_OF_PROBABILITY)}")

    def rerank(self, query: Query, plain: Ranking, graph: Ranking) -> Reranked:
        """Return all chunks of both rankings, best first, with the probability that each belongs to the answer."""
        snapshot, everything = query.snapshot, _each_once(plain[0], graph[0])
        terms = snapshot.terms(" ".join((query.text, *query.carried.names)))
        if not terms or len(everything) == 0:
            return Reranked(everything, self.probabilities(np.zeros(0), 0.0, 0.0, len(everything)), named=())
        counts = snapshot.term_counts(terms)
        weights = word_weights(counts, snapshot.statistics_count)
        of_named = snapshot.entity_counts(query.entities)
        document, inside = _named_document(query, of_named, plain[0])
        keys = _each_once(plain[0][:_PLAIN], graph[0][:_GRAPH], inside)
        sentences = snapshot.sentences(keys, terms)
        links, in_names = self._links(query, keys, sentences, weights, terms)
        trust, share, named = _trust(of_named, in_names, counts, weights)
        matches = _matches(query, keys, terms, weights, sentences.of_chunks)
        # Plain search with its first passages in the order of their score and of the words they contain.
        first = matches[: len(plain[0][:_PLAIN])].sum(axis=1)
        similar = (first - first.min(initial=np.inf)) / max(float(np.ptp(first)) if len(first) else 0.0, 1e-9)
        order = np.argsort(-(plain[1][:_PLAIN] + self.similar * similar).round(6), kind="stable")
        by_words = np.concatenate([plain[0][order], plain[0][len(order) :]])
        nearest = plain[0][np.argsort(-snapshot.cosines(plain[0], query.vector), kind="stable")]
        of_document = np.isin(by_words, inside) if document else np.zeros(len(by_words), np.bool_)
        by_plain = _by_rank(keys, plain[0])
        signals: dict[Signal, Values] = {
            "plain": (1 - trust) * by_plain,
            "words": (1 - trust) * (_by_rank(keys, by_words) - by_plain),
            "graph": (self.graph + (1 - self.graph) * trust) * _by_rank(keys, graph[0]),
            "vector": (self.vector if query.vector is not None else 0) * _by_rank(keys, nearest),
            "document": self.document * _by_rank(keys, by_words[of_document], missing=0.0),
        }
        static: Values = sum(signals.values(), np.zeros(len(keys)))
        order, sums, added, linked = _choose(static, self.cover * matches, self.link * links.strengths)
        ranking = _each_once(keys[order], by_words, everything)
        sums -= signals["document"][order[: len(sums)]]  # every passage of it has that
        contained = _contained(query, counts, sentences.of_chunks[order[:_TOGETHER]])
        scores = self.probabilities(sums, trust, contained, len(ranking))
        choice = Choice(keys, plain[0], signals, order, added, linked, links)
        return Reranked(ranking, scores, trust, share, named, document, terms, choice)

    def rerank_plain(self, query: Query, plain: Ranking) -> Reranked:
        """Return plain search in its order, with probabilities by its ranks and by the words of the question."""
        snapshot, first = query.snapshot, plain[0][:_STEPS]
        terms = snapshot.terms(" ".join((query.text, *query.carried.names)))
        if not terms or len(first) == 0:
            return Reranked(plain[0], self.probabilities(np.zeros(0), 0.0, 0.0, len(plain[0])))
        counts, covered = snapshot.term_counts(terms), snapshot.sentences(first, terms).of_chunks
        weights = word_weights(counts, snapshot.statistics_count) * covered.any(axis=0)
        matches = covered * (weights / max(float(weights.sum()), 1e-9))
        contained = np.maximum.accumulate(matches)
        added = np.maximum(matches[1:] - contained[:-1], 0).sum(axis=1)
        by_rank = _OFFSET / (np.arange(len(first)) + _OFFSET)
        scores = by_rank * (1 + self.graph) + self.cover * np.append(matches[0].sum(), added)
        together = _contained(query, counts, covered[:_TOGETHER])
        return Reranked(plain[0], self.probabilities(scores, 0.0, together, len(plain[0])), terms=terms)

    def probabilities(self, scores: Values, trust: float, contained: float, count: int) -> Scores:
        """Return falling probabilities for a ranking whose first passages have these scores."""
        ranks = np.arange(1, count + 1)
        known = np.full(count, scores[-1:].min(initial=0))
        known[: len(scores)] = scores[:count]
        constant, of_score, of_rank, of_trust, of_words = self.probability
        logit = constant + of_score * known + of_rank * np.log(ranks) + of_trust * trust + of_words * contained
        falling: Scores = np.minimum.accumulate(1 / (1 + np.exp(-logit))).astype(np.float32)
        return falling * (1 - np.float32(1e-6) * ranks.astype(np.float32))

    def _links(
        self, query: Query, keys: Keys, sentences: Sentences, weights: Values, terms: Sequence[str]
    ) -> tuple[Links, Flags]:
        """Return the links between chunks: one mentions what the other is about, or both mention a rare entity.

        A link is the stronger the more words of the question the sentence with the entity has, besides its name.
        Also returns which terms the names of the question's entities contain.
        """
        snapshot = query.snapshot
        mentions = snapshot.mentions(keys)
        row = np.arange(len(keys)).repeat(mentions.counts)
        entities = distinct(mentions.targets)
        column = entities.searchsorted(mentions.targets)
        several = np.bincount(column, minlength=len(entities)) > 1
        passages = np.full(len(entities), np.iinfo(np.int64).max)
        passages[several] = snapshot.entity_counts(entities[several])
        usable = passages <= min(self.most_passages, max(_FEW, snapshot.chunk_count / 10))
        entities, passages, kept = entities[usable], passages[usable], usable[column]
        row, column = row[kept], (usable.cumsum() - 1)[column[kept]]
        held, subject = np.zeros((2, len(keys), len(entities)), np.bool_)
        held[row, column], subject[row, column] = True, mentions.is_about[kept]
        of_names = snapshot.in_names(np.concatenate([query.entities, entities]), terms)
        in_names = of_names[len(query.entities) :]
        counts, holding = snapshot.entities_of(sentences.facts)
        kept = among(holding, entities)
        fact, column = np.arange(len(counts)).repeat(counts)[kept], entities.searchsorted(holding[kept])
        evidence = np.zeros(held.shape)
        stated = sentences.of_facts[fact] & ~in_names[column]
        np.maximum.at(evidence, (sentences.owners[fact], column), stated @ weights)
        rarity = np.where(among(entities, np.sort(query.entities)), 0, 2 / np.maximum(passages, 2))
        to_subject, to_mention = (held & ~subject) * (0.25 + evidence), held * rarity * (0.2 + 0.5 * evidence)
        strengths = np.maximum(_strongest(to_subject, subject), _strongest(to_mention, held))
        strengths = np.maximum(strengths, strengths.T)
        np.fill_diagonal(strengths, 0)
        links = Links(strengths, snapshot.entity_ids(entities), held, subject, to_subject, to_mention)
        return links, of_names[: len(query.entities)]


def word_weights(counts: Keys, total: int) -> Values:
    """Return the inverse document frequency of terms in ``counts`` of ``total`` passages, normalised to sum 1."""
    weights: Values = np.log(1 + (total - counts + 0.5) / (counts + 0.5))
    return weights / max(float(weights.sum()), 1e-9)


def _matches(query: Query, keys: Keys, terms: Sequence[str], term_weights: Values, covered: Flags) -> Values:
    """Return how far chunks contain each word of the question, times its weight: one row for each chunk.

    A word that is one token of the embedder counts by its similarity to the nearest token of a chunk. A word of several
    tokens is rare, and its pieces mean little: it counts by its stems, and so does every word without token vectors.
    ``covered`` says which chunks contain which terms. A word that none contains weighs nothing; the weights of the
    others sum to 1.
    """
    embedder, words = query.embedder, _words(query, terms)
    values, weights = covered.astype(np.float64), term_weights
    if words and embedder is not None:
        stems = [list(own) for own in words.values()]
        values = np.stack([covered[:, own].sum(axis=1) / len(own) for own in stems], axis=1)
        weights = np.array([term_weights[own].max() for own in stems])
    weights = np.where(values.any(axis=0), weights, 0)
    if words and embedder is not None:
        tokens = embedder.token_ids([*words])
        places = np.array([place for place, ids in enumerate(tokens) if len(ids) == 1], np.int64)
        counts, ids = query.snapshot.tokens(keys)
        there = np.flatnonzero(counts)
        if len(places) and len(there):
            vectors = embedder.token_vectors(np.array([tokens[place][0] for place in places], np.int64))
            similar = _similarities(vectors, ids, embedder.token_vectors)
            starts = counts[there].cumsum() - counts[there]
            values[np.ix_(there, places)] = np.maximum.reduceat(similar, starts, axis=0).clip(0, 1)
    weighed: Values = values * (weights / max(float(weights.sum()), 1e-9))
    return weighed


def _words(query: Query, terms: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the words of the question with the positions of their terms, each once; none without token vectors."""
    if query.embedder is None or not query.embedder.has_tokens or query.vector is None:
        return {}
    row_of, words = {term: row for row, term in enumerate(terms)}, dict[tuple[int, ...], str]()
    for word in _WORD.findall(" ".join((query.text, *query.carried.names))):
        if rows := tuple(row_of[term] for term in query.snapshot.terms(word) if term in row_of):
            words.setdefault(rows, word)
    return {word: rows for rows, word in words.items()}


def _similarities(vectors: npt.NDArray[np.float32], ids: Keys, token_vectors: Any) -> npt.NDArray[np.float32]:
    """Return the cosines of some words with tokens, a row for each of ``ids``, which may repeat."""
    place_of = np.zeros(_MOST_TOKENS, np.int32)  # the tokens, each once: a table is faster than sorting
    place_of[ids] = 1
    used = np.flatnonzero(place_of)
    place_of[used] = np.arange(len(used))
    others, size = token_vectors(used), max(1, _MOST_PRODUCTS // vectors.size)
    parts = [others[first : first + size] @ vectors.T for first in range(0, len(others), size)]
    return np.concatenate(parts).take(place_of.take(ids), axis=0)


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


def _contained(query: Query, counts: Keys, covered: Flags) -> float:
    """Return the share of the question's words that some passages contain together, rare words more."""
    return float(covered.any(axis=0) @ word_weights(counts.clip(1), query.snapshot.statistics_count + _BACKGROUND))


def _trust(of_named: Keys, named: Flags, counts: Keys, weights: Values) -> tuple[float, float, list[int]]:
    """Return the trust in the graph, the share of the question that consists of rare known names, and these.

    ``of_named`` says how many passages mention each name, and ``named`` which words it has. A name is as rare as its
    mentions and its rarest word are together: "File" is not, in a manual full of files.
    """
    if len(of_named) == 0:
        return 0.0, 0.0, []
    mentions = of_named.clip(1).astype(np.float64)
    of_words = np.where(named, counts, np.inf).min(axis=1)
    of_words = np.where(np.isfinite(of_words), of_words, mentions)
    rarity = np.minimum(1, _RARE / np.maximum(mentions, np.sqrt(mentions * of_words)))
    share = float((named * rarity[:, None]).max(axis=0) @ weights)
    deciding = np.flatnonzero((named @ weights) * rarity > 0.1 * share)
    return min(1.0, share / _ENOUGH), share, deciding.tolist()


def _by_rank(keys: Keys, ranking: Keys, missing: float = _OFFSET / (_FAR + _OFFSET)) -> Values:
    """Return what the rank of each chunk counts."""
    values = np.full(len(keys), missing, np.float64)
    at, ranks = (keys[:, None] == ranking[:_FAR]).nonzero()
    values[at] = _OFFSET / (ranks + _OFFSET)
    return values


def _each_once(*keys: Keys) -> Keys:
    return np.array(list(dict.fromkeys(np.concatenate(keys).tolist())), np.int64)


def _named_document(query: Query, counts: Keys, ranking: Keys) -> tuple[str, Keys]:
    """Return the document that a question names: by its file, or by a name that almost only this document mentions.

    Its name, empty if there is none, and its first chunks in the ranking. ``counts`` says how many passages mention
    each of the question's entities.
    """
    snapshot = query.snapshot
    files = {file_address(name): name for name in _FILE.findall(query.text)[:_MOST_FILES]} if "." in query.text else {}
    name, document = "", -1
    for address, entity in snapshot.find_entities(files).items() if files else ():
        numbers = distinct(snapshot.documents_of(snapshot.walk(np.array([entity])).targets))
        if len(numbers) == 1:
            name, document = files[address], int(numbers[0])
            break
    for entity in query.entities[(counts >= _FEWEST) & (counts <= _MOST)] if not name else ():
        chunks: Keys = snapshot.walk(np.array([entity])).targets
        numbers, of_each = np.unique(snapshot.documents_of(chunks[: _MOST + 1]), return_counts=True)
        if len(chunks) > _MOST or of_each.max() < _SHARE * len(chunks):  # in a scope not more than some are counted
            continue
        (known,) = snapshot.entities(np.array([entity]))
        if any(_is_written_as_name(query.text, own) for own in (known.name, *known.aliases)):
            name, document = known.name, int(numbers[of_each.argmax()])
            break
    inside = snapshot.documents_of(ranking) == document if name else np.zeros(len(ranking), np.bool_)
    return name, ranking[inside][:_INSIDE]


def _is_written_as_name(question: str, name: str) -> bool:
    """Return whether a question writes a name with a capital letter, with a digit in a word, or in quotation marks.

    >>> [_is_written_as_name("What does Fiverr store in 2018?", name) for name in ("Fiverr", "store", "2018")]
    [True, False, False]
    """
    for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", question, re.IGNORECASE):
        written, before = found.group(), question[: found.start()].rstrip(" ")
        words = re.sub(r"\b\d+\b", "", written[0 if before else 1 :])  # a number or a year is not a name
        is_name = any(letter.isupper() or letter.isdigit() for letter in words) or before.endswith(('"', "“", "`", "«"))
        if is_name and any(map(str.isalpha, name)):
            return True
    return False
