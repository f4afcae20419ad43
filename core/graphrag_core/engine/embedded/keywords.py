"""Keyword search (BM25) with tantivy. Words are stemmed; Chinese and Japanese are indexed as character bigrams."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import tantivy

from graphrag_core.errors import DiskError
from graphrag_core.ports import Keys, Ranking
from graphrag_core.text import segment

_HEAP = 16_000_000  # bytes for each writer; tantivy needs at least 15 million
_STATE = "state.json"
_NEW = (-1, 0)  # generation and tombstones
_MOST_TERMS = 256
_SMALL_SCOPE = 2_000  # keys up to which a scope is part of the query

_STOPWORDS = (
    "a an and are as at be but by did do does for from had has have how in into is it its not of on or such "
    "that the their then there these they this to was were what when where which who whom whose why will with"
).split()


class TantivyKeywords:
    """Texts under integer keys, in a folder or in memory.

    Removed texts are never returned, but count in BM25's statistics until tantivy merges their
    segment or all texts are replaced.

    The generation is stored beside the index after each commit. A process that crashes between
    the two leaves the older number, and the change is applied again: adding a key that exists
    replaces its text.

    Attributes
    ----------
    generation
        The generation last applied; -1 for a new index.
    tombstones
        How many removed texts still count in BM25's statistics.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        schema = tantivy.SchemaBuilder()
        schema.add_integer_field("key", indexed=True, fast=True)
        schema.add_text_field("text", tokenizer_name="words", index_option="freq")
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            self._index = tantivy.Index(schema.build(), path=None if folder is None else str(folder))
        except (OSError, ValueError) as error:
            raise DiskError(f"{folder}: the keyword index cannot be opened ({error})") from error
        self._analyzer = _analyzer()
        self._index.register_tokenizer("words", self._analyzer)
        self._writer: tantivy.IndexWriter | None = None
        self._in_step = False  # whether the stored generation is known to be that of the texts
        self.generation, self.tombstones = _NEW
        self.refresh()

    def refresh(self) -> None:
        """Load what another process has committed."""
        if self.folder is not None:
            self.generation, self.tombstones = _read_state(self.folder / _STATE)
        self._index.reload()
        self._searcher = self._index.searcher()

    def apply(self, generation: int, removed: Keys | None, added: Iterable[tuple[int, str]]) -> None:
        """Remove texts (None for all), add texts and set the generation: all or nothing, even in a crash."""
        if self._writer is None:
            self._writer = self._index.writer(_HEAP, 1)
        if removed is None:
            # Not delete_all_documents: it resets tantivy's operation counter, and later deletions may be lost.
            self._writer.delete_documents_by_query(tantivy.Query.all_query())
            tombstones = 0
        else:
            gone = removed.tolist()
            if not self._in_step:
                added = list(added)
                gone += np.intersect1d(self.keys, [key for key, _ in added]).tolist()
            for key in gone:
                self._writer.delete_documents_by_term("key", key)
            tombstones = self.tombstones + len(gone)
        for key, text in added:
            document = tantivy.Document()
            document.add_integer("key", key)
            document.add_text("text", text if text.isascii() else segment(text))
            self._writer.add_document(document)
        self._writer.commit()
        self.generation, self.tombstones, self._in_step = generation, tombstones, True
        if self.folder is not None:
            new = self.folder / f"{_STATE}.new"
            state = {"generation": generation, "ghosts": tombstones}  # the key of format 1
            new.write_text(json.dumps(state), "utf-8")
            new.replace(self.folder / _STATE)
        self._index.reload()
        self._searcher = self._index.searcher()

    def search(self, text: str, k: int, allowed: Keys | None = None) -> Ranking:
        """Return the best ``k`` keys with a positive score, best first, and what ties with the last.

        ``allowed`` restricts the search.
        """
        found = list(dict.fromkeys(self._analyzer.analyze(text if text.isascii() else segment(text))))
        terms = ([term for term in found if term not in _STOPWORDS] or found)[:_MOST_TERMS]
        size = self._searcher.num_docs
        if not terms or size == 0 or k < 1 or (allowed is not None and len(allowed) == 0):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        schema = self._index.schema
        should = [(tantivy.Occur.Should, tantivy.Query.term_query(schema, "text", term, "freq")) for term in terms]
        query = tantivy.Query.boolean_query(should)
        if allowed is not None and len(allowed) <= _SMALL_SCOPE:
            inside = tantivy.Query.term_set_query(schema, "key", allowed.tolist())
            silent = tantivy.Query.const_score_query(inside, 0.0)
            query = tantivy.Query.boolean_query([(tantivy.Occur.Must, query), (tantivy.Occur.Must, silent)])
        wanted = k + 8
        while True:
            hits = self._searcher.search(query, min(wanted, size), count=False).hits
            keys = np.array(self._searcher.fast_field_values("key", [at for _, at in hits]), np.int64)
            scores = np.array([score for score, _ in hits], np.float32)
            exhausted = len(hits) < wanted
            if allowed is not None:
                inside_scope = np.isin(keys, allowed)
                keys, scores = keys[inside_scope], scores[inside_scope]
            if exhausted or (len(scores) > k and scores[-1] < scores[k - 1]):
                break
            wanted *= 4
        if len(scores) > k:
            kept = scores >= scores[k - 1]
            keys, scores = keys[kept], scores[kept]
        order = np.lexsort((keys, -scores))
        return keys[order], scores[order]

    @property
    def size(self) -> int:
        """The number of texts."""
        return int(self._searcher.num_docs)

    @property
    def keys(self) -> Keys:
        """All keys, in ascending order."""
        hits = self._searcher.search(tantivy.Query.all_query(), max(self._searcher.num_docs, 1), count=False).hits
        return np.sort(np.array(self._searcher.fast_field_values("key", [at for _, at in hits]), np.int64))

    def close(self) -> None:
        """Finish running merges and release the writer's memory and lock. The next change opens another writer."""
        if self._writer is not None:
            self._writer.wait_merging_threads()
            self._writer = None


def _read_state(path: Path) -> tuple[int, int]:
    try:
        state = json.loads(path.read_text("utf-8"))
        return int(state["generation"]), int(state["ghosts"])
    except (OSError, ValueError, KeyError, TypeError):
        return _NEW  # or damaged: all texts are indexed again


def _analyzer() -> tantivy.TextAnalyzer:
    build = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for step in (
        tantivy.Filter.remove_long(60),
        tantivy.Filter.lowercase(),
        tantivy.Filter.ascii_fold(),
        tantivy.Filter.stemmer("english"),
    ):
        build = build.filter(step)
    return build.build()
