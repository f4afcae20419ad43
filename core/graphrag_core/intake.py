"""From documents as they are handed in to entries that can be written."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from graphrag_core.embedding import Embedding
from graphrag_core.errors import DocumentError, ExtractionError, InputError
from graphrag_core.ingest.chunk import Chunker, title_of
from graphrag_core.ingest.extract import SentenceExtractor
from graphrag_core.model import Chunk, Document, Extraction
from graphrag_core.ports import Extractor, Matrix
from graphrag_core.report import Estimate
from graphrag_core.settings import Embeds
from graphrag_core.stores.entry import Entry, names_of, to_json
from graphrag_core.stores.records import Records
from graphrag_core.stores.writer import unknown_names
from graphrag_core.text import chunk_text, estimate_tokens, fact_text, fingerprint

_LARGE = 1 << 63


@dataclass(frozen=True)
class Read:
    """A document, cut and read."""

    document: Document
    chunks: Sequence[Chunk]
    extractions: Sequence[Extraction]

    @property
    def chunk_texts(self) -> list[str]:
        """What is embedded for the chunks."""
        return [chunk_text(chunk.title, chunk.text) for chunk in self.chunks]

    @property
    def fact_texts(self) -> list[str]:
        """What is embedded for the facts."""
        return [
            fact_text(chunk.title, fact.text, fact.relation, [*fact.entities, fact.value])
            for chunk, extraction in zip(self.chunks, self.extractions, strict=True)
            for fact in extraction.facts
        ]

    @cached_property
    def names(self) -> list[dict[str, bool]]:
        """The names each chunk speaks of, its subjects first and marked."""
        return [names_of(extraction) for extraction in self.extractions]

    @property
    def problem(self) -> str:
        """What could not be read."""
        problems = [extraction.problem for extraction in self.extractions if extraction.problem]
        return "; ".join(dict.fromkeys(problems)) if problems else ""


@dataclass(frozen=True)
class Intake:
    """Checks, cuts, reads and embeds documents."""

    chunker: Chunker | None
    extractor: Extractor
    embedding: Embedding | None
    embeds: Embeds

    def digest(self, document: Document) -> str:
        """Return what changes when the document, or how it is read, changes."""
        return self._digest(document, to_json(dict(document.metadata)))

    def _digest(self, document: Document, metadata: str) -> str:
        return fingerprint([document.text, document.title, metadata, *self._identities])

    def changed(
        self, batch: Sequence[Document], known: Mapping[str, tuple[int, str, int]]
    ) -> tuple[list[Document], list[int]]:
        """Return the documents that are new or other than before, and the keys of those they replace.

        ``known`` has key, digest and generation of those that are there, by id.
        """
        changed = [d for d in batch if d.id not in known or known[d.id][1] != self.digest(d)]
        return changed, [known[d.id][0] for d in changed if d.id in known]

    @cached_property
    def _identities(self) -> tuple[str, str]:
        chunker = self.chunker.identity if self.chunker else "whole"
        return chunker, str(getattr(self.extractor, "identity", type(self.extractor).__qualname__))

    def read(self, documents: Sequence[Document]) -> list[Read]:
        """Cut documents into chunks and extract from all of them at once."""
        cut = [self._cut(document) for document in documents]
        chunks = [chunk for pieces in cut for chunk in pieces]
        extractions = list(self.extractor.extract(chunks)) if chunks else []
        if len(extractions) != len(chunks):
            name = type(self.extractor).__qualname__
            raise ExtractionError(f"{name} returned {len(extractions)} extractions for {len(chunks)} chunks")
        read, at = [], 0
        for document, pieces in zip(documents, cut, strict=True):
            read.append(Read(document, pieces, extractions[at : at + len(pieces)]))
            at += len(pieces)
        return read

    def embed(
        self, read: Sequence[Read], known: Mapping[str, Matrix], given: Mapping[str, Sequence[float]] | None = None
    ) -> list[Entry]:
        """Return the entries to write.

        Texts with a known vector are not embedded, nor are the passages of documents whose
        vector is ``given``, by id.
        """
        own = self._given(read, given) if given else {}
        chunks = self._vectors([(text, r.document.id) for r in read for text in r.chunk_texts], known, own)
        facts = None
        if self.embeds.facts:
            facts = self._vectors([(text, r.document.id) for r in read for text in r.fact_texts], known)
        entries, chunk_at, fact_at = [], 0, 0
        for r in read:
            chunk_end, fact_end = chunk_at + len(r.chunks), fact_at + sum(len(e.facts) for e in r.extractions)
            own_facts = None if facts is None else facts[fact_at:fact_end]
            # An incomplete reading keeps no digest, so that the document is read again next time.
            metadata = to_json(dict(r.document.metadata))
            digest = "" if r.problem else self._digest(r.document, metadata)
            own_chunks = chunks[chunk_at:chunk_end]
            entries.append(Entry(r.document, metadata, digest, r.chunks, r.extractions, r.names, own_chunks, own_facts))
            chunk_at, fact_at = chunk_end, fact_end
        return entries

    def name_vectors(self, read: Sequence[Read], records: Records) -> dict[str, Matrix]:
        """Return vectors of the names that the records do not have yet."""
        if not self.embeds.names or self.embedding is None:
            return {}
        names = {name: r.document.id for r in read for chunk in r.names for name in chunk}
        new = unknown_names(records, names)
        return dict(zip(new, self.embedding.documents(new, [names[name] for name in new]), strict=True))

    def texts(self, read: Sequence[Read], known: Container[str], records: Records) -> list[str]:
        """Return every text that has to be embedded before entries can be written, once."""
        texts = [text for r in read for text in r.chunk_texts]
        if self.embeds.facts:
            texts += [text for r in read for text in r.fact_texts]
        names = [name for r in read for chunk in r.names for name in chunk] if self.embeds.names else []
        return list(dict.fromkeys([*(text for text in texts if text not in known), *unknown_names(records, names)]))

    def estimate(self, documents: Iterable[Document]) -> Estimate:
        """Return what embedding documents would cost. An extractor that costs money is not asked."""
        from_sentences = Intake(self.chunker, _free(self.extractor), None, Embeds(facts=False, names=False))
        count = chunks = chunk_tokens = facts = fact_tokens = 0
        names: set[str] = set()
        for document in documents:
            check(document)
            (read,) = from_sentences.read([document])
            count += 1
            chunks += len(read.chunks)
            chunk_tokens += sum(map(estimate_tokens, read.chunk_texts))
            facts += len(read.fact_texts)
            fact_tokens += sum(map(estimate_tokens, read.fact_texts))
            names.update(name for chunk in read.names for name in chunk)
        return Estimate(count, chunks, chunk_tokens, facts, fact_tokens, len(names), sum(map(estimate_tokens, names)))

    def _cut(self, document: Document) -> list[Chunk]:
        if self.chunker is None:
            return [Chunk(document.id, document.id, document.text, title_of(document), metadata=document.metadata)]
        return self.chunker.split(document)

    def _given(self, read: Sequence[Read], vectors: Mapping[str, Sequence[float]]) -> dict[str, Matrix]:
        with_vector = [r for r in read if r.document.id in vectors]
        for r in with_vector:
            if len(r.chunks) > 1:
                raise DocumentError(
                    r.document.id,
                    f"a vector came with it, but it was cut into {len(r.chunks)} passages: "
                    "leave the vector out, or keep documents whole with chunker=None",
                )
        if self.embedding is None or not with_vector:
            return {}
        return {r.document.id: self.embedding.given(r.document.id, vectors[r.document.id]) for r in with_vector}

    def _vectors(
        self, texts: Sequence[tuple[str, str]], known: Mapping[str, Matrix], given: Mapping[str, Matrix] | None = None
    ) -> Matrix:
        if self.embedding is None:
            raise InputError("adding documents needs an embedder: KnowledgeIndex(WordLlama()), or your own")
        if not texts:
            return np.empty((0, self.embedding.dim or 0), np.float32)
        given = given or {}
        new = {text: owner for text, owner in texts if owner not in given and text not in known}
        fresh = self.embedding.documents(list(new), list(new.values()))
        if len(new) == len(texts):
            return fresh
        vectors = {**known, **dict(zip(new, fresh, strict=True))}
        rows = [given[owner] if owner in given else vectors[text] for text, owner in texts]
        return np.array(rows, np.float32).reshape(len(texts), -1)


def _free(extractor: Extractor) -> Extractor:
    return extractor if isinstance(extractor, SentenceExtractor) else SentenceExtractor()


def check(document: Document) -> None:
    """Raise :class:`DocumentError` if a document cannot be indexed."""
    if not isinstance(document, Document):
        raise InputError(f"add takes Document values, not {type(document).__qualname__}: Document(id=..., text=...)")
    if not isinstance(document.id, str) or not document.id.strip():
        raise DocumentError(document.id, "the id must be a text that is not blank")
    for name, text in (("id", document.id), ("title", document.title), ("text", document.text)):
        if not isinstance(text, str):
            raise DocumentError(document.id, f"the {name} is {type(text).__qualname__}, not str: decode it first")
        _check_characters(document.id, name, text)
    if not document.text.strip():
        raise DocumentError(document.id, "the text is empty: leave the document out, or delete it if it was there")
    _check_metadata(document)


def _check_characters(document_id: str, name: str, text: str) -> None:
    if (at := text.find("\x00")) >= 0:
        raise DocumentError(document_id, f"the {name} has a NUL character at {at}: is it binary? Remove it")
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DocumentError(
            document_id,
            f"the {name} has half a surrogate pair at {error.start}: decode the source with errors='replace'",
        ) from error


def _check_metadata(document: Document) -> None:
    if not isinstance(document.metadata, Mapping):
        raise DocumentError(document.id, f"the metadata is {type(document.metadata).__qualname__}, not a mapping")
    try:
        _check_inside(document.id, dict(document.metadata))
    except RecursionError as error:
        raise DocumentError(document.id, "the metadata holds itself, or is nested too deeply: flatten it") from error


def _check_inside(document_id: str, value: Any) -> None:
    """Look at every key and value of metadata; whatever is not plainly JSON, JSON itself is asked about."""
    if isinstance(value, str):
        _check_characters(document_id, "metadata", value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise DocumentError(document_id, f"the metadata key {key!r} is not a text: JSON would change it")
            _check_characters(document_id, "metadata", key)
            _check_inside(document_id, inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _check_inside(document_id, inner)
    elif not (value is None or (type(value) in (int, bool) and -_LARGE < value < _LARGE)):
        try:
            to_json(value)
        except (TypeError, ValueError) as error:
            raise DocumentError(
                document_id, f"the metadata is not JSON ({error}): turn its values into text or numbers"
            ) from error
