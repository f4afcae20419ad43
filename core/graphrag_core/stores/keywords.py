"""BM25 with tantivy. Words are stemmed; Chinese and Japanese are indexed by character pairs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import tantivy

from graphrag_core.errors import DiskError
from graphrag_core.ports import Keys, Scores
from graphrag_core.text import segment

_HEAP = 16_000_000  # bytes; little more than tantivy asks for, and it asks for one each
_STATE = "state.json"
_NEW = {"generation": -1, "ghosts": 0}
_MOST_TERMS = 256
_FEW = 2_000

_STOPWORDS = (
    "a an and are as at be but by did do does for from had has have how in into is it its not of on or such "
    "that the their then there these they this to was were what when where which who whom whose why will with"
).split()


class TantivyKeywords:
    """Texts under integer keys, in a folder or in memory.

    Removed texts are never returned, but count in the statistics that scores are made of
    until tantivy merges them away or :meth:`replace` is called; ``ghosts`` says how many.

    The generation is noted beside the index after each commit. A process that dies between
    the two leaves an older note, and the change is applied again: adding a text that is
    there already replaces it.
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
        self._note = dict(_NEW)
        self._certain = False  # that what is noted is what is there
        self.refresh()

    def refresh(self) -> None:
        """See what another process has applied since."""
        if self.folder is not None:
            self._note = _read_note(self.folder / _STATE)
        self._index.reload()
        self._searcher = self._index.searcher()

    @property
    def generation(self) -> int:
        """The generation last applied; -1 for a new store."""
        return self._note["generation"]

    @property
    def ghosts(self) -> int:
        """How many removed texts still count in the statistics."""
        return self._note["ghosts"]

    def apply(self, generation: int, removed: Keys, added: Iterable[tuple[int, str]]) -> None:
        """Remove, add and become ``generation``, all or nothing even if the process dies."""
        writer = self._open_writer()
        ghosts = self.ghosts + len(removed)
        for key in removed.tolist():
            writer.delete_documents_by_term("key", key)
        if not self._certain:
            added = list(added)
            there = np.intersect1d(self.keys, [key for key, _ in added])
            ghosts += len(there)
            for key in there.tolist():
                writer.delete_documents_by_term("key", key)
        self._commit(generation, ghosts, added)

    def replace(self, generation: int, texts: Iterable[tuple[int, str]]) -> None:
        """Become exactly these texts at ``generation``, all or nothing."""
        # Not delete_all_documents: it resets tantivy's clock, and later removals may be lost.
        self._open_writer().delete_documents_by_query(tantivy.Query.all_query())
        self._commit(generation, 0, texts)

    def search(self, text: str, k: int, allowed: Keys | None = None) -> tuple[Keys, Scores]:
        """Return the best ``k`` keys with a positive score, best first, ties with the last too."""
        terms = self.terms(text)[:_MOST_TERMS]
        size = self._searcher.num_docs
        if not terms or size == 0 or k < 1 or (allowed is not None and len(allowed) == 0):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        schema = self._index.schema
        should = [(tantivy.Occur.Should, tantivy.Query.term_query(schema, "text", term, "freq")) for term in terms]
        query = tantivy.Query.boolean_query(should)
        if allowed is not None and len(allowed) <= _FEW:
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
                return _cut(keys, scores, k)
            wanted *= 4

    def terms(self, text: str) -> list[str]:
        """Return what a question is searched by: its words, stemmed, each once."""
        found = self._analyzer.analyze(segment(text))
        return [term for term in dict.fromkeys(found) if term not in _STOPWORDS] or list(dict.fromkeys(found))

    @property
    def keys(self) -> Keys:
        """All keys, ascending."""
        hits = self._searcher.search(tantivy.Query.all_query(), max(self._searcher.num_docs, 1), count=False).hits
        return np.sort(np.array(self._searcher.fast_field_values("key", [at for _, at in hits]), np.int64))

    def rest(self) -> None:
        """Finish merges that are under way and give back the writer's memory; the next change opens another."""
        if self._writer is not None:
            self._writer.wait_merging_threads()
            self._writer = None

    def close(self) -> None:
        """Give back locks and files; merges that are under way are finished first."""
        self.rest()

    def _commit(self, generation: int, ghosts: int, texts: Iterable[tuple[int, str]]) -> None:
        writer = self._open_writer()
        for key, text in texts:
            document = tantivy.Document()
            document.add_integer("key", key)
            document.add_text("text", segment(text))
            writer.add_document(document)
        writer.commit()
        self._note = {"generation": generation, "ghosts": ghosts}
        self._certain = True
        if self.folder is not None:
            new = self.folder / f"{_STATE}.new"
            new.write_text(json.dumps(self._note), "utf-8")
            new.replace(self.folder / _STATE)
        self.refresh()

    def _open_writer(self) -> tantivy.IndexWriter:
        if self._writer is None:
            self._writer = self._index.writer(_HEAP, 1)
        return self._writer


def _read_note(path: Path) -> dict[str, int]:
    try:
        note = json.loads(path.read_text("utf-8"))
        return {name: int(note[name]) for name in _NEW}
    except (OSError, ValueError, KeyError, TypeError):
        return dict(_NEW)  # new, or damaged: everything will be written anew


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


def _cut(keys: Keys, scores: Scores, k: int) -> tuple[Keys, Scores]:
    if len(scores) > k:
        kept = scores >= scores[k - 1]
        keys, scores = keys[kept], scores[kept]
    order = np.lexsort((keys, -scores))
    return keys[order], scores[order]
