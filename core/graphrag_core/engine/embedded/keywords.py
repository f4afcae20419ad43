"""Keyword search (BM25) with tantivy over the fields of a text, with weights."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tantivy

from graphrag_core import forks
from graphrag_core.engine.embedded import analysis
from graphrag_core.errors import DiskError
from graphrag_core.ports import Keys, Ranking

_HEAP = 16_000_000  # bytes for each writer; tantivy needs at least 15 million
_STATE = "state.json"
_LOCKS = (".tantivy-writer.lock", ".tantivy-meta.lock")  # files of tantivy
_NEW = (-1, 0)  # generation and tombstones
_MOST_TERMS = 256
_SMALL_SCOPE = 2_000  # keys up to which a scope is part of the query

Texts = tuple[str, ...]
"""The texts of the fields, body first; missing fields are empty."""

FIELDS = {"body": 1.0, "title": 0.4, "headings": 0.2, "terms": 0.5}
"""The fields of a text and the weight of a term's BM25 score in each.

The body has title and headings too: a term's score in the other fields comes on top. Measured on documentation and on
passages with titles, where 0.3 to 0.6 for the title is best.
"""
_PHRASE = 1.0  # weight of a quoted phrase


class TantivyKeywords:
    """Texts of one or more fields under integer keys, in a folder or in memory.

    ``fields`` is the number of fields. Only an index of several fields finds quoted phrases.

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

    def __init__(self, folder: Path | None = None, fields: int = 1) -> None:
        self.folder = folder
        self._weights = dict(list(FIELDS.items())[:fields])
        schema = tantivy.SchemaBuilder()
        schema.add_integer_field("key", indexed=True, fast=True)
        for field in self._weights:
            positions = field == "body" and fields > 1
            schema.add_text_field(field, tokenizer_name="words", index_option="position" if positions else "freq")
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            self._index = tantivy.Index(schema.build(), path=None if folder is None else str(folder))
        except (OSError, ValueError) as error:
            raise DiskError(f"{folder}: the keyword index cannot be opened ({error})") from error
        self._index.register_tokenizer("words", analysis.analyzer())
        self._writer: tantivy.IndexWriter | None = None
        self._in_step = False  # whether the stored generation is known to be that of the texts
        self.generation, self.tombstones = _NEW
        self.refresh()
        forks.watch(self)

    def after_fork_in_child(self) -> None:
        """Keep what can be searched; never free it nor the writer, whose threads are in the parent."""
        if self.folder is not None:
            # tantivy releases a lock by closing its file: a copy would hold it for as long as this process lives.
            for name in _LOCKS:
                forks.close_copies(self.folder / name)
        forks.leak(self._index, self._searcher, self._writer)
        self._writer = None

    def refresh(self) -> None:
        """Load what another process has committed."""
        if self.folder is not None:
            self.generation, self.tombstones = _read_state(self.folder / _STATE)
        self._index.reload()
        self._searcher = self._index.searcher()

    def apply(self, generation: int, removed: Keys | None, added: Iterable[tuple[int, Texts]]) -> None:
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
        for key, texts in added:
            document = tantivy.Document()
            document.add_integer("key", key)
            for field, text in zip(self._weights, texts, strict=False):
                if text:
                    document.add_text(field, analysis.prepare(text))
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

        ``allowed``, in ascending order, restricts the search.
        """
        terms = (analysis.content_terms(text) or analysis.terms(text))[:_MOST_TERMS]
        size = self._searcher.num_docs
        if not terms or size == 0 or k < 1 or (allowed is not None and len(allowed) == 0):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        schema = self._index.schema
        parts = []
        for field, weight in self._weights.items():
            for term in terms:
                part = tantivy.Query.term_query(schema, field, term, "freq")
                parts.append(part if weight == 1 else tantivy.Query.boost_query(part, weight))
        for phrase in analysis.phrases(text) if len(self._weights) > 1 else ():
            part = tantivy.Query.phrase_query(schema, "body", list[str | tuple[int, str]](phrase))
            parts.append(tantivy.Query.boost_query(part, _PHRASE))
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, part) for part in parts])
        if allowed is not None and len(allowed) <= _SMALL_SCOPE:
            query = self._inside(query, allowed)
        wanted = k + 8
        while True:
            hits = self._searcher.search(query, min(wanted, size), count=False).hits
            keys = np.array(self._searcher.fast_field_values("key", [at for _, at in hits]), np.int64)
            scores = np.array([score for score, _ in hits], np.float32)
            exhausted = len(hits) < wanted
            if allowed is not None:
                inside_scope = allowed[np.minimum(np.searchsorted(allowed, keys), len(allowed) - 1)] == keys
                keys, scores = keys[inside_scope], scores[inside_scope]
            if exhausted or (len(scores) > k and scores[-1] < scores[k - 1]):
                break
            wanted *= 4
        if len(scores) > k:
            kept = scores >= scores[k - 1]
            keys, scores = keys[kept], scores[kept]
        order = np.lexsort((keys, -scores))
        return keys[order], scores[order]

    def counts(self, terms: Sequence[str], allowed: Keys | None = None) -> Keys:
        """Return how many texts have each term in their body.

        Removed texts count until they are purged. In a scope of more than 2,000 texts the count is estimated: the
        scope's share of all.
        """
        searcher, schema = self._searcher, self._index.schema
        if allowed is None or len(allowed) > _SMALL_SCOPE:
            found = np.array([searcher.doc_freq("body", term) for term in terms], np.int64)
            share = 1.0 if allowed is None else min(1.0, len(allowed) / max(searcher.num_docs, 1))
            estimated: Keys = np.ceil(found * share).astype(np.int64)
            return estimated
        queries = [self._inside(tantivy.Query.term_query(schema, "body", term, "freq"), allowed) for term in terms]
        results: list[Any] = [searcher.search(query, 1, count=True) for query in queries]
        return np.array([result.count for result in results], np.int64)

    def _inside(self, query: tantivy.Query, allowed: Keys) -> tantivy.Query:
        """Return a query restricted to some keys, which add nothing to the score."""
        inside = tantivy.Query.term_set_query(self._index.schema, "key", allowed.tolist())
        silent = tantivy.Query.const_score_query(inside, 0.0)
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, query), (tantivy.Occur.Must, silent)])

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
