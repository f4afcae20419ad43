"""The way of a document: validate → changed → split → extract → embed → one transaction.

:meth:`Pipeline.add` cuts documents into batches, and :meth:`Pipeline._add_batch` is the way of a batch. What is done
again to stored documents is in :mod:`graphrag_core.ingest.stored`.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from graphrag_core import extract as extractors
from graphrag_core import forks
from graphrag_core.errors import ChangedMeanwhile, EmbedderMismatch, InputError, ReadOnlyIndex
from graphrag_core.ingest import remembered
from graphrag_core.ingest.chunker import Chunker, whole_document
from graphrag_core.ingest.edges import Edge, stored_edges, with_edges
from graphrag_core.ingest.embedding import CheckedEmbedder
from graphrag_core.ingest.remembered import FACT_KEY
from graphrag_core.ingest.titles import stated_title
from graphrag_core.ingest.validation import clean, extract, to_json, validate
from graphrag_core.ingest.vectors import Vectors, embedded_names, embedded_texts, stored_vectors, with_vectors
from graphrag_core.model import Added, Chunk, Document
from graphrag_core.ports import Extractor, Matrix, ParsedDocument
from graphrag_core.research import extract_with_findings, findings_identity
from graphrag_core.telemetry import Stages
from graphrag_core.text import fingerprint, normalise

if TYPE_CHECKING:
    from tqdm import tqdm

    from graphrag_core.engine.engine import IndexEngine

NO_EMBEDDER = "none"
"""What an index that was filled without an embedder stores as the embedder's identity."""

MOST_BATCHES = 4
"""How many batches the pieces of one source may fill together."""

_NONE: Vectors = MappingProxyType({})
_WHOLE = "whole 2"  # the identity of a document that is not split
_CHARACTERS = 100_000  # of a batch of an iterator: an interrupted run loses no more work than that


def batches(documents: Iterable[Document], size: int, characters: int = _CHARACTERS) -> Iterator[list[Document]]:
    """Yield documents in batches of a size, or of a number of characters if that is reached before.

    The next document is read when the batch before was taken.
    """
    batch: list[Document] = []
    length = 0
    for document in documents:
        batch.append(document)
        length += len(document.text) if isinstance(getattr(document, "text", None), str) else 0  # else reported later
        if len(batch) >= size or length >= characters:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


@dataclass(eq=False, kw_only=True)
class Pipeline:
    """Prepares documents and writes them to an engine. The parameters are those of ``KnowledgeIndex``."""

    engine: IndexEngine
    embedder: CheckedEmbedder | None
    chunker: Chunker | None
    extractor: Extractor | None
    embed_names: bool
    batch_size: int
    progress: bool | None

    def __post_init__(self) -> None:
        self.edges: tuple[Edge, ...] = ()
        self.finished = 0  # batches that were written, or had nothing new
        self.lock = threading.RLock()
        forks.watch(self)
        self.read_settings()

    def after_fork_in_child(self) -> None:
        """Replace the lock, which another thread may have held. For :mod:`graphrag_core.forks`."""
        self.lock = threading.RLock()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the write lock. Raise :class:`ReadOnlyIndex` if the index cannot be written."""
        if self.engine.read_only:
            raise ReadOnlyIndex(self.engine.read_only_reason)
        with self.lock:
            yield

    def read_settings(self) -> dict[str, str]:
        """Take over the settings that are stored with the index, which another process may have written; return them.

        Raises
        ------
        EmbedderMismatch
            The index was built with another embedder, or without one.
        """
        stored = self.engine.settings()
        if self.embedder is not None:
            _check_identity(self.embedder, stored.get("embedder", ""), str(self.engine.path or "the index"))
            self.embedder.dim = int(stored.get("dim", "0")) or None
        if "embeds" in stored:
            self.embed_names = json.loads(stored["embeds"])["names"]
        self.edges = stored_edges(stored)
        return stored

    # -- adding

    def add(
        self,
        documents: Iterable[Document],
        vectors: Vectors = _NONE,
        embeddings: Vectors = _NONE,
        progress: bool | None = None,
    ) -> Added:
        """Add documents in batches; a batch is added completely or not at all.

        ``vectors`` are known vectors of documents, ``embeddings`` known vectors of texts.
        """
        added, seen = Added(), set[int]()
        total = len(documents) if isinstance(documents, Sized) else None
        with self.writing(), self.progress_bar("indexing", total, progress) as bar:
            try:
                for batch in self._batches(documents):
                    added += self._add_batch(batch, seen, vectors, embeddings)
                    self.finished += 1
                    bar.update(len(batch))
            finally:  # complete batches stay, whatever stopped the rest
                self.engine.flush()
                self.read_settings()  # a first batch that failed has set the dimension
        return added

    def _batches(self, documents: Iterable[Document]) -> Iterator[Sequence[Document]]:
        """Yield batches. A list of up to ``batch_size`` documents is one, and the pieces of a source stay together."""
        if not isinstance(documents, Sequence):
            yield from batches(documents, self.batch_size)
            return
        start = 0
        while start < len(documents):
            end = min(start + self.batch_size, len(documents))
            most = min(start + MOST_BATCHES * self.batch_size, len(documents))
            while end < most and _are_of_one_source(documents[end - 1], documents[end]):
                end += 1
            yield documents[start:end]
            start = end

    def _add_batch(self, batch: Sequence[Document], seen: set[int], vectors: Vectors, embeddings: Vectors) -> Added:
        """Add a batch. ``seen`` are the hashes of the ids of the batches before."""
        documents = validate(batch, seen)
        changed, replaced, digests = self._changed(documents)
        self._mark_files(documents, changed)
        if not changed:
            return Added(unchanged=len(documents))
        stored = self.read_settings()
        self._check_can_add(stored, vectors)
        stages = Stages()
        extracted = self.parse(changed, digests)
        stages.end("extract")
        parsed, names = self.embedded(extracted, replaced, vectors, embeddings)
        stages.end("embed")
        # Another process may have added or deleted the same documents of a shared index meanwhile.
        removed = [document.id for document in changed] if self.engine.shared else replaced
        self.write(parsed, removed, names, self._new_settings(changed, stored), embeddings)
        stages.end("write")
        passages = sum(len(one.chunks) for one in parsed)
        stages.emit("add", {"documents": len(changed), "passages": passages, "replaced": len(replaced)})
        return Added(len(changed) - len(replaced), len(replaced), len(documents) - len(changed), problems(parsed))

    # -- the steps

    def _changed(self, documents: Sequence[Document]) -> tuple[list[Document], list[str], dict[str, str]]:
        """Return the documents that are new or have changed, the ids of those that are stored, and all digests."""
        digests = {document.id: self.digest(document) for document in documents}
        stored = self.engine.stored([*digests])
        changed = [document for document in documents if stored.get(document.id) != digests[document.id]]
        return changed, [document.id for document in changed if document.id in stored], digests

    def digest(self, document: Document) -> str:
        """Return a hash of a document's content and of the settings it is parsed with."""
        identities = [_WHOLE, _identity(self._used_extractor())]
        if FACT_KEY in document.metadata:
            identities = ["remembered 1"]
        elif self.chunker is not None and not self.chunker.keeps_whole(document):
            identities[0] = self.chunker.identity
        parts = [document.text, document.title, to_json(dict(document.metadata)), *identities]
        return fingerprint(parts + findings_identity(document))

    def _used_extractor(self) -> Extractor:
        """Return the extractor. The default one is imported when it is used: that takes long."""
        return extractors.SentenceExtractor() if self.extractor is None else self.extractor

    def _mark_files(self, documents: Sequence[Document], changed: Sequence[Document]) -> None:
        """Store the files of documents that did not change; those of the others are written with them."""
        written = {document.id for document in changed}
        marks = {one.id: one.file for one in documents if one.file is not None and one.id not in written}
        if marks:
            self.engine.change(lambda records: records.mark_files(marks))

    def _check_can_add(self, stored: Mapping[str, str], vectors: Vectors) -> None:
        """Raise :class:`InputError` if documents cannot be added without an embedder."""
        built_with = stored.get("embedder", "")
        if self.embedder is None and vectors:
            raise InputError("vectors were passed to an index without an embedder: leave them out, or pass an embedder")
        if self.embedder is None and built_with not in ("", NO_EMBEDDER):
            raise InputError(
                f"the index was built with {built_with}: adding documents needs an embedder, open it with that one"
            )

    def _new_settings(self, documents: Iterable[Document], stored: Mapping[str, str]) -> dict[str, str]:
        """Return the settings to write with documents: of an empty index all, else those that they change."""
        settings: dict[str, str] = {}
        if not stored.get("embedder"):
            settings = {
                "embedder": NO_EMBEDDER if self.embedder is None else self.embedder.identity,
                "dim": str(0 if self.embedder is None else self.embedder.dim or 0),
                "embeds": json.dumps({"names": self.embed_names}),
            }
        if any(FACT_KEY in document.metadata and remembered.may_hide(document) for document in documents):
            settings[remembered.SETTING] = "yes"
        return settings

    def parse(
        self, documents: Sequence[Document], digests: Mapping[str, str] = MappingProxyType({})
    ) -> list[ParsedDocument]:
        """Split documents and extract from all chunks at once. ``digests`` are known digests, by id."""
        chunked = [self.split(document) for document in documents]
        if len(documents) > 1:
            _give_source_titles(documents, chunked)
        return self.extracted(documents, chunked, digests)

    def split(self, document: Document) -> list[Chunk]:
        """Return the passages of a document."""
        if FACT_KEY in document.metadata:
            return [Chunk(document.id, document.id, document.text, document.title, metadata=document.metadata)]
        return [whole_document(document)] if self.chunker is None else self.chunker.split(document)

    def extracted(
        self, documents: Sequence[Document], chunked: Sequence[Sequence[Chunk]], digests: Mapping[str, str]
    ) -> list[ParsedDocument]:
        """Extract from the chunks of documents, all at once. Remembered facts are read from their metadata."""
        pairs = list(zip(documents, chunked, strict=True))
        texts = [pair for pair in pairs if FACT_KEY not in pair[0].metadata]
        found = iter(extract_with_findings(texts, partial(extract, self._used_extractor())))
        parsed = []
        for document, chunks in pairs:
            is_remembered = FACT_KEY in document.metadata
            own = [remembered.extract(chunks[0])] if is_remembered else islice(found, len(chunks))
            extractions, names = zip(*map(clean, own), strict=True)
            # Without a digest, the document is extracted from again when it is next added.
            failed = any(extraction.problem for extraction in extractions)
            digest = "" if failed else digests.get(document.id) or self.digest(document)
            one = ParsedDocument(document, to_json(dict(document.metadata)), digest, chunks, extractions, names)
            parsed.append(with_edges(one, self.edges))
        return parsed

    def embedded(
        self,
        parsed: Sequence[ParsedDocument],
        replaced: Sequence[str] = (),
        vectors: Vectors = _NONE,
        embeddings: Vectors = _NONE,
    ) -> tuple[Sequence[ParsedDocument], dict[str, Matrix]]:
        """Return documents with vectors, and vectors of new names.

        Of the documents that are replaced, the vectors of texts that stay are taken. Documents with vectors keep them.
        """
        if self.embedder is None:
            return parsed, {}
        stored = self.engine.parsed(replaced) if replaced else []
        parsed = with_vectors(self.embedder, parsed, stored, vectors, embeddings)
        names = self.engine.new_names(embedded_names(parsed)) if self.embed_names else []
        return parsed, self._name_vectors(names, parsed, embeddings)

    def _name_vectors(
        self, names: Sequence[str], parsed: Sequence[ParsedDocument], embeddings: Vectors
    ) -> dict[str, Matrix]:
        if self.embedder is None or not names:
            return {}
        owners = embedded_names(parsed)
        matrix = self.embedder.documents(names, [owners[name] for name in names], embeddings)
        return dict(zip(names, matrix, strict=True))

    def write(
        self,
        parsed: Sequence[ParsedDocument],
        removed: Sequence[str],
        names: dict[str, Matrix],
        settings: Mapping[str, str],
        embeddings: Vectors = _NONE,
    ) -> None:
        """Write documents; with the vectors of more names as long as other processes delete them meanwhile."""
        while True:
            try:
                return self.engine.write(parsed, removed, name_vectors=names, settings=settings)
            except ChangedMeanwhile as error:
                if self.embedder is None or names.keys() >= {*error.names}:
                    raise
                names |= self._name_vectors(error.names, parsed, embeddings)

    # -- other writes, and what adding would embed

    def delete(self, document_ids: Sequence[str]) -> int:
        """Delete documents, all or nothing; return how many existed."""
        with self.writing():
            existing = list(self.engine.stored(document_ids)) if document_ids else []
            if existing:
                self.engine.write(removed=existing)
                self.engine.flush()
            return len(existing)

    def salt(self) -> str:
        """Return the random salt of the index, which is created with its first use.

        It is hashed with the content of which an id is made, so that nobody can test by an id whether it is stored.
        """
        with self.writing():
            if "salt" not in self.engine.settings():
                with suppress(ChangedMeanwhile):  # another process was faster
                    self.engine.write(settings={"salt": secrets.token_hex(16)}, expected={"salt": ""})
            return self.engine.settings()["salt"]

    def to_embed(self, documents: Iterable[Document], vectors: Collection[str] = ()) -> list[str]:
        """Return the texts that adding documents would embed, each once. Nothing is embedded or written.

        ``vectors`` are the ids of documents with known vectors.
        """
        changed, replaced, digests = self._changed(validate(documents))
        if self.embedder is None:
            return []
        parsed = self.parse(changed, digests)
        known = stored_vectors(self.engine.parsed(replaced))
        without_vector = (one for one in parsed if one.document.id not in vectors)
        new = [text for one in without_vector for text in embedded_texts(one) if text not in known]
        names = self.engine.new_names(embedded_names(parsed)) if self.embed_names else []
        return list(dict.fromkeys((*new, *names)))

    def progress_bar(self, text: str, total: int | None, progress: bool | None = None) -> tqdm[None]:
        """Return a progress bar; ``progress`` as for ``KnowledgeIndex.add``."""
        from tqdm import tqdm  # noqa: PLC0415 - takes long to import

        shown = self.progress if progress is None else progress
        disable = None if shown is None else not shown
        return tqdm(total=total, desc=text, unit=" documents", disable=disable, leave=False, dynamic_ncols=True)


def _identity(extractor: Extractor) -> str:
    kind = type(extractor).__qualname__
    try:
        return str(getattr(extractor, "identity", kind))
    except Exception as error:
        raise InputError(f"the identity of {kind} cannot be read ({type(error).__name__}: {error})") from error


def problems(parsed: Iterable[ParsedDocument]) -> dict[str, str]:
    """Return why the extraction of documents failed in part, by id."""
    failed = {p.document.id: [e.problem for e in p.extractions if e.problem] for p in parsed if not p.digest}
    return {document_id: "; ".join(dict.fromkeys(found)) for document_id, found in failed.items()}


def _check_identity(embedder: CheckedEmbedder, built_with: str, name: str) -> None:
    """Raise :class:`EmbedderMismatch` if an index was built with another embedder, or without one."""
    if built_with == NO_EMBEDDER:
        raise EmbedderMismatch(
            f"{name} was built without an embedder and has no vectors: "
            "open it without one, or index the documents again into another folder"
        )
    if built_with and built_with != embedder.identity:
        raise EmbedderMismatch(
            f"{name} was built with {built_with}, not with {embedder.identity}: "
            "open it with that embedder, or index the documents again into another folder"
        )


def _are_of_one_source(*documents: Document) -> bool:
    """Return whether documents, which may be invalid, are pieces of the same source."""
    found = [
        extractors.source_and_rest(one.metadata)
        for one in documents
        if isinstance(one, Document) and isinstance(one.metadata, Mapping)
    ]
    return len(found) == len(documents) and found[0] is not None and found[0] == found[1]


def _give_source_titles(documents: Sequence[Document], chunked: list[list[Chunk]]) -> None:
    """Give the chunks of the pieces of a source the title of its first piece.

    The first piece has the smallest ``start_index`` in its metadata, which LangChain's splitters write, else it is the
    first one given. Documents of one source that have titles are not pieces: the rows of a table, the messages of a
    mailbox. The headings above a piece are not carried over from earlier pieces: that cost a point of recall.
    """
    for positions in extractors.sources([chunks[0] for chunks in chunked]):
        pieces = {position: documents[position] for position in positions}
        if len(pieces) < 2 or any(piece.title or stated_title(piece.metadata) for piece in pieces.values()):
            continue
        title = chunked[min(pieces, key=lambda position: _start_of(pieces[position]))][0].title
        for position in positions:
            chunked[position] = [_with_title(chunk, title) for chunk in chunked[position]]


def _start_of(piece: Document) -> int:
    start = piece.metadata.get("start_index")
    return start if isinstance(start, int) else 0


def _with_title(chunk: Chunk, title: str) -> Chunk:
    heading = chunk.title if chunk.title in chunk.text else ""  # a heading of the piece, not the name of its file
    headings = tuple(name for name in (heading, *chunk.headings) if name and normalise(name) != normalise(title))
    return replace(chunk, title=title, headings=headings)
