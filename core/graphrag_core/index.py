"""``KnowledgeIndex``: the write side. Add, replace and delete documents; look things up by id and name."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import Self

from graphrag_core.engine.embedded import EmbeddedEngine
from graphrag_core.engine.embedded.files import Folder
from graphrag_core.errors import EmbedderMismatch, InputError, ReadOnlyIndex
from graphrag_core.extract import SentenceExtractor
from graphrag_core.filters import Where, parse
from graphrag_core.ingest.chunker import Chunker
from graphrag_core.ingest.embedding import CheckedEmbedder
from graphrag_core.ingest.pipeline import Embeds, Pipeline
from graphrag_core.model import Added, Chunk, Document, Entity, Estimate, Fact, Stats, Verification
from graphrag_core.ports import Embedder, Engine, Extractor, Keys, Snapshot
from graphrag_core.text import normalise

_CHUNKER = Chunker()


class KnowledgeIndex:
    """An index of documents: their chunks, entities and facts.

    Parameters
    ----------
    embedder
        Anything with ``embed_documents(list[str])`` and ``embed_query(str)``. An existing index
        can be opened without one, to inspect it, delete documents and search by keyword.
    chunker
        How documents are cut into chunks; None keeps every document whole.
    extractor
        How entities and facts are extracted from chunks; the default needs no model.
    embed_facts
        Whether facts are embedded as well as indexed by keyword. This improves recall by a few
        points where questions paraphrase, and costs about three times as much as embedding the
        chunks. By default on for an embedder that runs in this process (``WordLlama``,
        ``Onnx``) and off for others, which may cost money; :meth:`estimate` returns the cost.
        Fixed when the first documents are added.
    embed_names
        The same for the names of entities, by which a question that names no entity finds
        some. By default on if the cost of embedding is negligible (``WordLlama``).
    merge_similar
        Cosine similarity from which two entity names are merged into one entity, such as 0.95;
        needs ``embed_names``. Off by default.
    batch_size
        The number of documents in a transaction. A list of up to this many is added completely or not
        at all; a longer one is so batch by batch. Of an iterator, long documents make smaller batches.
    progress
        True or False to force progress bars; None shows them on a terminal.
    engine
        What stores and searches the index; by default an embedded engine in memory. Use
        :meth:`open` for one in a folder.

    An index is safe to use from many threads.
    """

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        chunker: Chunker | None = _CHUNKER,
        extractor: Extractor | None = None,
        embed_facts: bool | None = None,
        embed_names: bool | None = None,
        merge_similar: float | None = None,
        batch_size: int = 1_000,
        progress: bool | None = None,
        engine: Engine | None = None,
    ) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}: it must be at least 1")
        if engine is not None and merge_similar is not None:
            raise InputError("merge_similar is a setting of the engine: pass it to the engine")
        self.embedding = None if embedder is None else CheckedEmbedder(embedder)
        self.engine: Engine = EmbeddedEngine(merge_similar=merge_similar) if engine is None else engine
        self.path: Path | None = getattr(self.engine, "path", None)
        self.read_only = bool(getattr(self.engine, "read_only", False))
        self.batch_size = batch_size
        self._one_writer = threading.RLock()
        self.pipeline = Pipeline(
            self.engine,
            chunker=chunker,
            extractor=extractor or SentenceExtractor(),
            embedder=self.embedding,
            embeds=self._check_settings(embed_facts, embed_names),
            batch_size=batch_size,
            progress=progress,
        )

    @classmethod
    def open(
        cls,
        path: str | Path,
        embedder: Embedder | None = None,
        *,
        read_only: bool = False,
        merge_similar: float | None = None,
        **settings: Any,
    ) -> KnowledgeIndex:
        """Open the index in a folder, which is created if absent.

        Parameters
        ----------
        path
            The folder. An index whose last writer crashed is recovered.
        embedder
            The embedder that built the index.
        read_only
            One process may write while many read. A reader sees one complete generation until
            it calls :meth:`refresh`.
        merge_similar, settings
            As for the class.

        Raises
        ------
        IndexLocked
            Another process or object is writing.
        EmbedderMismatch
            The index was built with another embedder.
        NotAnIndex, UnsupportedFormat, DiskError
            The folder cannot be used.
        """
        engine = EmbeddedEngine(path, read_only=read_only, merge_similar=merge_similar)
        try:
            return cls(embedder, engine=engine, **settings)
        except BaseException:
            engine.close()
            raise

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Return whether a folder holds an index."""
        return Folder(Path(path)).records.is_file()

    # -- writing

    def add(
        self,
        documents: Iterable[Document],
        *,
        vectors: Mapping[str, Sequence[float]] | None = None,
        embeddings: Mapping[str, Sequence[float]] | None = None,
    ) -> Added:
        """Add documents; replace those whose id exists with other content.

        Unchanged documents are skipped. Any iterable will do, also one of millions of documents:
        a few batches are in memory at a time.

        Parameters
        ----------
        documents
            What to add.
        vectors
            Vectors by document id, computed by the index's embedder: such a document is not
            embedded again. It must be a single chunk, as with ``chunker=None``. Ids of other
            documents are ignored.
        embeddings
            Vectors by text, for the texts that :meth:`to_embed` returned, computed before the
            call, such as on an event loop. Missing texts are embedded by the index's embedder.

        Raises
        ------
        DocumentError
            A document cannot be indexed; nothing of its batch was added.
        EmbedderError
            The embedder failed; nothing of the batch was added.
        """
        if isinstance(documents, Document):
            raise InputError("add takes an iterable of documents: add([document])")
        if self.read_only:
            raise ReadOnlyIndex(f"{self.path} was opened with read_only=True: open it for writing to add documents")
        with self._one_writer:
            return self.pipeline.add(documents, vectors or {}, embeddings or {})

    def delete(self, document_ids: str | Iterable[str]) -> int:
        """Delete documents with their chunks and facts; return how many existed.

        All or nothing. When this returns no query finds them and the records do not contain
        their text; :meth:`compact` removes the last traces from the search indexes.
        """
        if self.read_only:
            raise ReadOnlyIndex(f"{self.path} was opened with read_only=True: open it for writing to delete documents")
        with self._one_writer:
            ids = [document_ids] if isinstance(document_ids, str) else list(document_ids)
            existing = list(self.engine.stored(ids))
            if existing:
                self.engine.write(removed=existing)
                self.engine.flush()
            return len(existing)

    def rebuild(self) -> None:
        """Build the search indexes again from the records; nothing is embedded."""
        with self._one_writer:
            self.engine.rebuild()

    def compact(self) -> None:
        """Remove all traces of deleted documents from the files and release their space."""
        with self._one_writer:
            self.engine.compact()

    def refresh(self) -> bool:
        """Let a read-only index see what was written since; return whether anything was."""
        changed = self.engine.refresh()
        if changed:
            self.pipeline.embeds = self._check_settings(None, None)
        return changed

    def close(self) -> None:
        """Save the search indexes and release locks and files. Closing twice does nothing."""
        with self._one_writer:
            self.engine.close()

    # -- documents

    def get(self, document_id: str) -> Document | None:
        """Return a document as it was added, or None."""
        return self.engine.document(document_id)

    def documents(self) -> Iterator[Document]:
        """Yield all documents in order of id, one at a time."""
        for document_id in self.engine.document_ids():
            if (document := self.engine.document(document_id)) is not None:
                yield document

    def document_ids(self, where: Where | None = None) -> list[str]:
        """Return the ids of the documents that match a filter, in order of id.

        Raises
        ------
        FilterError
            The filter is malformed, or has a key that no document has.
        """
        return list(self.engine.document_ids(None if where is None else parse(where)))

    def incomplete(self, document_ids: Iterable[str]) -> list[str]:
        """Return those ids that are not in the index, or whose extraction failed in part."""
        ids = list(document_ids)
        stored = self.engine.stored(ids)
        return [document_id for document_id in ids if document_id not in stored or not stored[document_id].digest]

    def __len__(self) -> int:
        return len(self.engine)

    def __contains__(self, document_id: object) -> bool:
        return isinstance(document_id, str) and bool(self.engine.stored([document_id]))

    def chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks, in order."""
        return self.engine.chunks_of(document_id)

    # -- entities and facts

    def entity(self, name: str) -> Entity | None:
        """Return the entity of a name, in any spelling or case, or None."""
        with self.engine.snapshot() as snapshot:
            keys = _entity_keys(snapshot, name)
            return snapshot.entities(keys)[0] if len(keys) else None

    def facts(self, name: str) -> list[Fact]:
        """Return the facts that hold an entity, in order of id."""
        with self.engine.snapshot() as snapshot:
            return sorted(snapshot.facts(snapshot.facts_of(_entity_keys(snapshot, name))), key=lambda fact: fact.id)

    def related(self, name: str) -> list[tuple[Entity, float]]:
        """Return the entities that share a fact with an entity, and the weights of the edges, strongest first."""
        with self.engine.snapshot() as snapshot:
            keys = _entity_keys(snapshot, name)
            edges = snapshot.neighbours(keys, to="entities")
            own = {entity.id for entity in snapshot.entities(keys)}
            found: dict[str, tuple[Entity, float]] = {}
            for entity, weight in zip(snapshot.entities(edges.targets), edges.weights.tolist(), strict=True):
                if entity.id not in own:  # a section and what it is about are one
                    found[entity.id] = entity, max(weight, found.get(entity.id, (entity, 0.0))[1])
            return sorted(found.values(), key=lambda pair: (-pair[1], pair[0].id))

    # -- the whole index

    def estimate(self, documents: Iterable[Document]) -> Estimate:
        """Return what adding documents would cost to embed, without embedding anything."""
        return self.pipeline.estimate(documents)

    def to_embed(self, documents: Iterable[Document]) -> list[str]:
        """Return the texts that adding documents would embed, each once. Nothing is embedded or written.

        Compute their vectors in any way and pass them to :meth:`add` as ``embeddings``. Unchanged
        documents, and chunks and facts whose vector is stored, need no embedding.
        """
        return self.pipeline.to_embed(documents)

    def stats(self) -> Stats:
        """Return the size of the index and its most frequent entities."""
        return self.engine.stats()

    def verify(self) -> Verification:
        """Compare records, vectors, keywords and graph with each other, completely."""
        return self.engine.verify()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<KnowledgeIndex {self.engine!r}>"

    # -- settings

    def _check_settings(self, facts: bool | None, names: bool | None) -> Embeds:
        """Check the settings against those stored with the index, or choose them for a new one."""
        stored, embedding, name = self.engine.settings(), self.embedding, self.path or "the index"
        built_with = stored.get("embedder", "")
        if embedding is not None:
            if built_with and built_with != embedding.identity:
                raise EmbedderMismatch(
                    f"{name} was built with {built_with}, not with {embedding.identity}: "
                    "open it with that embedder, or index the documents again into another folder"
                )
            embedding.dim = int(stored.get("dim", "0")) or None
        if not built_with:
            negligible = embedding is not None and embedding.embedded
            local = embedding is not None and embedding.local
            return Embeds(facts=local if facts is None else facts, names=negligible if names is None else names)
        embeds = Embeds(**json.loads(stored["embeds"]))
        for setting, asked, value in (("facts", facts, embeds.facts), ("names", names, embeds.names)):
            if asked is not None and asked != value:
                raise InputError(
                    f"{name} was built with embed_{setting}={value}: leave the setting out, "
                    "or index the documents again into another folder"
                )
        return embeds


def _entity_keys(snapshot: Snapshot, name: str) -> Keys:
    """Return the key of a name's entity; none if it is unknown."""
    return np.array(list(snapshot.find_entities([normalise(name)]).values()), np.int64)
