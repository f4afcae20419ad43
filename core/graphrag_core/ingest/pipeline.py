"""The way of a document: validate → changed → split → extract → embed → one transaction.

:meth:`Pipeline.add` cuts documents into batches, and :meth:`Pipeline._add_batch` is the way of a batch.
"""

from __future__ import annotations

import json
import math
import secrets
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from graphrag_core import extract as extractors
from graphrag_core import forks
from graphrag_core.errors import ChangedMeanwhile, DocumentError, ExtractionError, InputError, ReadOnlyIndex
from graphrag_core.ingest import remembered
from graphrag_core.ingest.chunker import Chunker, stated_title, whole_document, with_marks
from graphrag_core.ingest.edges import SETTING as EDGES
from graphrag_core.ingest.edges import UNFINISHED, Edge, with_edges, without_edges
from graphrag_core.ingest.embedding import CheckedEmbedder
from graphrag_core.ingest.validation import clean, extract, to_json, validate
from graphrag_core.ingest.vectors import Vectors, embedded_names, new_texts, stored_vectors, with_given, with_vectors
from graphrag_core.model import Added, Chunk, Document
from graphrag_core.ports import Extractor, Matrix, ParsedDocument
from graphrag_core.research import extract_with_findings, findings_identity
from graphrag_core.telemetry import Stages
from graphrag_core.text import fingerprint, hash64, normalise

if TYPE_CHECKING:
    from tqdm import tqdm

    from graphrag_core.engine.engine import IndexEngine

NO_EMBEDDER = "none"
"""What an index that was filled without an embedder stores as the embedder's identity."""

SALT = "salt"
"""The setting with the salt of hashed ids."""

_NONE: Vectors = MappingProxyType({})
_MOST_BATCHES = 4  # that the pieces of one source may fill together
_ATTEMPTS = 10  # to write a batch whose names other processes delete meanwhile
_WHOLE = "whole 2"  # the identity of a document that is not split
_OTHER_CHUNKS = "other chunks"  # the digest of a document that the chunker would cut in another way
_CHARACTERS = 100_000  # of a batch of an iterator: an interrupted run loses no more work than that


@dataclass
class BatchLimit:
    """Decides where a batch of documents ends: after a number of documents or of characters."""

    documents: int
    characters: float = _CHARACTERS
    _documents: int = 0
    _characters: int = 0

    def ends_with(self, document: Document) -> bool:
        """Return whether a document is the last of its batch, without counting it."""
        return self._documents + 1 >= self.documents or self._characters + _length(document) >= self.characters

    def count(self, document: Document) -> bool:
        """Count a document; return whether it is the last of its batch."""
        is_last = self.ends_with(document)
        self._documents = 0 if is_last else self._documents + 1
        self._characters = 0 if is_last else self._characters + _length(document)
        return is_last


def _length(document: Document) -> int:
    return len(document.text) if isinstance(document, Document) else 0  # anything else is reported later


@dataclass(eq=False, kw_only=True)
class Pipeline:
    """Prepares documents and writes them to an engine. The settings of ``KnowledgeIndex``."""

    engine: IndexEngine
    chunker: Chunker | None
    extractor: Extractor | None
    embedder: CheckedEmbedder | None
    embed_names: bool
    batch_size: int
    progress: bool | None
    edges: tuple[Edge, ...] = ()

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self.limit = BatchLimit(self.batch_size)  # of the call that adds documents now
        forks.watch(self)
        self._chunking = _WHOLE if self.chunker is None else self.chunker.identity
        self._extraction = "" if self.extractor is None else _identity(self.extractor)

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
        bar = self._bar("indexing", len(documents) if isinstance(documents, Sized) else None, progress)
        added, seen = Added(), set[int]()
        with self.writing(), bar:
            try:
                for batch in self._batches(documents):
                    added += self._add_batch(validate(batch), seen, vectors, embeddings)
                    bar.update(len(batch))
            finally:  # complete batches stay, whatever stopped the rest
                self.engine.flush()
                self._built_with()  # a first batch that failed has set the dimension
        return added

    def _batches(self, documents: Iterable[Document]) -> Iterator[list[Document]]:
        """Yield documents in batches. The next document is read when the batch before is written.

        A list of up to ``batch_size`` documents is one batch. The pieces of a source stay together.
        """
        is_list = isinstance(documents, Sequence)
        self.limit = BatchLimit(self.batch_size, math.inf if is_list else _CHARACTERS)
        batch: list[Document] = []
        for position, document in enumerate(documents):
            batch.append(document)
            is_full = self.limit.count(document) or len(batch) > self.batch_size
            following = documents[position + 1 : position + 2] if isinstance(documents, Sequence) else ()
            if is_full and not self._continues(batch, following):
                yield batch
                batch = []
        if batch:
            yield batch

    def _continues(self, batch: Sequence[Document], following: Sequence[Document]) -> bool:
        """Return whether the next document is a piece of the source of the last one, and there is room for it."""
        if not following or len(batch) >= _MOST_BATCHES * self.batch_size:
            return False
        pieces = [piece for piece in (batch[-1], following[0]) if isinstance(piece, Document)]  # may be invalid
        found = [extractors.source_and_rest(piece.metadata) for piece in pieces if isinstance(piece.metadata, Mapping)]
        return len(found) == 2 and found[0] is not None and found[0] == found[1]

    def _add_batch(self, batch: list[Document], seen: set[int], vectors: Vectors, embeddings: Vectors) -> Added:
        """Add a batch. ``seen`` are the hashes of the ids of the batches before."""
        _check_repeated(batch, seen)
        changed, replaced, digests = self._changed(batch)
        self._mark_files(batch, changed)
        if not changed:
            return Added(unchanged=len(batch))
        built_with = self._checked_embedder(vectors)
        stages = Stages()
        parsed = self.parse(changed, digests)
        stages.end("extract")
        names: dict[str, Matrix] = {}
        if self.embedder is not None:
            stored = self.engine.parsed(replaced) if replaced else []
            parsed = with_given(self.embedder, parsed, vectors)
            parsed, names = self._embedded(self.embedder, parsed, stored, embeddings)
            stages.end("embed")
        # Another process may have added or deleted the same documents of a shared index meanwhile.
        removed = [document.id for document in changed] if self.engine.shared else replaced
        self._write(parsed, removed, names, self._settings(changed, built_with), embeddings)
        stages.end("write")
        passages = sum(len(one.chunks) for one in parsed)
        stages.emit("add", {"documents": len(changed), "passages": passages, "replaced": len(replaced)})
        return Added(len(changed) - len(replaced), len(replaced), len(batch) - len(changed), _problems(parsed))

    # -- the steps

    def _changed(self, batch: Sequence[Document]) -> tuple[list[Document], list[str], dict[str, str]]:
        """Return the documents that are new or have changed, the ids of those that are stored, and all digests."""
        stored = self.engine.stored([document.id for document in batch])
        digests = {document.id: self._digest(document) for document in batch}
        changed = [document for document in batch if stored.get(document.id) != digests[document.id]]
        return changed, [document.id for document in changed if document.id in stored], digests

    def _digest(self, document: Document) -> str:
        """Return a hash of a document's content and of the settings it is parsed with."""
        self.used_extractor()
        identities: tuple[str, ...] = (self._chunking, self._extraction)
        if remembered.FACT_KEY in document.metadata:
            identities = ("remembered 1",)
        elif self.chunker is not None and self.chunker.keeps_whole(document):
            identities = (_WHOLE, self._extraction)  # the same as in an index that splits nothing
        parts = [document.text, document.title, to_json(dict(document.metadata)), *identities]
        parts += findings_identity(document)
        return fingerprint(parts)

    def _mark_files(self, batch: Sequence[Document], changed: Sequence[Document]) -> None:
        """Store the file of each document that is written no more than that, since it did not change."""
        written = {document.id for document in changed}
        marks = {one.id: one.file for one in batch if one.file is not None and one.id not in written}
        if marks:
            self.engine.change(lambda records: records.mark_files(marks))

    def _built_with(self) -> str:
        """Return the embedder of the stored documents; set the dimension of the embedder to the dimension stored."""
        stored = self.engine.settings()
        if self.embedder is not None:
            self.embedder.dim = int(stored.get("dim", "0")) or None
        return stored.get("embedder", "")

    def _checked_embedder(self, vectors: Vectors) -> str:
        """Return the embedder of the stored documents. Raise :class:`InputError` if one is missing."""
        built_with = self._built_with()
        if self.embedder is None and vectors:
            raise InputError("vectors were passed to an index without an embedder: leave them out, or pass an embedder")
        if self.embedder is None and built_with not in ("", NO_EMBEDDER):
            raise InputError(
                f"the index was built with {built_with}: adding documents needs an embedder, open it with that one"
            )
        return built_with

    def used_extractor(self) -> Extractor:
        """Return the extractor. The default one is made for the first write: it takes long to import."""
        if self.extractor is None:
            default = extractors.SentenceExtractor()
            self._extraction = _identity(default)
            self.extractor = default  # last: another thread may digest documents with the identity
        return self.extractor

    def parse(
        self, documents: Sequence[Document], digests: Mapping[str, str] = MappingProxyType({})
    ) -> list[ParsedDocument]:
        """Split documents and extract from all chunks at once. Nothing is embedded.

        ``digests`` are known digests of documents, by id.
        """
        chunked = [self._split(document) for document in documents]
        if len(documents) > 1:
            _give_source_titles(documents, chunked)
        return self._extracted(documents, chunked, digests)

    def _split(self, document: Document) -> list[Chunk]:
        if remembered.FACT_KEY in document.metadata:
            return [Chunk(document.id, document.id, document.text, document.title, metadata=document.metadata)]
        return [whole_document(document)] if self.chunker is None else self.chunker.split(document)

    def _extracted(
        self, documents: Sequence[Document], chunked: Sequence[Sequence[Chunk]], digests: Mapping[str, str]
    ) -> list[ParsedDocument]:
        """Extract from the chunks of documents, all at once."""
        pairs = list(zip(documents, chunked, strict=True))
        to_extract = [pair for pair in pairs if remembered.FACT_KEY not in pair[0].metadata]
        found = iter(extract_with_findings(to_extract, partial(extract, self.used_extractor())))
        parsed = []
        for document, chunks in pairs:
            is_remembered = remembered.FACT_KEY in document.metadata
            own = [remembered.extract(chunks[0])] if is_remembered else islice(found, len(chunks))
            extractions, names = zip(*map(clean, own), strict=True)
            # Without a digest, the document is extracted from again when it is next added.
            failed = any(extraction.problem for extraction in extractions)
            digest = "" if failed else digests.get(document.id) or self._digest(document)
            metadata = to_json(dict(document.metadata))
            parsed.append(ParsedDocument(document, metadata, digest, chunks, extractions, names))
        return [with_edges(one, self.edges) for one in parsed] if self.edges else parsed

    def _embedded(
        self,
        embedder: CheckedEmbedder,
        parsed: Sequence[ParsedDocument],
        stored: Sequence[ParsedDocument],
        embeddings: Vectors = _NONE,
    ) -> tuple[list[ParsedDocument], dict[str, Matrix]]:
        """Return the documents with vectors, and vectors of new names.

        ``stored`` are the documents that they replace: what they have in common is not embedded again.
        """
        with_rows = with_vectors(embedder, parsed, stored_vectors(stored), embeddings)
        names = self.engine.new_names(embedded_names(parsed)) if self.embed_names else []
        return with_rows, self._name_vectors(embedder, names, parsed, embeddings)

    @staticmethod
    def _name_vectors(
        embedder: CheckedEmbedder, names: Sequence[str], parsed: Sequence[ParsedDocument], embeddings: Vectors
    ) -> dict[str, Matrix]:
        owners = embedded_names(parsed) if names else {}
        matrix = embedder.documents(list(names), [owners[name] for name in names], embeddings)
        return dict(zip(names, matrix, strict=True))

    def _settings(self, documents: Iterable[Document], built_with: str) -> dict[str, str]:
        """Return the settings to write with documents: of an empty index all, else those that they change."""
        settings: dict[str, str] = {}
        if not built_with:
            dim = 0 if self.embedder is None else self.embedder.dim or 0
            settings = {
                "embedder": NO_EMBEDDER if self.embedder is None else self.embedder.identity,
                "dim": str(dim),
                "embeds": json.dumps({"names": self.embed_names}),
            }
            if self.edges:
                settings[EDGES] = json.dumps(self.edges)
        if any(remembered.FACT_KEY in document.metadata and remembered.may_hide(document) for document in documents):
            settings[remembered.SETTING] = "yes"
        return settings

    def _write(
        self,
        parsed: Sequence[ParsedDocument],
        removed: Sequence[str],
        name_vectors: dict[str, Matrix],
        settings: Mapping[str, str],
        embeddings: Vectors = _NONE,
    ) -> None:
        """Write documents; with the vectors of more names if other processes delete them meanwhile."""
        for attempt in range(_ATTEMPTS):
            try:
                self.engine.write(parsed, removed, name_vectors=name_vectors, settings=settings)
            except ChangedMeanwhile as error:
                if attempt == _ATTEMPTS - 1 or not error.names or self.embedder is None:
                    raise
                name_vectors |= self._name_vectors(self.embedder, error.names, parsed, embeddings)
            else:
                return

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
            if SALT not in self.engine.settings():
                with suppress(ChangedMeanwhile):  # another process was faster
                    self.engine.write(settings={SALT: secrets.token_hex(16)}, expected={SALT: ""})
            return self.engine.settings()[SALT]

    def to_embed(self, documents: Iterable[Document], vectors: Collection[str] = ()) -> list[str]:
        """Return the texts that adding documents would embed, each once. Nothing is embedded or written.

        ``vectors`` are the ids of documents with known vectors.
        """
        changed, replaced, digests = self._changed(validate(documents))
        if self.embedder is None:
            return []
        parsed = self.parse(changed, digests)
        new = new_texts(parsed, stored_vectors(self.engine.parsed(replaced)), vectors)
        names = self.engine.new_names(embedded_names(parsed)) if self.embed_names else []
        return list(dict.fromkeys((*new, *names)))

    def _bar(self, text: str, total: int | None, progress: bool | None = None) -> tqdm[None]:
        from tqdm import tqdm  # noqa: PLC0415 - takes long to import

        shown = self.progress if progress is None else progress
        disable = None if shown is None else not shown
        return tqdm(total=total, desc=text, unit=" documents", disable=disable, leave=False, dynamic_ncols=True)

    # -- stored documents with other edges or other extractions. No chunk is embedded again.

    def derive_edges(self, edges: Sequence[Edge]) -> None:
        """Derive the explicit edges of all documents again. An interrupted run is done again by the next one."""
        ids = list(self.engine.document_ids())
        self.edges = tuple(edges)
        settings = {EDGES: json.dumps(self.edges), UNFINISHED: "yes"}
        with self._bar("edges", len(ids)) as bar:
            for start in range(0, len(ids), self.batch_size):
                stored = self.engine.parsed(ids[start : start + self.batch_size])
                derived = [with_edges(without_edges(one), self.edges) for one in stored]
                pairs = zip(derived, stored, strict=True)
                changed = [a for a, b in pairs if a.extractions != b.extractions or a.names != b.names]
                self._rewrite(changed, stored, settings)
                bar.update(len(stored))
        self.engine.write(settings={**settings, UNFINISHED: ""})

    def extract_again(self, progress: bool | None = None) -> Added:
        """Extract the entities and facts of all documents again from the stored chunks, in batches.

        Of an index that embeds names, new ones are embedded. A document whose extraction fails keeps what it has, and
        is reported.
        """
        if self.embedder is None and self.embed_names:
            raise InputError("the names of this index are embedded: open it with its embedder to rebuild it")
        again = Added()
        with self.writing(), self._bar("extracting", len(self.engine), progress) as bar:
            for ids in self._batches_of_sources():
                stored = self.engine.parsed(ids)
                parsed, problems = self._extract_or_report(stored)
                self._rewrite(parsed, stored, {})
                again += Added(replaced=len(parsed), unchanged=len(problems), problems=problems)
                bar.update(len(ids))
        return again

    def _rewrite(
        self, parsed: list[ParsedDocument], stored: Sequence[ParsedDocument], settings: Mapping[str, str]
    ) -> None:
        """Write stored documents again, with vectors of new names."""
        names: dict[str, Matrix] = {}
        if self.embedder is not None and parsed:
            parsed, names = self._embedded(self.embedder, parsed, stored)
        self._write(parsed, [one.document.id for one in parsed], names, settings)
        self.engine.flush()

    def _batches_of_sources(self) -> Iterator[list[str]]:
        """Yield the ids of all documents in batches. The pieces of a source are in one batch, unless they are many."""
        by_source: defaultdict[int, list[str]] = defaultdict(list)
        for document_id in self.engine.document_ids():
            document = self.engine.document(document_id)
            if document is not None:  # else another process has deleted it
                by_source[hash64(extractors.source_of(document_id, document.metadata))].append(document_id)
        pieces = [piece for ids in by_source.values() if len(ids) > 1 for piece in ids]
        with self.engine.snapshot() as snapshot:  # keys of chunks are in the order in which they were added
            keys = snapshot.find_chunks([name for piece in pieces for name in (piece, f"{piece}#0")])
        batch: list[str] = []
        most = _MOST_BATCHES * self.batch_size
        for ids in by_source.values():
            ids.sort(key=lambda piece: keys.get(piece, keys.get(f"{piece}#0", 0)))
            for start in range(0, len(ids), most):
                batch += ids[start : start + most]
                if len(batch) >= self.batch_size:
                    yield batch
                    batch = []
        if batch:
            yield batch

    def _extract_or_report(self, stored: Sequence[ParsedDocument]) -> tuple[list[ParsedDocument], dict[str, str]]:
        """Return documents with new extractions, and why the extraction of others failed.

        If the extractor raises an error, each source is extracted alone.
        """
        try:
            parsed = self._extracted_again(stored)
        except ExtractionError as error:
            groups = extractors.sources([one.chunks[0] for one in stored])
            if len(groups) == 1:
                return [], {one.document.id: str(error) for one in stored}
            alone = [self._extract_or_report([stored[position] for position in positions]) for positions in groups]
            problems = {name: reason for _, reasons in alone for name, reason in reasons.items()}
            return [one for found, _ in alone for one in found], problems
        return [one for one in parsed if one.digest], _problems(parsed)

    def _extracted_again(self, stored: Sequence[ParsedDocument]) -> list[ParsedDocument]:
        chunked = [with_marks(one.document, one.chunks) for one in stored]
        digests = {one.document.id: self._digest_of_stored(one) for one in stored}
        parsed = self._extracted([one.document for one in stored], chunked, digests)
        return [
            replace(new, metadata=old.metadata, chunk_vectors=old.chunk_vectors)
            for new, old in zip(parsed, stored, strict=True)
        ]

    def _digest_of_stored(self, stored: ParsedDocument) -> str:
        """Return the digest of a document, or one that none has if the chunker would cut it in another way."""
        digest = self._digest(stored.document)
        if digest == stored.digest:
            return digest
        cuts = [[(chunk.start, chunk.text) for chunk in cut] for cut in (self._split(stored.document), stored.chunks)]
        return digest if cuts[0] == cuts[1] else _OTHER_CHUNKS


def _check_repeated(batch: Sequence[Document], seen: set[int]) -> None:
    """Raise :class:`DocumentError` if an id came in a batch before; add the hashes of the ids to ``seen``."""
    for document in batch:
        if (number := hash64(document.id)) in seen:
            raise DocumentError(document.id, "this id came before in the same call: keep one of the two")
        seen.add(number)


def _give_source_titles(documents: Sequence[Document], chunked: list[list[Chunk]]) -> None:
    """Give the chunks of the pieces of a source the title of its first piece.

    The first piece has the smallest ``start_index`` in its metadata, which LangChain's splitters write, else it is the
    first one given. Documents of one source that have titles are not pieces: the rows of a table, the messages of a
    mailbox. The headings above a piece are not carried over from earlier pieces: that cost a point of recall.
    """
    for positions in extractors.sources([chunks[0] for chunks in chunked]):
        pieces = [documents[position] for position in positions]
        if len(pieces) < 2 or any(piece.title or stated_title(piece.metadata) for piece in pieces):
            continue
        starts = [piece.metadata.get("start_index") for piece in pieces]
        order = [start if isinstance(start, int) else 0 for start in starts]
        title = chunked[positions[order.index(min(order))]][0].title
        for position in positions:
            chunked[position] = [_with_title(chunk, title) for chunk in chunked[position]]


def _with_title(chunk: Chunk, title: str) -> Chunk:
    heading = chunk.title if chunk.title in chunk.text else ""  # a heading of the piece, not the name of its file
    headings = tuple(name for name in (heading, *chunk.headings) if name and normalise(name) != normalise(title))
    return replace(chunk, title=title, headings=headings)


def _identity(extractor: Extractor) -> str:
    kind = type(extractor).__qualname__
    try:
        return str(getattr(extractor, "identity", kind))
    except Exception as error:
        raise InputError(f"the identity of {kind} cannot be read ({type(error).__name__}: {error})") from error


def _problems(parsed: Iterable[ParsedDocument]) -> dict[str, str]:
    """Return why the extraction of documents failed in part, by id."""
    failed = {p.document.id: [e.problem for e in p.extractions if e.problem] for p in parsed if not p.digest}
    return {document_id: "; ".join(dict.fromkeys(found)) for document_id, found in failed.items()}
