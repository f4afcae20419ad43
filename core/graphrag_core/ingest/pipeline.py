"""The way of a document: validate → changed → split → extract → embed → one transaction: :meth:`Pipeline.add`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrag_core import extract as extractors
from graphrag_core.errors import DocumentError, EmbedderMismatch, ExtractionError, InputError, ReadOnlyIndex
from graphrag_core.ingest import remembered
from graphrag_core.ingest.chunker import Chunker, whole_document
from graphrag_core.ingest.edges import Edge, with_edges
from graphrag_core.ingest.embedding import CheckedEmbedder, Vectors, embedded_texts, unit_vector, with_tokens
from graphrag_core.ingest.remembered import FACT_KEY
from graphrag_core.ingest.titles import stated_title
from graphrag_core.ingest.validation import extract, names_of, to_json, validate
from graphrag_core.model import Added, Chunk, Document
from graphrag_core.ports import Extractor, Matrix, ParsedDocument
from graphrag_core.research import FINDINGS, is_finding, without_labels
from graphrag_core.telemetry import Stages
from graphrag_core.text import fingerprint, normalise

if TYPE_CHECKING:
    from tqdm import tqdm

    from graphrag_core.engine.engine import IndexEngine

NO_EMBEDDER = "none"
"""What an index that was filled without an embedder stores as the embedder's identity."""

_NONE: Vectors = MappingProxyType({})
_CHARACTERS = 100_000  # of a batch of an iterator: an interrupted run loses no more work than that
_MOST_BATCHES = 4  # that the pieces of one source may fill together


def batches(documents: Iterable[Document], size: int, characters: int = _CHARACTERS) -> Iterator[Sequence[Document]]:
    """Yield documents, which may be invalid, in batches of a size.

    The pieces of a source stay together in a list. A batch of an iterator ends at a number of characters, too, and
    the next document is read when the batch before was taken.
    """
    if isinstance(documents, Sequence):
        stop = 0
        while (start := stop) < len(documents):
            stop = min(start + size, len(documents))
            most = min(start + _MOST_BATCHES * size, len(documents))
            while stop < most and _source(documents[stop]) and _source(documents[stop]) == _source(documents[stop - 1]):
                stop += 1
            yield documents[start:stop]
        return
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


def _source(document: Document) -> object:
    metadata = getattr(document, "metadata", None)
    return extractors.source_and_rest(metadata) if isinstance(metadata, Mapping) else None


class Pipeline:
    """Prepares documents and writes them to an engine. Most parameters are those of ``KnowledgeIndex``."""

    def __init__(
        self,
        engine: IndexEngine,
        embedder: CheckedEmbedder | None,
        *,
        chunker: Chunker | None,
        extractor: Extractor | None,
        embed_names: bool | None,
        edges: tuple[Edge, ...] | None,
        batch_size: int,
        progress: bool | None,
    ) -> None:
        if embed_names and embedder is None:
            raise InputError("embed_names needs an embedder: pass one, or leave it out")
        self.engine, self.embedder, self.chunker = engine, embedder, chunker
        self.extractor: Any = extractor  # the default one is imported when it is used
        self.embed_names, self.edges = bool(embed_names), edges or ()
        self.batch_size, self.progress = batch_size, progress
        self.finished = 0  # batches that were written, or had nothing new
        self.read_settings()
        wrong = "edges" if edges is not None and set(edges) != set(self.edges) else ""
        if wrong or embed_names not in (None, self.embed_names):
            name = wrong or "embed_names"
            raise InputError(
                f"{engine.path or 'the index'} was built with {name}={getattr(self, name)}: leave {name} out, or index "
                "the documents again into another folder"
            )

    def writing(self) -> AbstractContextManager[bool]:
        """Return the lock of a series of writes. Raise :class:`ReadOnlyIndex` if the index cannot be written."""
        if self.engine.read_only:
            raise ReadOnlyIndex(self.engine.read_only_reason)
        return self.engine.lock

    def read_settings(self, *, to_add: bool = False) -> dict[str, str]:
        """Take over the settings that are stored with the index, which another process may have written; return them.

        Raises
        ------
        EmbedderMismatch
            The index was built with another embedder, or without one.
        InputError
            Documents are to be added to an index with vectors, without an embedder.
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
        elif to_add and built_with not in ("", NO_EMBEDDER):
            raise InputError(
                f"the index was built with {built_with}: adding documents needs an embedder, open it with that one"
            )
        if built_with:
            self.embed_names = json.loads(stored["embeds"])["names"]
            self.edges = tuple((source, target) for source, target in json.loads(stored.get("edges", "[]")))
        return stored

    # -- adding documents

    def add(self, documents: Iterable[Document], vectors: Vectors = _NONE, embeddings: Vectors = _NONE) -> Added:
        """Add documents batch by batch; each batch is one transaction.

        ``vectors`` are known vectors of documents, ``embeddings`` known vectors of texts.
        """
        added, seen = Added(), set[int]()
        total = len(documents) if isinstance(documents, Sized) else None
        with self.writing(), self._progress_bar("indexing", total) as bar:
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
        digests = self._digests(documents)
        known = self.engine.stored([*digests])
        changed = {document.id: document for document in documents if known.get(document.id) != digests[document.id]}
        replaced = [document_id for document_id in changed if document_id in known]
        marks = {document.id: document.file for document in documents if document.file and document.id not in changed}
        if marks:
            self.engine.change(lambda records: records.mark_files(marks))
        if not changed:
            return Added(unchanged=len(documents))
        stages, stored = Stages(), self.read_settings(to_add=True)
        parsed = self._parse([*changed.values()], digests)
        stages.end("extract")
        parsed, names = self._embed(parsed, self.engine.parsed(replaced) if replaced else (), vectors, embeddings)
        stages.end("embed")
        # Another process may have added or deleted the same documents of a shared index meanwhile.
        removed = [*changed] if self.engine.shared else replaced
        self.engine.write(parsed, removed, name_vectors=names, settings=self._new_settings(parsed, stored))
        stages.end("write")
        passages = sum(len(item.chunks) for item in parsed)
        stages.emit("add", {"documents": len(changed), "passages": passages, "replaced": len(replaced)})
        return Added(len(changed) - len(replaced), len(replaced), len(documents) - len(changed), _problems(parsed))

    # -- the steps

    def _digests(self, documents: Iterable[Document]) -> dict[str, str]:
        """Return for each document a hash of its content and of the settings it is parsed with."""
        if self.extractor is None:
            self.extractor = extractors.SentenceExtractor()
        extractor = str(getattr(self.extractor, "identity", type(self.extractor).__qualname__))
        digests = {}
        for document in documents:
            parts = [document.text, document.title, to_json(dict(document.metadata))]
            if FACT_KEY in document.metadata:
                parts.append("remembered 1")
            else:
                chunker = None if self.chunker is None or self.chunker.keeps_whole(document) else self.chunker.identity
                parts += [chunker or "whole 2", extractor, *([FINDINGS] if is_finding(document) else [])]
            digests[document.id] = fingerprint(parts)
        return digests

    def _split(self, document: Document) -> list[Chunk]:
        """Return the passages of a document. A told fact is one."""
        if FACT_KEY in document.metadata:
            return [Chunk(document.id, document.id, document.text, document.title, metadata=document.metadata)]
        return [whole_document(document)] if self.chunker is None else self.chunker.split(document)

    def _parse(self, documents: Sequence[Document], digests: Mapping[str, str]) -> list[ParsedDocument]:
        """Split documents, and extract from their passages, all at once. Told facts are read from their metadata.

        A document of which a part failed has no digest: it is extracted from again when it is next added.
        """
        chunked = [*map(self._split, documents)]
        if len(documents) > 1:
            _give_source_titles(documents, chunked)
        pairs = [*zip(documents, chunked, strict=True)]
        texts = [
            chunk for document, chunks in pairs if FACT_KEY not in document.metadata
            for chunk in (without_labels(document, chunks) if is_finding(document) else chunks)
        ]  # fmt: skip
        found, parsed = iter(extract(self.extractor, texts)), []
        for document, chunks in pairs:
            is_told = FACT_KEY in document.metadata
            extractions = [remembered.extract(chunks[0])] if is_told else [*islice(found, len(chunks))]
            digest = "" if any(extraction.problem for extraction in extractions) else digests[document.id]
            metadata, names = to_json(dict(document.metadata)), [*map(names_of, extractions)]
            item = ParsedDocument(document, metadata, digest, chunks, extractions, names)
            parsed.append(with_edges(item, self.edges) if self.edges and not is_told else item)
        return parsed

    def _embed(
        self, parsed: list[ParsedDocument], stored: Sequence[ParsedDocument], vectors: Vectors, embeddings: Vectors
    ) -> tuple[list[ParsedDocument], dict[str, Matrix]]:
        """Return documents with the vectors and the tokens of their passages; and the vectors of new names.

        ``stored`` are earlier versions of the documents: the vectors of texts that stay are kept.
        """
        embedder = self.embedder
        if embedder is None:
            if vectors:
                raise InputError(
                    "vectors were passed to an index without an embedder: leave them out, or pass an embedder"
                )
            return parsed, {}
        given = {}
        for item in parsed:
            if (name := item.document.id) in vectors:
                if len(item.chunks) > 1:
                    problem = f"a vector was passed for it, but it was cut into {len(item.chunks)} chunks"
                    raise DocumentError(name, f"{problem}: leave it out, or keep documents whole with chunker=None")
                try:
                    given[name] = unit_vector(vectors[name], embedder.dim)
                except ValueError as error:
                    raise DocumentError(name, f"its vector {error}") from error
                embedder.dim = len(given[name])
        rows, texts, names = self._to_embed(parsed, stored, given)
        fresh = embedder.documents(texts, embeddings)
        whole = [
            replace(item, chunk_vectors=np.stack([fresh[entry] if isinstance(entry, str) else entry for entry in row]))
            for item, row in zip(parsed, rows, strict=True)
        ]
        return with_tokens(embedder, whole) if embedder.has_tokens else whole, {name: fresh[name] for name in names}

    def _to_embed(
        self, parsed: Sequence[ParsedDocument], stored: Sequence[ParsedDocument], given: Mapping[str, Any]
    ) -> tuple[list[list[Any]], dict[str, str], list[str]]:
        """Return for each document the known vectors of its passages, or their texts; the texts to embed; new names.

        The texts have the ids of documents as values.
        """
        known = {
            (item.document.id, text): vector for item in stored if item.chunk_vectors is not None
            for text, vector in zip(embedded_texts(item), item.chunk_vectors, strict=True)
        }  # fmt: skip
        rows, texts, names = [], dict[str, str](), list[str]()
        for item in parsed:
            name = item.document.id
            row = [given[name]] if name in given else [known.get((name, text), text) for text in embedded_texts(item)]
            texts |= {entry: name for entry in row if isinstance(entry, str)}
            rows.append(row)
        if self.embed_names:  # but no addresses of sections
            owners = {
                name: item.document.id for item in parsed for names in item.names for name in names if name[:1] != "→"
            }
            names = self.engine.new_names(owners)
            texts |= {name: owners[name] for name in names}
        return rows, texts, names

    def _new_settings(self, parsed: Iterable[ParsedDocument], stored: Mapping[str, str]) -> dict[str, str]:
        """Return the settings to write with documents: of an empty index all, else those that they change."""
        settings = {} if stored.get("embedder") else {
            "embedder": NO_EMBEDDER if self.embedder is None else self.embedder.identity,
            "dim": str(0 if self.embedder is None else self.embedder.dim or 0),
            "embeds": json.dumps({"names": self.embed_names}), "edges": json.dumps(self.edges),
        }  # fmt: skip
        if any(FACT_KEY in item.document.metadata and remembered.may_hide(item.document) for item in parsed):
            settings[remembered.SETTING] = "yes"
        return settings

    # -- other writes, and what adding would embed

    def rebuild(self) -> Added:
        """Split all documents and extract from them again, in batches. Only passages that change are embedded.

        A document whose extraction fails keeps what it has, and is reported.
        """
        again = Added()
        with self.writing(), self._progress_bar("extracting", len(self.engine)) as bar:
            self.read_settings(to_add=True)
            pages = self.engine.read(lambda records: list(records.document_pages("key, id, metadata")))
            known = [Document(row[1], "", metadata=json.loads(row[2])) for page in pages for row in page]
            for batch in batches(known, self.batch_size):
                again += self._add_again(self.engine.parsed([document.id for document in batch]))
                bar.update(len(batch))
            self.engine.flush()
        return again

    def _add_again(self, stored: Sequence[ParsedDocument]) -> Added:
        """Write stored documents again. If the extractor raises an error, each source is extracted from alone."""
        documents = [item.document for item in stored]
        try:
            parsed = self._parse(documents, self._digests(documents))
        except ExtractionError as error:
            groups = extractors.sources([item.chunks[0] for item in stored])
            if len(groups) == 1:
                return Added(unchanged=len(stored), problems={document.id: str(error) for document in documents})
            return sum((self._add_again([stored[position] for position in group]) for group in groups), Added())
        whole, names = self._embed([item for item in parsed if item.digest], stored, _NONE, _NONE)
        self.engine.write(whole, [item.document.id for item in whole], name_vectors=names)
        return Added(replaced=len(whole), unchanged=len(parsed) - len(whole), problems=_problems(parsed))

    def delete(self, document_ids: Sequence[str]) -> int:
        """Delete documents, all or nothing; return how many existed."""
        with self.writing():
            existing = list(self.engine.stored(document_ids)) if document_ids else []
            if existing:
                self.engine.write(removed=existing)
                self.engine.flush()
            return len(existing)

    def to_embed(self, documents: Iterable[Document], vectors: Collection[str] = ()) -> list[str]:
        """Return the texts that adding documents would embed, each once. Nothing is embedded or written.

        ``vectors`` are the ids of documents with known vectors.
        """
        if self.embedder is None:
            return []
        valid = validate(documents)
        digests = self._digests(valid)
        stored = self.engine.stored([*digests])
        changed = [document for document in valid if stored.get(document.id) != digests[document.id]]
        again = self.engine.parsed([document.id for document in changed])
        return [*self._to_embed(self._parse(changed, digests), again, dict.fromkeys(vectors))[1]]

    def _progress_bar(self, text: str, total: int | None) -> tqdm[None]:
        """Return a progress bar, which is shown on a terminal unless ``progress`` says otherwise."""
        from tqdm import tqdm  # noqa: PLC0415 - takes long to import

        disable = None if self.progress is None else not self.progress
        return tqdm(total=total, desc=text, unit=" documents", disable=disable, leave=False, dynamic_ncols=True)


def _problems(parsed: Iterable[ParsedDocument]) -> dict[str, str]:
    """Return why the extraction of documents failed in part, by id."""
    failed = {
        item.document.id: [one.problem for one in item.extractions if one.problem] for item in parsed if not item.digest
    }
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
