"""The way of a document: validate → changed → split → extract → embed → one transaction: :meth:`Pipeline.add`."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from types import MappingProxyType
from typing import TYPE_CHECKING

from graphrag_core import extract as extractors
from graphrag_core import forks
from graphrag_core.errors import ChangedMeanwhile, EmbedderMismatch, ExtractionError, InputError, ReadOnlyIndex
from graphrag_core.ingest import remembered
from graphrag_core.ingest.chunker import Chunker, whole_document
from graphrag_core.ingest.edges import SETTING as EDGES
from graphrag_core.ingest.edges import Edge, stored_edges, with_edges
from graphrag_core.ingest.embedding import CheckedEmbedder, Vectors, embedded_texts, stored_vectors, with_vectors
from graphrag_core.ingest.remembered import FACT_KEY
from graphrag_core.ingest.titles import stated_title
from graphrag_core.ingest.validation import extract, names_of, storable, to_json, validate
from graphrag_core.model import Added, Chunk, Document
from graphrag_core.ports import Extractor, Matrix, ParsedDocument
from graphrag_core.research import FINDINGS, is_finding, with_finding, without_labels
from graphrag_core.telemetry import Stages
from graphrag_core.text import fingerprint, normalise

if TYPE_CHECKING:
    from tqdm import tqdm

    from graphrag_core.engine.engine import IndexEngine

NO_EMBEDDER = "none"
"""What an index that was filled without an embedder stores as the embedder's identity."""

_NONE: Vectors = MappingProxyType({})
_WHOLE = "whole 2"  # the identity of a document that is not split
_CHARACTERS = 100_000  # of a batch of an iterator: an interrupted run loses no more work than that
_MOST_BATCHES = 4  # that the pieces of one source may fill together


def batches(documents: Iterable[Document], size: int, characters: float | None = None) -> Iterator[list[Document]]:
    """Yield documents in batches of a size, or of a number of characters if that is reached before.

    Of a list only the size counts, and the pieces of a source stay together. Of an iterator, the next document is read
    when the batch before was taken.
    """
    is_list = isinstance(documents, Sequence)
    most = characters or (float("inf") if is_list else _CHARACTERS)
    following: Iterable[Document | None] = chain(islice(documents, 1, None), [None]) if is_list else repeat(None)
    batch: list[Document] = []
    length = 0
    for document, after in zip(documents, following):  # noqa: B905 - one may be endless
        batch.append(document)
        length += len(document.text) if isinstance(getattr(document, "text", None), str) else 0  # else reported later
        is_full = len(batch) >= size or length >= most
        if is_full and not (len(batch) < _MOST_BATCHES * size and _are_of_one_source(document, after)):
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def _are_of_one_source(*documents: Document | None) -> bool:
    """Return whether documents, which may be invalid, are pieces of the same source."""
    metadata = [getattr(document, "metadata", None) for document in documents]
    first, second = (extractors.source_and_rest(one) if isinstance(one, Mapping) else None for one in metadata)
    return first is not None and first == second


@dataclass(eq=False, kw_only=True)
class Pipeline:
    """Prepares documents and writes them to an engine. Most parameters are those of ``KnowledgeIndex``."""

    engine: IndexEngine
    embedder: CheckedEmbedder | None
    chunker: Chunker | None
    extractor: Extractor | None
    embed_names: bool
    batch_size: int
    progress: bool | None
    wanted_edges: tuple[Edge, ...] | None = None

    def __post_init__(self) -> None:
        self.edges = self.wanted_edges or ()
        self.finished = 0  # batches that were written, or had nothing new
        self.lock = threading.RLock()
        forks.watch(self)
        self.read_settings()
        if self.wanted_edges is not None and set(self.wanted_edges) != set(self.edges):
            raise InputError(
                f"{self.engine.path or 'the index'} was built with the edges {list(self.edges)}, not "
                f"{list(self.wanted_edges)}: leave edges out, or index the documents again into another folder"
            )

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
        built_with, place = stored.get("embedder", ""), self.engine.path or "the index"
        if self.embedder is not None:
            if built_with not in ("", self.embedder.identity):
                raise EmbedderMismatch(
                    f"{place} was built without an embedder and has no vectors: open it without one, or index the "
                    "documents again into another folder"
                    if built_with == NO_EMBEDDER else
                    f"{place} was built with {built_with}, not with {self.embedder.identity}: open it with that "
                    "embedder, or index the documents again into another folder"
                )  # fmt: skip
            self.embedder.dim = int(stored.get("dim", "0")) or None
        if built_with:
            self.embed_names = json.loads(stored["embeds"])["names"]
            self.edges = stored_edges(stored)
        return stored

    # -- adding documents

    def add(self, documents: Iterable[Document], vectors: Vectors = _NONE, embeddings: Vectors = _NONE) -> Added:
        """Add documents batch by batch; each batch is one transaction.

        ``vectors`` are known vectors of documents, ``embeddings`` known vectors of texts.
        """
        added, seen = Added(), set[int]()
        total = len(documents) if isinstance(documents, Sized) else None
        with self.writing(), self.progress_bar("indexing", total) as bar:
            try:
                for batch in batches(documents, self.batch_size):
                    added += self._add_batch(validate(batch, seen), vectors, embeddings)
                    self.finished += 1
                    bar.update(len(batch))
            finally:  # complete batches stay, whatever stopped the rest
                self.engine.flush()
                self.read_settings()  # a first batch that failed has set the dimension
        return added

    def _add_batch(self, documents: Sequence[Document], vectors: Vectors, embeddings: Vectors) -> Added:
        """Add valid documents, all or nothing."""
        changed, replaced, digests = self._changed(documents)
        written = {document.id for document in changed}  # with their files; those of the others are stored now
        marks = {one.id: one.file for one in documents if one.file is not None and one.id not in written}
        if marks:
            self.engine.change(lambda records: records.mark_files(marks))
        if not changed:
            return Added(unchanged=len(documents))
        stages, settings = Stages(), self._check_can_add(vectors)
        extracted = self.extract(changed, self.split(changed), digests)
        stages.end("extract")
        known = self.engine.parsed(replaced) if replaced else ()
        parsed = with_vectors(self.embedder, extracted, known, vectors, embeddings)
        stages.end("embed")
        # Another process may have added or deleted the same documents of a shared index meanwhile.
        removed = [document.id for document in changed] if self.engine.shared else replaced
        self.write(parsed, removed, self._new_settings(changed, settings), embeddings)
        stages.end("write")
        passages = sum(len(one.chunks) for one in parsed)
        stages.emit("add", {"documents": len(changed), "passages": passages, "replaced": len(replaced)})
        return Added(len(changed) - len(replaced), len(replaced), len(documents) - len(changed), _problems(parsed))

    # -- the steps

    def _changed(self, documents: Sequence[Document]) -> tuple[list[Document], list[str], dict[str, str]]:
        """Return the documents that are new or have changed, the ids of those that are stored, and all digests."""
        digests = {document.id: self.digest(document) for document in documents}
        stored = self.engine.stored([*digests])
        changed = [document for document in documents if stored.get(document.id) != digests[document.id]]
        return changed, [document.id for document in changed if document.id in stored], digests

    def digest(self, document: Document) -> str:
        """Return a hash of a document's content and of the settings it is parsed with."""
        parts = [document.text, document.title, to_json(dict(document.metadata))]
        if FACT_KEY in document.metadata:
            return fingerprint([*parts, "remembered 1"])
        chunks = _WHOLE if self.chunker is None or self.chunker.keeps_whole(document) else self.chunker.identity
        extractor = self._used_extractor()
        identity = str(getattr(extractor, "identity", type(extractor).__qualname__))
        return fingerprint([*parts, chunks, identity, *([FINDINGS] if is_finding(document) else [])])

    def _used_extractor(self) -> Extractor:
        """Return the extractor. The default one is imported when it is used: that takes long."""
        return extractors.SentenceExtractor() if self.extractor is None else self.extractor

    def _check_can_add(self, vectors: Vectors) -> dict[str, str]:
        """Return the stored settings. Raise :class:`InputError` if documents cannot be added without an embedder."""
        stored = self.read_settings()
        built_with = stored.get("embedder", "")
        if self.embedder is None and vectors:
            raise InputError("vectors were passed to an index without an embedder: leave them out, or pass an embedder")
        if self.embedder is None and built_with not in ("", NO_EMBEDDER):
            raise InputError(
                f"the index was built with {built_with}: adding documents needs an embedder, open it with that one"
            )
        return stored

    def split(self, documents: Sequence[Document]) -> list[list[Chunk]]:
        """Return the passages of documents. The pieces of a source have its title."""
        chunked = []
        for one in documents:
            if FACT_KEY in one.metadata:
                chunked.append([Chunk(one.id, one.id, one.text, one.title, metadata=one.metadata)])
            else:
                chunked.append([whole_document(one)] if self.chunker is None else self.chunker.split(one))
        if len(documents) > 1:
            _give_source_titles(documents, chunked)
        return chunked

    def extract(
        self, documents: Sequence[Document], chunked: Sequence[Sequence[Chunk]], digests: Mapping[str, str]
    ) -> list[ParsedDocument]:
        """Extract from the passages of documents, all at once. Remembered facts are read from their metadata.

        A document of which a part failed has no digest: it is extracted from again when it is next added.
        """
        texts = [
            chunk for one, chunks in zip(documents, chunked, strict=True) if FACT_KEY not in one.metadata
            for chunk in (without_labels(one, chunks) if is_finding(one) else chunks)
        ]  # fmt: skip
        found = iter(extract(self._used_extractor(), texts))
        parsed = []
        for document, chunks in zip(documents, chunked, strict=True):
            is_told = FACT_KEY in document.metadata
            own = [remembered.extract(chunks[0])] if is_told else [*islice(found, len(chunks))]
            if not is_told and is_finding(document):
                own = [storable(with_finding(*pair), pair[0], "findings") for pair in zip(chunks, own, strict=True)]
            digest = "" if any(extraction.problem for extraction in own) else digests[document.id]
            metadata, names = to_json(dict(document.metadata)), [*map(names_of, own)]
            one = ParsedDocument(document, metadata, digest, chunks, own, names)
            parsed.append(with_edges(one, self.edges) if self.edges and not is_told else one)
        return parsed

    def write(
        self, parsed: Sequence[ParsedDocument], removed: Sequence[str], settings: Mapping[str, str], embeddings: Vectors
    ) -> None:
        """Write documents, and vectors of their new names."""
        owners = self._embedded_names(parsed) if self.embed_names else {}
        names = self.engine.new_names(owners) if owners else []
        vectors: dict[str, Matrix] = {}
        if self.embedder is not None and names:
            matrix = self.embedder.documents(names, [owners[name] for name in names], embeddings)
            vectors = dict(zip(names, matrix, strict=True))
        self.engine.write(parsed, removed, name_vectors=vectors, settings=settings)

    def _embedded_names(self, parsed: Sequence[ParsedDocument]) -> dict[str, str]:
        """Return the names to embed, all but addresses of sections, each with the id of a document that has it."""
        return {name: one.document.id for one in parsed for names in one.names for name in names if name[:1] != "→"}

    def _new_settings(self, documents: Iterable[Document], stored: Mapping[str, str]) -> dict[str, str]:
        """Return the settings to write with documents: of an empty index all, else those that they change."""
        settings: dict[str, str] = {}
        if not stored.get("embedder"):
            settings = {
                "embedder": NO_EMBEDDER if self.embedder is None else self.embedder.identity,
                "dim": str(0 if self.embedder is None else self.embedder.dim or 0),
                "embeds": json.dumps({"names": self.embed_names}),
            }
            if self.edges:
                settings[EDGES] = json.dumps(self.edges)
        if any(FACT_KEY in document.metadata and remembered.may_hide(document) for document in documents):
            settings[remembered.SETTING] = "yes"
        return settings

    # -- other writes, and what adding would embed

    def rebuild(self) -> Added:
        """Split all documents and extract from them again, in batches. Only passages that change are embedded.

        A document whose extraction fails keeps what it has, and is reported.
        """
        again = Added()
        with self.writing(), self.progress_bar("extracting", len(self.engine)) as bar:
            self._check_can_add(_NONE)
            pages = self.engine.read(lambda records: list(records.document_pages("key, id, metadata")))
            known = [Document(row[1], "", metadata=json.loads(row[2])) for page in pages for row in page]
            for batch in batches(known, self.batch_size):
                again += self._add_again(self.engine.parsed([document.id for document in batch]))
                bar.update(len(batch))
            self.engine.flush()
        return again

    def _add_again(self, stored: Sequence[ParsedDocument]) -> Added:
        """Write stored documents again. If the extractor raises an error, each source is extracted from alone."""
        documents = [one.document for one in stored]
        try:
            parsed = self.extract(documents, self.split(documents), {one.id: self.digest(one) for one in documents})
        except ExtractionError as error:
            groups = extractors.sources([one.chunks[0] for one in stored])
            if len(groups) == 1:
                return Added(unchanged=len(stored), problems={document.id: str(error) for document in documents})
            return sum((self._add_again([stored[position] for position in group]) for group in groups), Added())
        whole = with_vectors(self.embedder, [one for one in parsed if one.digest], stored, _NONE, _NONE)
        self.write(whole, [one.document.id for one in whole], {}, _NONE)
        return Added(replaced=len(whole), unchanged=len(parsed) - len(whole), problems=_problems(parsed))

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
        if self.embedder is None:
            return []
        changed, replaced, digests = self._changed(validate(documents))
        parsed = self.extract(changed, self.split(changed), digests)
        known = stored_vectors(self.engine.parsed(replaced))
        new = [
            text for one in parsed if one.document.id not in vectors for text in embedded_texts(one)
            if (one.document.id, text) not in known
        ]  # fmt: skip
        names = self._embedded_names(parsed) if self.embed_names else {}
        return list(dict.fromkeys([*new, *(self.engine.new_names(names) if names else ())]))

    def progress_bar(self, text: str, total: int | None) -> tqdm[None]:
        """Return a progress bar, which is shown on a terminal unless ``progress`` says otherwise."""
        from tqdm import tqdm  # noqa: PLC0415 - takes long to import

        disable = None if self.progress is None else not self.progress
        return tqdm(total=total, desc=text, unit=" documents", disable=disable, leave=False, dynamic_ncols=True)


def _problems(parsed: Iterable[ParsedDocument]) -> dict[str, str]:
    """Return why the extraction of documents failed in part, by id."""
    failed = {p.document.id: [e.problem for e in p.extractions if e.problem] for p in parsed if not p.digest}
    return {document_id: "; ".join(dict.fromkeys(found)) for document_id, found in failed.items()}


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
