"""The write pipeline: validate, skip unchanged, chunk, extract, embed, write to the engine."""

import gc
import json
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from types import MappingProxyType
from typing import Any

import numpy as np
from tqdm import tqdm

from graphrag_core import forks
from graphrag_core.errors import ChangedMeanwhile, DocumentError, InputError, ReadOnlyIndex
from graphrag_core.extract import SentenceExtractor
from graphrag_core.filters import json_value, posing_key
from graphrag_core.ingest import told_facts
from graphrag_core.ingest.chunker import Chunker, whole_document
from graphrag_core.ingest.edges import SETTING as EDGES
from graphrag_core.ingest.edges import UNFINISHED, Edge, to_setting, with_edges, without_edges
from graphrag_core.ingest.embedding import CheckedEmbedder
from graphrag_core.ingest.extraction import extract
from graphrag_core.model import Added, Chunk, Document, Estimate, Extraction, Mark
from graphrag_core.ports import Engine, Extractor, Matrix, ParsedDocument, is_shared
from graphrag_core.research.findings import FindingsExtractor, is_finding, with_findings, without_labels
from graphrag_core.text import EDGE, chunk_text, estimate_tokens, fact_text, fingerprint, label, normalise
from graphrag_core.text.markup import plain

Vectors = Mapping[str, Sequence[float]]
"""Vectors by document id, or by text."""

NO_EMBEDDER = "none"
"""What an index that was filled without an embedder stores as the embedder's identity."""

_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_NONE: Vectors = MappingProxyType({})
_LONGEST_NAME = 300
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
        self._built_with = ""  # the embedder of the stored documents; read again by each call of add
        self._identities = (
            chunker.identity if chunker else _WHOLE,
            _identity(extractor),
        )

    def after_fork_in_child(self) -> None:
        """Replace the lock, which another thread may have held. For :mod:`graphrag_core.forks`."""
        self.lock = threading.RLock()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the write lock. Raise :class:`ReadOnlyIndex` if the index cannot be written."""
        if getattr(self.engine, "read_only", False):
            path = getattr(self.engine, "path", None)
            unspecific = f"{path} was opened with read_only=True: open it for writing to change it"
            raise ReadOnlyIndex(getattr(self.engine, "read_only_reason", "") or unspecific)
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
        progress = self.progress if progress is None else progress
        disable = None if progress is None else not progress
        results, previous = list[Added](), set[str]()
        with self.writing():
            began, collects = self.engine.generation, gc.isenabled()
            self._read_settings()
            bar = tqdm(
                total=total, desc="indexing", unit=" documents", disable=disable, leave=False, dynamic_ncols=True
            )
            try:
                try:
                    for batch in self._batches(documents):
                        gc.disable()  # a batch creates many objects and no cycles
                        results.append(self._add_batch(batch, began, previous, vectors, embeddings))
                        if collects:
                            gc.enable()
                        added = {document.id for document in batch}
                        previous = previous | added if is_shared(self.engine) else added
                        bar.update(len(batch))
                finally:  # complete batches stay, whatever stopped the rest
                    if collects:
                        gc.enable()
                    bar.close()
                    self.engine.flush()
            except BaseException:
                self._read_settings()  # forget those of a first batch that failed
                raise
        return sum(results[1:], results[0]) if results else Added()

    def _read_settings(self) -> None:
        """Read from the index what it was built with: an interrupted call may have left other values here."""
        stored = self.engine.settings()
        self._built_with = stored.get("embedder", "")
        if self.embedder is not None:
            self.embedder.dim = int(stored.get("dim", "0")) or None

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
        self, batch: list[Document], began: int, previous: set[str], vectors: Vectors, embeddings: Vectors
    ) -> Added:
        """Add a batch; ``previous`` are the ids of the one before, which may not be committed yet.

        In a shared index they are the ids of all batches before: a later generation may be another process's.
        """
        batch = validate(batch)
        stored = self.engine.stored([document.id for document in batch])
        for document in batch:
            if document.id in previous or (
                not is_shared(self.engine) and document.id in stored and stored[document.id].generation > began
            ):
                raise DocumentError(document.id, "this id came before in the same call: keep one of the two")
        changed = [d for d in batch if d.id not in stored or stored[d.id].digest != self._digest(d)]
        if not changed:
            return Added(unchanged=len(batch))
        replaced = [document.id for document in changed if document.id in stored]
        is_first = self._is_first_batch(vectors)

        parsed = self.parse(changed, self.extractor)
        name_vectors: dict[str, Matrix] = {}
        if self.embedder is not None:
            stored_vectors = self.engine.stored_vectors(replaced) if replaced else {}
            parsed, name_vectors = self._embed(self.embedder, parsed, stored_vectors, vectors, embeddings)
        settings: dict[str, str] = {}
        if is_first:
            settings = {
                "embedder": self.embedder.identity if self.embedder else NO_EMBEDDER,
                "dim": str((self.embedder.dim if self.embedder else 0) or 0),
                "embeds": json.dumps({"facts": self.embeds.facts, "names": self.embeds.names}),
            }
            if self.edges:
                settings[EDGES] = to_setting(self.edges)
        if any(told_facts.may_hide(document) for document in changed if told_facts.KEY in document.metadata):
            settings[told_facts.SETTING] = "yes"
        self._write(parsed, replaced, name_vectors, settings, embeddings)
        self._built_with = settings.get("embedder", self._built_with)

        failed = {p.document.id: [e.problem for e in p.extractions if e.problem] for p in parsed if not p.digest}
        problems = {document_id: "; ".join(dict.fromkeys(found)) for document_id, found in failed.items()}
        return Added(len(changed) - len(replaced), len(replaced), len(batch) - len(changed), problems)

    def _write(
        self,
        parsed: Sequence[ParsedDocument],
        replaced: Sequence[str],
        name_vectors: dict[str, Matrix],
        settings: Mapping[str, str],
        embeddings: Vectors,
    ) -> None:
        """Write a batch. Of a shared index, another process may have added or deleted the same documents meanwhile."""
        if not is_shared(self.engine):
            self.engine.write(parsed, replaced, name_vectors=name_vectors, settings=settings)
            return
        removed = [one.document.id for one in parsed]
        for attempt in range(_ATTEMPTS):
            try:
                self.engine.write(parsed, removed, name_vectors=name_vectors, settings=settings)
            except ChangedMeanwhile as error:
                if attempt == _ATTEMPTS - 1 or not error.names or self.embedder is None:
                    raise
                of_names = _embedded_names(parsed)
                matrix = self.embedder.documents(
                    list(error.names), [of_names[name] for name in error.names], embeddings
                )
                name_vectors |= dict(zip(error.names, matrix, strict=True))
            else:
                return

    def _is_first_batch(self, vectors: Vectors) -> bool:
        """Return whether the settings have to be stored; raise if the index needs an embedder and has none."""
        if self.embedder is None and vectors:
            raise InputError("vectors were passed to an index without an embedder: leave them out, or pass an embedder")
        if self.embedder is None and self._built_with not in ("", NO_EMBEDDER):
            raise InputError(
                f"the index was built with {self._built_with}: adding documents needs an embedder, open it with that "
                "one"
            )
        return not self._built_with

    def derive_edges(self, edges: Sequence[Edge]) -> None:
        """Derive the explicit edges of all documents again, for other edges.

        Documents are written as they are stored: nothing is extracted, and no passage is embedded. Of an index that
        embeds facts, those of the new edges are. A run that was interrupted is done again by the next one.
        """
        read = getattr(self.engine, "parsed", None)
        if read is None:
            raise InputError(
                f"{type(self.engine).__qualname__} cannot derive other edges: index the documents again into another "
                "folder with these edges"
            )
        if self.embedder is None and self.embeds.facts:
            raise InputError("the facts of this index are embedded: open it with its embedder to change its edges")
        ids = list(self.engine.document_ids())
        bar = tqdm(ids, "edges", unit=" documents", disable=None if self.progress is None else not self.progress)
        self.edges = tuple(edges)
        settings = {EDGES: to_setting(self.edges), UNFINISHED: "yes"}
        with bar:
            for start in range(0, len(ids), self.batch_size):
                batch = ids[start : start + self.batch_size]
                stored = {one.document.id: one for one in read(batch)}
                changed, names = [], dict[str, Matrix]()
                for one in stored.values():
                    derived, of_names = self._with_new_edges(one, names)
                    if derived.extractions != one.extractions or derived.names != one.names:
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

    def to_embed(self, documents: Iterable[Document], vectors: Collection[str] = ()) -> list[str]:
        """Return the texts that adding documents would embed, each once. Nothing is embedded or written.

        ``vectors`` are the ids of documents of which the vectors are known.
        """
        batch = validate(documents)
        if self.embedder is None:
            return []
        stored = self.engine.stored([document.id for document in batch])
        changed = [d for d in batch if d.id not in stored or stored[d.id].digest != self._digest(d)]
        stored_vectors = self.engine.stored_vectors([document.id for document in changed if document.id in stored])
        parsed = self.parse(changed, self.extractor)
        chunks, facts = embedded_texts(parsed, facts=self.embeds.facts)
        known = _known_vectors(stored_vectors, chunks)
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

    # -- the stages

    def parse(self, documents: Sequence[Document], extractor: Extractor) -> list[ParsedDocument]:
        """Chunk documents and extract from all chunks at once. Nothing is embedded."""
        chunked = [self._split(document) for document in documents]
        chunks = [chunk for pieces in chunked for chunk in pieces if told_facts.KEY not in chunk.metadata]
        prose, are_findings = chunks, any(map(is_finding, documents))
        if are_findings:
            pairs = [pair for pair in zip(documents, chunked, strict=True) if told_facts.KEY not in pair[0].metadata]
            prose = [chunk for document, pieces in pairs for chunk in without_labels(document, pieces)]
        extracted = extract(extractor, prose)
        if are_findings:
            extracted = with_findings(chunks, extracted)
        cleaned = map(_clean, extracted)
        parsed = []
        for document, pieces in zip(documents, chunked, strict=True):
            is_told = told_facts.KEY in document.metadata
            own = [_clean(told_facts.extract(pieces[0]))] if is_told else islice(cleaned, len(pieces))
            extractions, names = zip(*own, strict=True)
            # Without a digest, the document is extracted from again when it is next added.
            digest = "" if any(extraction.problem for extraction in extractions) else self._digest(document)
            metadata = _to_json(dict(document.metadata))
            parsed.append(ParsedDocument(document, metadata, digest, pieces, extractions, names))
        return [with_edges(one, self.edges) for one in parsed] if self.edges else parsed

    def _split(self, document: Document) -> Sequence[Chunk]:
        if told_facts.KEY in document.metadata:
            return [Chunk(document.id, document.id, document.text, document.title, metadata=document.metadata)]
        if self.chunker is None or self._is_kept(document):
            return [whole_document(document)]
        return self.chunker.split(document)

    def _is_kept(self, document: Document) -> bool:
        return isinstance(self.chunker, Chunker) and self.chunker.keeps_whole(document)

    def _digest(self, document: Document) -> str:
        """Return a hash of a document's content and of the settings it is parsed with."""
        identities: tuple[str, ...] = self._identities
        if told_facts.KEY in document.metadata:
            identities = ("told 1",)
        elif self._is_kept(document):  # the same as in an index that splits nothing
            identities = (_WHOLE, identities[1])
        parts = [document.text, document.title, _to_json(dict(document.metadata)), *identities]
        if is_finding(document):
            parts.append(FindingsExtractor.identity)
        if document.marks:
            parts += [f"{mark.kind} {mark.start} {mark.end} {mark.value}" for mark in document.marks]
        return fingerprint(parts)

    def _embed(
        self,
        embedder: CheckedEmbedder,
        parsed: Sequence[ParsedDocument],
        stored: Mapping[str, Mapping[str, Matrix]],
        vectors: Vectors,
        embeddings: Vectors,
    ) -> tuple[list[ParsedDocument], dict[str, Matrix]]:
        """Return the documents with vectors of their chunks and facts, and vectors of new names.

        ``stored`` are vectors that the index has of chunks and facts, by text.
        """
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
        known = _known_vectors(stored, chunks)
        owners = {text: owner for text, owner in chunks if owner not in given} | dict(facts)
        new = [text for text in owners if text not in known]
        fresh = embedder.documents(new, [owners[text] for text in new], embeddings)
        if len(new) == len(chunks) + len(facts):  # no text is repeated or known: slices do
            of_chunks, of_facts = fresh[: len(chunks)], fresh[len(chunks) :] if self.embeds.facts else None
        else:
            rows = np.concatenate([fresh, *(vector[None, :] for vector in chain(known.values(), given.values()))])
            row_of = {text: row for row, text in enumerate(chain(new, known))}
            row_of_given = {owner: row for row, owner in enumerate(given, len(row_of))}
            of_chunks = rows[[row_of_given[owner] if owner in given else row_of[text] for text, owner in chunks]]
            of_facts = rows[[row_of[text] for text, _ in facts]] if self.embeds.facts else None
        embedded, chunk, fact = [], 0, 0
        for p in parsed:
            last_chunk, last_fact = chunk + len(p.chunks), fact + sum(len(e.facts) for e in p.extractions)
            own = None if of_facts is None else of_facts[fact:last_fact]
            embedded.append(replace(p, chunk_vectors=of_chunks[chunk:last_chunk], fact_vectors=own))
            chunk, fact = last_chunk, last_fact

        if not self.embeds.names:
            return embedded, {}
        of_names = _embedded_names(parsed)
        unknown = self.engine.new_names(of_names)  # waits for the last batch
        matrix = embedder.documents(unknown, [of_names[name] for name in unknown], embeddings)
        return embedded, dict(zip(unknown, matrix, strict=True))


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


def _known_vectors(stored: Mapping[str, Mapping[str, Matrix]], chunks: Sequence[tuple[str, str]]) -> dict[str, Matrix]:
    """Return stored vectors by text. Those of facts may be rounded, so no chunk gets one."""
    texts = {text for text, _ in chunks}
    facts = {text: vector for text, vector in stored.get("facts", {}).items() if text not in texts}
    return facts | dict(stored.get("chunks", {}))


def _embedded_names(parsed: Sequence[ParsedDocument]) -> dict[str, str]:
    """Return the names that are embedded, each with a document's id: all but the addresses of sections."""
    return {name: p.document.id for p in parsed for names in p.names for name in names if not name.startswith("→")}


# -- cleaning what extractors return


def _clean(extraction: Extraction) -> tuple[Extraction, dict[str, bool]]:
    """Return an extraction that can be stored, and its names, subjects first and marked true.

    Names are stripped and cut to a length; those without a letter or digit are dropped.
    """
    mentions, facts = extraction.mentions, extraction.facts
    cleaned = {mention.name: clean_name(mention.name) for mention in mentions}
    texts = [fact.text for fact in facts]
    for mention in mentions:
        if mention.aliases or mention.type or mention.description:
            cleaned.update((alias, clean_name(alias)) for alias in mention.aliases)
            texts += mention.type, mention.description
    for fact in facts:
        for name in fact.entities:
            if name not in cleaned:
                cleaned[name] = clean_name(name)
        if fact.relation or fact.value:
            texts += fact.relation, fact.value
    names = {cleaned[mention.name]: True for mention in mentions if mention.subject}
    for name in cleaned.values():
        names.setdefault(name, False)
    names.pop("", None)
    text = "".join(texts)
    if _storable(text) is text and [*cleaned] == [*cleaned.values()]:
        return extraction, names
    mentions = tuple(
        replace(
            mention,
            name=cleaned[mention.name],
            type=_storable(mention.type),
            description=_storable(mention.description),
            aliases=tuple(cleaned[alias] for alias in mention.aliases if cleaned[alias]),
        )
        for mention in mentions
        if cleaned[mention.name]
    )
    facts = tuple(
        replace(
            fact,
            entities=tuple(cleaned[name] for name in fact.entities if cleaned[name]),
            text=_storable(fact.text),
            relation=_storable(fact.relation),
            value=_storable(fact.value),
        )
        for fact in facts
    )
    return replace(extraction, mentions=mentions, facts=facts), names


@lru_cache(maxsize=8_192)
def clean_name(name: str) -> str:
    r"""Return a name as it is stored; empty if it has no letter or digit.

    >>> clean_name("  Auth\n Service "), clean_name("--")
    ('Auth Service', '')
    """
    if name.isascii() and name.isprintable() and name[:1].isalnum() and name[-1:] != " " and "  " not in name:
        return name[:_LONGEST_NAME].rstrip()  # most names are clean
    name = " ".join(_storable(name).split())[:_LONGEST_NAME].rstrip()
    return name if normalise(name) else ""


def _storable(text: str) -> str:
    """Return a text without the characters that a database cannot store: NUL and lone surrogates."""
    if "\x00" not in text:
        if text.isascii():
            return text
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            pass
        else:
            return text
    return text.encode("utf-8", "ignore").decode("utf-8").replace("\x00", "")


# -- validation


def validate(documents: Iterable[Any]) -> list[Document]:  # noqa: C901 - one check after the other
    """Return documents with their metadata as it is stored.

    Raises
    ------
    DocumentError
        A document cannot be indexed, or an id is repeated.
    """
    ids: set[str] = set()
    checked: list[Document] = []
    for document in documents:
        if not isinstance(document, Document):
            kind = type(document).__qualname__
            raise InputError(f"add takes Document values, not {kind}: Document(id=..., text=...)")
        if not isinstance(document.id, str) or not document.id.strip():
            raise DocumentError(document.id, "the id must be a text that is not blank")
        for name, text in (("id", document.id), ("title", document.title), ("text", document.text)):
            if not isinstance(text, str):
                raise DocumentError(document.id, f"the {name} is {type(text).__qualname__}, not str: decode it first")
            _check_characters(document.id, name, text)
        if not document.text.strip():
            raise DocumentError(document.id, "the text is empty: leave the document out, or delete it from the index")
        if not isinstance(document.metadata, Mapping):
            raise DocumentError(document.id, f"the metadata is {type(document.metadata).__qualname__}, not a mapping")
        if (metadata := _stored_metadata(document)) is not document.metadata:
            document = replace(document, metadata=metadata)  # noqa: PLW2901 - as it is stored
        if (key := posing_key(document.metadata)) is not None:
            raise DocumentError(
                document.id,
                f"the metadata key {key!r} looks to a filter like a key of the mapping beside it: rename one of them",
            )
        _check_marks(document)
        told_facts.check_document(document)
        if document.id in ids:
            raise DocumentError(document.id, "this id comes twice in one call: keep one, or change the other id")
        ids.add(document.id)
        checked.append(document)
    return checked


def _check_marks(document: Document) -> None:
    for mark in document.marks:
        if not isinstance(mark, Mark):
            raise DocumentError(document.id, f"a mark is {type(mark).__qualname__}, not a Mark")
        if type(mark.start) is not int or type(mark.end) is not int:
            raise DocumentError(document.id, f"the offsets of the mark {mark!r:.80} are not integers")
        for text in (mark.kind, mark.value):
            if not isinstance(text, str):
                raise DocumentError(document.id, f"the mark {mark!r:.80} has a value that is not a text")
            _check_characters(document.id, "marks", text)


def _check_characters(document_id: str, name: str, text: str) -> None:
    if (at := text.find("\x00")) >= 0:
        raise DocumentError(document_id, f"the {name} has a NUL character at {at}: remove it, or skip binary files")
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DocumentError(
            document_id,
            f"the {name} has half a surrogate pair at {error.start}: decode the source with errors='replace'",
        ) from error


def _stored_metadata(document: Document) -> Mapping[str, Any]:
    """Return metadata as it is stored; the same object if nothing changes."""
    try:
        metadata: Mapping[str, Any] = json_value(document.metadata, "metadata")
        _check_metadata(document.id, metadata)
    except DocumentError:
        raise
    except ValueError as error:
        raise DocumentError(document.id, f"the metadata cannot be stored: {error}") from error
    except RecursionError as error:
        raise DocumentError(document.id, "the metadata contains itself, or is nested too deeply") from error
    return metadata


def _check_metadata(document_id: str, value: Any) -> None:
    """Check the characters of every key and text within metadata, and that Python can write its integers."""
    if isinstance(value, str):
        _check_characters(document_id, "metadata", value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check_characters(document_id, "metadata", key)
            _check_metadata(document_id, inner)
    elif isinstance(value, list):
        for inner in value:
            _check_metadata(document_id, inner)
    elif type(value) is int and not -(1 << 63) < value < 1 << 63:
        _to_json(value)
