"""The write pipeline: validate, skip what is unchanged, chunk, extract, embed, write to the engine."""

import gc
import json
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import reduce
from itertools import chain, islice
from operator import add
from types import MappingProxyType

import numpy as np
from tqdm import tqdm

from graphrag_core import forks
from graphrag_core.errors import ChangedMeanwhile, DocumentError, InputError, ReadOnlyIndex
from graphrag_core.extract import SentenceExtractor
from graphrag_core.ingest import remembered
from graphrag_core.ingest.chunker import Chunker, whole_document
from graphrag_core.ingest.edges import SETTING as EDGES
from graphrag_core.ingest.edges import UNFINISHED, Edge, to_setting, with_edges, without_edges
from graphrag_core.ingest.embedding import CheckedEmbedder
from graphrag_core.ingest.validation import clean, extract, to_json, validate
from graphrag_core.model import Added, Chunk, Document, Estimate
from graphrag_core.ports import Engine, Extractor, Matrix, ParsedDocument
from graphrag_core.research.findings import FINDING, FindingsExtractor, with_findings, without_labels
from graphrag_core.text import EDGE, chunk_text, estimate_tokens, fact_text, fingerprint, label
from graphrag_core.text.markup import plain

Vectors = Mapping[str, Sequence[float]]
"""Vectors by document id, or by text."""

NO_EMBEDDER = "none"
"""What an index that was filled without an embedder stores as the embedder's identity."""

_NONE: Vectors = MappingProxyType({})
_ATTEMPTS = 10  # to write a batch whose names other processes delete meanwhile
_WHOLE = "whole 2"  # the identity of a document that is not split


@dataclass(frozen=True)
class Embeds:
    """What is embedded besides the chunks."""

    facts: bool
    names: bool


@dataclass
class BatchLimit:
    """Counts documents and says where a batch ends.

    A batch has ``documents`` documents. Fewer long ones fill it too: a batch of books would take minutes,
    and much memory.
    """

    documents: int
    characters: int = 2_000_000
    _documents: int = 0
    _characters: int = 0

    def is_full(self, document: Document) -> bool:
        """Count a document; return whether it is the last of its batch."""
        self._documents += 1
        self._characters += len(document.text) if isinstance(document, Document) else 0
        full = self._documents >= self.documents or self._characters >= self.characters
        if full:
            self._documents = self._characters = 0
        return full


class Pipeline:
    """Prepares documents and writes them to an engine.

    Parameters
    ----------
    chunker
        None keeps every document whole.
    embedder
        None for an index without vectors, which serves keyword and graph search.
    batch_size
        The number of documents in a transaction. A transaction of an iterable that is no sequence ends earlier
        if the documents are long.
    progress
        True or False to force a progress bar; None shows it on a terminal.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        chunker: Chunker | None,
        extractor: Extractor,
        embedder: CheckedEmbedder | None,
        embeds: Embeds,
        batch_size: int,
        progress: bool | None,
        edges: Sequence[Edge] = (),
    ) -> None:
        self.engine = engine
        self.chunker = chunker
        self.extractor = extractor
        self.embedder = embedder
        self.embeds = embeds
        self.batch_size = batch_size
        self.progress = progress
        self.edges = tuple(edges)
        self.lock = threading.RLock()
        forks.watch(self)
        self._identities = (
            NO_EMBEDDER if embedder is None else embedder.identity,
            _WHOLE if chunker is None else chunker.identity,
            _identity(extractor),
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

    def delete(self, document_ids: Sequence[str]) -> int:
        """Delete documents, all or nothing; return how many existed."""
        with self.writing():
            existing = list(self.engine.stored(document_ids)) if document_ids else []
            if existing:
                self.engine.write(removed=existing)
                self.engine.flush()
            return len(existing)

    def add(
        self,
        documents: Iterable[Document],
        vectors: Vectors = _NONE,
        embeddings: Vectors = _NONE,
        progress: bool | None = None,
    ) -> Added:
        """Add documents in batches; a batch is added completely or not at all.

        ``vectors`` are those of documents, ``embeddings`` those of texts, as far as they are known.
        """
        total = len(documents) if isinstance(documents, Sized) else None
        shown = self.progress if progress is None else progress
        disable = None if shown is None else not shown
        results, previous = list[Added](), set[str]()
        with (
            self.writing(),
            tqdm(
                total=total, desc="indexing", unit=" documents", disable=disable, leave=False, dynamic_ncols=True
            ) as bar,
        ):
            built_with, began, collects = self._read_settings(), self.engine.generation, gc.isenabled()
            try:
                for batch in self._batches(documents):
                    gc.disable()  # a batch creates many objects and no cycles
                    results.append(self._add_batch(batch, began, previous, vectors, embeddings, built_with))
                    built_with = built_with or self._identities[0]
                    if collects:
                        gc.enable()
                    ids = {document.id for document in batch}
                    previous = previous | ids if self.engine.shared else ids
                    bar.update(len(batch))
            finally:  # complete batches stay, whatever stopped the rest
                if collects:
                    gc.enable()
                self.engine.flush()
                self._read_settings()  # forget those of a first batch that failed
        return reduce(add, results) if results else Added()

    def _read_settings(self) -> str:
        """Return the embedder of the stored documents; set the dimension of ours to that of their vectors."""
        stored = self.engine.settings()
        if self.embedder is not None:
            self.embedder.dim = int(stored.get("dim", "0")) or None
        return stored.get("embedder", "")

    def _batches(self, documents: Iterable[Document]) -> Iterator[list[Document]]:
        """Yield documents in batches. The next document is read when the batch before is written."""
        limit = BatchLimit(self.batch_size)
        if isinstance(documents, Sequence):  # a call of up to batch_size documents is all or nothing
            limit.characters = sys.maxsize
        batch = []
        for document in documents:
            batch.append(document)
            if limit.is_full(document):
                yield batch
                batch = []
        if batch:
            yield batch

    def _add_batch(
        self,
        batch: list[Document],
        began: int,
        previous: set[str],
        vectors: Vectors,
        embeddings: Vectors,
        built_with: str,
    ) -> Added:
        """Add a batch; ``previous`` are the ids of the one before, which may not be committed yet.

        In a shared index they are the ids of all batches before: a later generation may be another process's.
        """
        batch = validate(batch)
        stored = self.engine.stored([document.id for document in batch])
        for document in batch:
            if document.id in previous or (
                not self.engine.shared and document.id in stored and stored[document.id].generation > began
            ):
                raise DocumentError(document.id, "this id came before in the same call: keep one of the two")
        changed = [d for d in batch if d.id not in stored or stored[d.id].digest != self._digest(d)]
        if not changed:
            return Added(unchanged=len(batch))
        if self.embedder is None and vectors:
            raise InputError("vectors were passed to an index without an embedder: leave them out, or pass an embedder")
        if self.embedder is None and built_with not in ("", NO_EMBEDDER):
            raise InputError(
                f"the index was built with {built_with}: adding documents needs an embedder, open it with that one"
            )
        replaced = [document.id for document in changed if document.id in stored]
        parsed, name_vectors = self.parse(changed, self.extractor), dict[str, Matrix]()
        if self.embedder is not None:
            parsed, name_vectors = self._embed(self.embedder, parsed, replaced, vectors, embeddings)
        settings: dict[str, str] = {}
        if not built_with:
            dim = 0 if self.embedder is None else self.embedder.dim or 0
            settings = {"embedder": self._identities[0], "dim": str(dim), "embeds": json.dumps(asdict(self.embeds))}
            if self.edges:
                settings[EDGES] = to_setting(self.edges)
        if any(remembered.FACT_KEY in document.metadata and remembered.may_hide(document) for document in changed):
            settings[remembered.SETTING] = "yes"
        self._write(parsed, replaced, name_vectors, settings, embeddings)
        failed = {p.document.id: [e.problem for e in p.extractions if e.problem] for p in parsed if not p.digest}
        problems = {document_id: "; ".join(dict.fromkeys(found)) for document_id, found in failed.items()}
        return Added(len(changed) - len(replaced), len(replaced), len(batch) - len(changed), problems)

    def _keeps_whole(self, document: Document) -> bool:
        return isinstance(self.chunker, Chunker) and self.chunker.keeps_whole(document)

    def _digest(self, document: Document) -> str:
        """Return a hash of a document's content and of the settings it is parsed with."""
        _, chunking, extraction = self._identities
        identities: tuple[str, ...] = (chunking, extraction)
        if remembered.FACT_KEY in document.metadata:
            identities = ("remembered 1",)
        elif self._keeps_whole(document):
            identities = (_WHOLE, extraction)  # the same as in an index that splits nothing
        parts = [document.text, document.title, to_json(dict(document.metadata)), *identities]
        if FINDING in document.metadata:
            parts.append(FindingsExtractor.identity)
        parts += [f"{mark.kind} {mark.start} {mark.end} {mark.value}" for mark in document.marks]
        return fingerprint(parts)

    def parse(self, documents: Sequence[Document], extractor: Extractor) -> list[ParsedDocument]:
        """Chunk documents and extract from all chunks at once. Nothing is embedded."""
        chunked: list[Sequence[Chunk]] = []
        for document in documents:
            if remembered.FACT_KEY in document.metadata:
                chunk = Chunk(document.id, document.id, document.text, document.title, metadata=document.metadata)
                chunked.append([chunk])
            elif self.chunker is None or self._keeps_whole(document):
                chunked.append([whole_document(document)])
            else:
                chunked.append(self.chunker.split(document))
        pairs = [(d, c) for d, c in zip(documents, chunked, strict=True) if remembered.FACT_KEY not in d.metadata]
        chunks = [chunk for _, pieces in pairs for chunk in pieces]
        if any(FINDING in document.metadata for document in documents):
            prose = [chunk for document, pieces in pairs for chunk in without_labels(document, pieces)]
            extracted = with_findings(chunks, extract(extractor, prose))
        else:
            extracted = extract(extractor, chunks)
        cleaned, parsed = map(clean, extracted), []
        for document, pieces in zip(documents, chunked, strict=True):
            is_remembered = remembered.FACT_KEY in document.metadata
            own = [clean(remembered.extract(pieces[0]))] if is_remembered else islice(cleaned, len(pieces))
            extractions, names = zip(*own, strict=True)
            # Without a digest, the document is extracted from again when it is next added.
            digest = "" if any(extraction.problem for extraction in extractions) else self._digest(document)
            metadata = to_json(dict(document.metadata))
            parsed.append(ParsedDocument(document, metadata, digest, pieces, extractions, names))
        return [with_edges(one, self.edges) for one in parsed] if self.edges else parsed

    def _embed(
        self,
        embedder: CheckedEmbedder,
        parsed: Sequence[ParsedDocument],
        replaced: Sequence[str],
        vectors: Vectors,
        embeddings: Vectors,
    ) -> tuple[list[ParsedDocument], dict[str, Matrix]]:
        """Return the documents with vectors of their chunks and facts, and vectors of new names."""
        given = {}
        for p in parsed if vectors else ():
            if p.document.id in vectors:
                if len(p.chunks) > 1:
                    raise DocumentError(
                        p.document.id,
                        f"a vector was passed for it, but it was cut into {len(p.chunks)} chunks: "
                        "leave the vector out, or keep documents whole with chunker=None",
                    )
                given[p.document.id] = embedder.given(p.document.id, vectors[p.document.id])
        chunks, facts = embedded_texts(parsed, facts=self.embeds.facts)
        known = self._stored_vectors(replaced, chunks) if replaced else {}
        owners = {text: owner for text, owner in chunks if owner not in given} | dict(facts)
        new = [text for text in owners if text not in known]
        fresh = embedder.documents(new, [owners[text] for text in new], embeddings)
        if len(new) == len(chunks) + len(facts):  # no text is repeated or known: slices do
            of_chunks, of_facts = fresh[: len(chunks)], fresh[len(chunks) :]
        else:
            rows = np.concatenate([fresh, *(vector[None, :] for vector in chain(known.values(), given.values()))])
            row_of = {text: row for row, text in enumerate(chain(new, known))}
            row_of_given = {owner: row for row, owner in enumerate(given, len(row_of))}
            of_chunks = rows[[row_of_given[owner] if owner in given else row_of[text] for text, owner in chunks]]
            of_facts = rows[[row_of[text] for text, _ in facts]]
        embedded, chunk, fact = [], 0, 0
        for p in parsed:
            last_chunk, last_fact = chunk + len(p.chunks), fact + sum(len(e.facts) for e in p.extractions)
            fact_vectors = of_facts[fact:last_fact] if self.embeds.facts else None
            embedded.append(replace(p, chunk_vectors=of_chunks[chunk:last_chunk], fact_vectors=fact_vectors))
            chunk, fact = last_chunk, last_fact
        if not self.embeds.names:
            return embedded, {}
        owners = _embedded_names(parsed)
        unknown = self.engine.new_names(owners)  # waits for the last batch
        matrix = embedder.documents(unknown, [owners[name] for name in unknown], embeddings)
        return embedded, dict(zip(unknown, matrix, strict=True))

    def _stored_vectors(self, replaced: Sequence[str], chunks: Sequence[tuple[str, str]]) -> dict[str, Matrix]:
        """Return the vectors of replaced documents by text. Those of facts may be rounded, so no chunk gets one."""
        new = {text for text, _ in chunks}
        of_chunks, of_facts = dict[str, Matrix](), dict[str, Matrix]()
        for one in self.engine.parsed(replaced):
            chunk_texts, fact_texts = embedded_texts([one], facts=one.fact_vectors is not None)
            if one.chunk_vectors is not None:
                of_chunks |= {text: vector for (text, _), vector in zip(chunk_texts, one.chunk_vectors, strict=True)}
            if one.fact_vectors is not None:
                pairs = zip(fact_texts, one.fact_vectors, strict=True)
                of_facts |= {text: vector for (text, _), vector in pairs if text not in new}
        return of_facts | of_chunks

    def _write(
        self,
        parsed: Sequence[ParsedDocument],
        replaced: Sequence[str],
        name_vectors: dict[str, Matrix],
        settings: Mapping[str, str],
        embeddings: Vectors,
    ) -> None:
        """Write a batch. Of a shared index, another process may have added or deleted the same documents meanwhile."""
        removed = [one.document.id for one in parsed] if self.engine.shared else replaced
        for attempt in range(_ATTEMPTS):
            try:
                self.engine.write(parsed, removed, name_vectors=name_vectors, settings=settings)
            except ChangedMeanwhile as error:
                if attempt == _ATTEMPTS - 1 or not error.names or self.embedder is None:
                    raise
                owners = _embedded_names(parsed)
                matrix = self.embedder.documents(list(error.names), [owners[name] for name in error.names], embeddings)
                name_vectors |= dict(zip(error.names, matrix, strict=True))
            else:
                return

    # -- what adding would cost

    def to_embed(self, documents: Iterable[Document], vectors: Collection[str] = ()) -> list[str]:
        """Return the texts that adding documents would embed, each once. Nothing is embedded or written.

        ``vectors`` are the ids of documents of which the vectors are known.
        """
        batch = validate(documents)
        if self.embedder is None:
            return []
        stored = self.engine.stored([document.id for document in batch])
        changed = [d for d in batch if d.id not in stored or stored[d.id].digest != self._digest(d)]
        parsed = self.parse(changed, self.extractor)
        chunks, facts = embedded_texts(parsed, facts=self.embeds.facts)
        known = self._stored_vectors([document.id for document in changed if document.id in stored], chunks)
        needed = (text for text, owner in chunks if owner not in vectors)
        texts = [text for text in chain(needed, (text for text, _ in facts)) if text not in known]
        if self.embeds.names:
            texts += self.engine.new_names(_embedded_names(parsed))
        return list(dict.fromkeys(texts))

    def estimate(self, documents: Iterable[Document]) -> Estimate:
        """Return what embedding documents would cost. The default extractor takes the place of one that may cost."""
        extractor = self.extractor if isinstance(self.extractor, SentenceExtractor) else SentenceExtractor()
        count = chunks = chunk_tokens = facts = fact_tokens = 0
        names: set[str] = set()
        for document in documents:
            parsed = self.parse(validate([document]), extractor)
            of_chunks, of_facts = embedded_texts(parsed, facts=True)
            count += 1
            chunks += len(of_chunks)
            chunk_tokens += sum(estimate_tokens(text) for text, _ in of_chunks)
            facts += len(of_facts)
            fact_tokens += sum(estimate_tokens(text) for text, _ in of_facts)
            names.update(chain.from_iterable(parsed[0].names))
        return Estimate(count, chunks, chunk_tokens, facts, fact_tokens, len(names), sum(map(estimate_tokens, names)))

    # -- other edges

    def derive_edges(self, edges: Sequence[Edge]) -> None:
        """Derive the explicit edges of all documents again, for other edges.

        Documents are written as they are stored: nothing is extracted, and no passage is embedded. Of an index that
        embeds facts, those of the new edges are. A run that was interrupted is done again by the next one.
        """
        if self.embedder is None and self.embeds.facts:
            raise InputError("the facts of this index are embedded: open it with its embedder to change its edges")
        ids = list(self.engine.document_ids())
        bar = tqdm(ids, "edges", unit=" documents", disable=None if self.progress is None else not self.progress)
        self.edges = tuple(edges)
        settings = {EDGES: to_setting(self.edges), UNFINISHED: "yes"}
        with bar:
            for start in range(0, len(ids), self.batch_size):
                batch = ids[start : start + self.batch_size]
                changed, names = [], dict[str, Matrix]()
                for stored in self.engine.parsed(batch):
                    derived, of_names = self._with_new_edges(stored, names)
                    if derived.extractions != stored.extractions or derived.names != stored.names:
                        changed.append(derived)
                        names |= of_names
                removed = [one.document.id for one in changed]
                self.engine.write(changed, removed, name_vectors=names, settings=settings)
                self.engine.flush()
                bar.update(len(batch))
        self.engine.write(settings={EDGES: to_setting(self.edges), UNFINISHED: ""})
        self.engine.flush()

    def _with_new_edges(
        self, stored: ParsedDocument, names: Mapping[str, Matrix]
    ) -> tuple[ParsedDocument, dict[str, Matrix]]:
        """Return a stored document with the edges of now, and vectors of new names that are not in ``names``."""
        bare = without_edges(stored)
        derived = with_edges(bare, self.edges)
        if self.embedder is None:
            return derived, {}
        owner = stored.document.id
        if self.embeds.facts and stored.fact_vectors is not None:
            _, texts = embedded_texts([derived], facts=True)
            is_edge = [EDGE in fact.entities for extraction in derived.extractions for fact in extraction.facts]
            new = [text for (text, _), edge in zip(texts, is_edge, strict=True) if edge]
            vectors = np.empty((len(texts), stored.fact_vectors.shape[1]), np.float32)
            vectors[np.logical_not(is_edge)] = bare.fact_vectors
            if new:
                vectors[is_edge] = self.embedder.documents(new, [owner] * len(new))
            derived = replace(derived, fact_vectors=vectors)
        if not self.embeds.names:
            return derived, {}
        unknown = [name for name in self.engine.new_names(_embedded_names([derived])) if name not in names]
        matrix = self.embedder.documents(unknown, [owner] * len(unknown))
        return derived, dict(zip(unknown, matrix, strict=True))


def _identity(extractor: Extractor) -> str:
    kind = type(extractor).__qualname__
    try:
        return str(getattr(extractor, "identity", kind))
    except Exception as error:
        raise InputError(f"the identity of {kind} cannot be read ({type(error).__name__}: {error})") from error


def embedded_texts(
    parsed: Sequence[ParsedDocument], *, facts: bool
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the texts that are embedded for chunks and, if asked, for facts, each with its document's id."""
    of_chunks, of_facts = [], []
    for p in parsed:
        for chunk, extraction in zip(p.chunks, p.extractions, strict=True):
            name = label(chunk.title, chunk.headings)
            of_chunks.append((chunk_text(name, plain(chunk.text)), p.document.id))
            for fact in extraction.facts if facts else ():
                text = fact_text(name, fact.text, fact.relation, (*fact.entities, fact.value))
                of_facts.append((text, p.document.id))
    return of_chunks, of_facts


def _embedded_names(parsed: Sequence[ParsedDocument]) -> dict[str, str]:
    """Return the names that are embedded, each with a document's id: all but the addresses of sections."""
    return {name: p.document.id for p in parsed for names in p.names for name in names if not name.startswith("→")}
