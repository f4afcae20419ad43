"""``KnowledgeIndex``: one transaction over the records and the three search structures."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from typing_extensions import Self

from graphrag_core.derived import Derived, Engines
from graphrag_core.embedding import Embedding
from graphrag_core.entities import find_entity, read_entities, top_entities
from graphrag_core.errors import DocumentError, EmbedderMismatch, IndexClosed, InputError, NotAnIndex, ReadOnlyIndex
from graphrag_core.folder import Folder
from graphrag_core.guard import Guard
from graphrag_core.ingest.chunk import Chunker
from graphrag_core.ingest.extract import SentenceExtractor
from graphrag_core.intake import Intake, check
from graphrag_core.model import Chunk, Document, Entity, Fact
from graphrag_core.ports import Embedder, Extractor, Keys
from graphrag_core.progress import Progress
from graphrag_core.report import Added, Estimate, Stats, Verification
from graphrag_core.stores.change import unpack
from graphrag_core.stores.records import Records
from graphrag_core.stores.writer import write

_CHUNKER = Chunker()
_ENGINES = Engines()
_DEFERRED = 10  # batches that only add may wait this long before they can be searched


class KnowledgeIndex:
    """Documents, indexed: add, replace, delete, and search what they say and mention.

    Parameters
    ----------
    embedder
        Anything with ``embed_documents(list[str])`` and ``embed_query(str)``. An index that
        exists can be opened without one, to look, delete and search by keyword.
    chunker
        How documents are cut; None keeps every document whole.
    extractor
        How chunks are read; the default needs no model.
    embed_facts
        Whether facts are embedded as well as found by keyword, which is worth a few points
        where questions paraphrase and costs about three times the embedding of the chunks.
        By default on for an embedder that runs in this process for next to nothing, off for
        others; :meth:`estimate` shows the cost. Fixed when the index is made.
    embed_names
        The same for the names of entities, by which a question that names none finds some.
    merge_similar
        Cosine from which two entity names are taken for one entity, such as 0.95; needs
        ``embed_names``. Off by default.
    batch_size
        How many documents are written at once. A call of up to this many is all or nothing;
        a longer one is so batch by batch.
    progress
        True or False to force progress bars; None shows them on a terminal only.
    engines
        What the search structures are made with.

    Made directly, an index lives in memory; :meth:`open` keeps it in a folder. It is safe to
    use from many threads.

    Examples
    --------
    >>> from graphrag_core.testing import HashEmbedder
    >>> index = KnowledgeIndex(HashEmbedder())
    >>> index.add([Document("auth", "The Auth Service delegates to the OAuth Provider.")]).added
    1
    >>> index.entity("auth service").name
    'Auth Service'
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
        engines: Engines = _ENGINES,
        _folder: Folder | None = None,
        _read_only: bool = False,
    ) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}: take at least 1")
        self.path = _folder.path if _folder else None
        self.read_only = _read_only
        self.batch_size = batch_size
        self.merge_similar = merge_similar
        self._progress = progress
        self._engines = engines
        self._folder = _folder
        self._guard = Guard()
        self._one_writer = threading.RLock()
        self._closed = False
        self._lock = _folder.lock() if _folder and not _read_only else None
        try:
            self._records = Records(_folder.records if _folder else None, read_only=_read_only)
            self.embedding = None if embedder is None else Embedding(embedder)
            embed_facts, embed_names = self._settle(embed_facts, embed_names)
            self._intake = Intake(chunker, extractor or SentenceExtractor(), self.embedding, embed_facts, embed_names)
            self._derived = self._derive()
        except BaseException:
            if self._lock:
                self._lock.release()
            raise

    @classmethod
    def open(
        cls, path: str | Path, embedder: Embedder | None = None, *, read_only: bool = False, **settings: Any
    ) -> KnowledgeIndex:
        """Open the index in a folder, which is made if absent.

        Parameters
        ----------
        path
            The folder. Its index is brought up to date with its records if a process died
            in the middle of writing.
        embedder
            The embedder that built the index.
        read_only
            One process may write while many read. A reader sees one generation, whole,
            until it calls :meth:`refresh`.
        settings
            As for the class.

        Raises
        ------
        IndexLocked
            Another process, or object, is writing.
        EmbedderMismatch
            The index was built with another embedder.
        NotAnIndex, UnsupportedFormat, DiskError
            The folder cannot be used.
        """
        folder = Folder(Path(path))
        if not read_only:
            folder.create()
        elif not folder.records.is_file():
            raise NotAnIndex(f"{path} holds no index to read: open it for writing once, or mend the path")
        return cls(embedder, _folder=folder, _read_only=read_only, **settings)

    # -- writing

    def add(self, documents: Iterable[Document]) -> Added:
        """Add documents; replace those whose id is there with other content.

        A document that is there unchanged costs nothing. Any iterable does, also one of
        millions: memory holds a batch at a time.

        Raises
        ------
        DocumentError
            A document cannot be indexed; nothing of its batch was.
        EmbedderError
            The embedder failed; nothing of the batch was indexed.
        """
        if isinstance(documents, Document):
            raise InputError("add takes an iterable of documents: add([document])")
        with self._one_writer:
            return self._add(documents)

    def _add(self, documents: Iterable[Document]) -> Added:
        self._check_writable()
        done, waiting = Added(), 0
        began = self._records.generation
        total = len(documents) if isinstance(documents, Sequence) else None
        source = iter(documents)
        try:
            with Progress("indexing", "documents", total, self._progress) as bar:
                while batch := list(islice(source, self.batch_size)):
                    done += self._add_batch(batch, began)
                    waiting = (waiting + 1) % _DEFERRED
                    if waiting == 0:
                        self._publish()
                    bar.advance(len(batch))
        finally:  # whole batches stay, whatever stopped the rest
            self._publish()
        self._derived.save_if_worthwhile()
        return done

    def delete(self, document_ids: str | Iterable[str]) -> int:
        """Delete documents with everything that was read in them; return how many were there.

        All or nothing. When this returns no query finds any of it, and the records hold
        none of its text; :meth:`compact` clears the last traces from the search files too.
        """
        with self._one_writer:
            return self._delete(document_ids)

    def _delete(self, document_ids: str | Iterable[str]) -> int:
        self._check_writable()
        ids = [document_ids] if isinstance(document_ids, str) else list(document_ids)
        keys = [key for key, _, _ in self._records.known(ids).values()]
        if keys:
            with self._guard.writing():
                write(self._records, gone=keys)
                self._publish()
            self._records.truncate_log()
        return len(keys)

    def rebuild(self) -> None:
        """Make the search structures anew from the records; nothing is embedded again."""
        self._check_writable()
        with self._one_writer, self._guard.writing():
            self._derived.rebuild()
            self._derived.save()

    def compact(self) -> None:
        """Clear every trace of deleted documents from the files, and give back their space."""
        self._check_writable()
        with self._one_writer, self._guard.writing():
            self._derived.clear_ghosts(all_of_them=True)
            self._derived.save()
            self._records.rows("VACUUM")
            self._records.truncate_log()

    def refresh(self) -> bool:
        """Let a reader see what was written since; return whether anything was."""
        self._check_open()
        before = self._derived.generation
        with self._guard.writing():
            self._records.refresh()
            if int(self._records.meta("dim", "0")) != self._derived.dim:
                self._derived = self._derive()
            self._derived.catch_up()
        return self._derived.generation != before

    # -- reading

    def get(self, document_id: str) -> Document | None:
        """Return a document as it was added, or None."""
        self._check_open()
        return self._records.document(document_id)

    def documents(self) -> Iterator[Document]:
        """Yield all documents in order of id, one at a time."""
        self._check_open()
        for document_id in self._records.document_ids():
            if (document := self._records.document(document_id)) is not None:
                yield document

    def __len__(self) -> int:
        self._check_open()
        return int(self._records.value("SELECT count(*) FROM documents"))

    def __contains__(self, document_id: object) -> bool:
        self._check_open()
        return isinstance(document_id, str) and bool(self._records.known([document_id]))

    def chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's passages, in order."""
        self._check_open()
        return self._records.chunks_of(document_id)

    def entity(self, name: str) -> Entity | None:
        """Return the entity of a name, in any spelling or case, or None."""
        with self.reading() as derived:
            view = derived.view
            position = find_entity(view, self._records, name)
            return None if position is None else read_entities(view, self._records, [position])[0]

    def facts(self, name: str) -> list[Fact]:
        """Return the facts that hold an entity, in the order of their ids."""
        with self.reading() as derived:
            view = derived.view
            position = find_entity(view, self._records, name)
            rows = [] if position is None else view.incidence.tocsc()[:, [position]].nonzero()[0]
            return sorted(self._records.facts(view.fact_keys[rows]), key=lambda fact: fact.id)

    def related(self, name: str) -> list[tuple[Entity, float]]:
        """Return the entities that share a fact with an entity, with the edges' weights, strongest first."""
        with self.reading() as derived:
            view = derived.view
            position = find_entity(view, self._records, name)
            if position is None:
                return []
            row = view.links[[position]]
            entities = read_entities(view, self._records, row.indices.tolist())
            pairs = zip(entities, row.data.tolist(), strict=True)
            return sorted(pairs, key=lambda pair: (-pair[1], pair[0].id))

    def estimate(self, documents: Iterable[Document]) -> Estimate:
        """Return what adding documents would cost to embed, without embedding anything."""
        return self._intake.estimate(documents)

    def stats(self) -> Stats:
        """Return how large the index is and what it speaks of most."""
        with self.reading() as derived:
            view = derived.view
            count = {t: int(self._records.value(f"SELECT count(*) FROM {t}")) for t in ("documents", "chunks", "facts")}
            relations = self._records.rows(
                "SELECT relation, count(*) FROM facts WHERE relation IS NOT NULL GROUP BY relation ORDER BY 2 DESC, 1"
            )
            pages = self._records.value("PRAGMA page_count") * self._records.value("PRAGMA page_size")
            return Stats(
                documents=count["documents"],
                chunks=count["chunks"],
                entities=len(view.entity_ids),
                facts=count["facts"],
                relations=dict(relations),
                vectors={kind: len(store.keys) for kind, store in derived.vectors.items()},
                dim=derived.dim if self._records.meta("dim") else 0,
                embedder=self._records.meta("embedder"),
                generation=derived.generation,
                bytes_on_disk=self._folder.size() if self._folder else 0,
                bytes_in_memory=derived.nbytes + (0 if self._folder else pages),
                top_entities=tuple((e.name, e.mentions) for e in top_entities(view, self._records, 5)),
            )

    def verify(self) -> Verification:
        """Compare records, vectors, keywords and graph with each other, completely."""
        with self.reading() as derived:
            problems = [f"records: {row[0]}" for row in self._records.rows("PRAGMA integrity_check") if row[0] != "ok"]
            problems += [
                f"records: {row[0]} refers to nothing" for row in self._records.rows("PRAGMA foreign_key_check")
            ]
            problems += _miscounted(self._records)
            if derived.generation != self._records.generation:
                problems.append(f"generation {derived.generation} is searched, {self._records.generation} recorded")
            problems.extend(derived.problems())
            return Verification(tuple(problems))

    @contextmanager
    def reading(self) -> Iterator[Derived]:
        """Hold one generation of everything while a query runs; writers wait."""
        self._check_open()
        with self._guard.reading():
            self._check_open()
            yield self._derived

    def scope(self, where: Mapping[str, Any] | None) -> Keys | None:
        """Return the keys of the chunks that a filter lets a query see; None for no filter."""
        self._check_open()
        return None if where is None else self._records.in_scope(where)

    @property
    def records(self) -> Records:
        """The records, for queries."""
        return self._records

    def close(self) -> None:
        """Save the search structures and give back locks and files. Closing twice does nothing."""
        if self._closed:
            return
        with self._guard.writing():
            if not self.read_only:
                self._derived.save()
            self._closed = True
            self._derived.close()
            self._records.close()
            if self._lock:
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else str(self.path)
        return f"<KnowledgeIndex {where}{', closed' if self._closed else ''}>"

    # -- inside

    def _add_batch(self, batch: list[Document], began: int) -> Added:
        ids = set()
        for document in batch:
            check(document)
            if document.id in ids:
                raise DocumentError(
                    document.id, "this id comes twice in one call: keep one, or give them ids of their own"
                )
            ids.add(document.id)
        known = self._records.known(sorted(ids))
        for document_id, (_, _, generation) in known.items():
            if generation > began:
                raise DocumentError(document_id, "this id came before in the same call: keep one of the two")
        changed = [d for d in batch if known.get(d.id, (0, "", 0))[1] != self._intake.digest(d)]
        replaced = [known[d.id][0] for d in changed if d.id in known]
        if changed:
            read = self._intake.read(changed)
            kept = self._records.vectors_by_text(replaced, self._derived.dim) if replaced else {}
            entries = self._intake.embed(read, kept)
            names = self._intake.name_vectors(read, self._records)
            with self._guard.writing():
                self._remember_settings()
                write(self._records, entries, replaced, names)
                if replaced:
                    self._publish()
        problems = {r.document.id: r.problem for r in read if r.problem} if changed else {}
        return Added(len(changed) - len(replaced), len(replaced), len(batch) - len(changed), problems)

    def _publish(self) -> None:
        """Let queries see what was written."""
        with self._guard.writing():
            self._derived.catch_up()
            self._derived.clear_ghosts()

    def _derive(self) -> Derived:
        dim = int(self._records.meta("dim", "0")) or 1
        derived = Derived(self._records, self._folder, dim, self._engines, self.merge_similar)
        if self._folder and not self.read_only:
            self._folder.tidy()
        derived.load()
        derived.catch_up()
        return derived

    def _remember_settings(self) -> None:
        """Note at the first writing what every later one must agree with."""
        if self._records.meta("dim") or self.embedding is None:
            return
        embeds = json.dumps({"facts": self._intake.embed_facts, "names": self._intake.embed_names})
        self._records.set_meta(embedder=self.embedding.identity, dim=str(self.embedding.dim), embeds=embeds)
        self._derived.close()
        self._derived = self._derive()

    def _settle(self, embed_facts: bool | None, embed_names: bool | None) -> tuple[bool, bool]:
        """Compare with how the index was made, or choose how it will be."""
        made_with = self._records.meta("embedder")
        if self.embedding is not None:
            if made_with and made_with != self.embedding.identity:
                raise EmbedderMismatch(
                    f"{self.path} was built with {made_with}, not with {self.embedding.identity}: "
                    "open it with that embedder, or index the documents anew into another folder"
                )
            self.embedding.dim = int(self._records.meta("dim", "0")) or None
        if made_with:
            made: dict[str, bool] = json.loads(self._records.meta("embeds"))
            for name, asked in (("facts", embed_facts), ("names", embed_names)):
                if asked is not None and asked != made[name]:
                    raise InputError(
                        f"{self.path} was made with embed_{name}={made[name]}: leave the setting out, "
                        "or index the documents anew into another folder"
                    )
            return made["facts"], made["names"]
        cheap = self.embedding is not None and self.embedding.embedded
        return cheap if embed_facts is None else embed_facts, cheap if embed_names is None else embed_names

    def _check_open(self) -> None:
        if self._closed:
            raise IndexClosed(f"{self!r}: open it again with KnowledgeIndex.open")

    def _check_writable(self) -> None:
        self._check_open()
        if self.read_only:
            raise ReadOnlyIndex(f"{self.path} was opened with read_only=True: open it for writing to change it")


def _miscounted(records: Records) -> list[str]:
    """Return names whose count of chunks is wrong, and chunks that name nothing known."""
    counted: Counter[int] = Counter()
    for _, names in records.pages("SELECT key, names FROM chunks", "key", records.everything().chunks):
        counted.update(unpack(names).tolist())
    kept = dict(records.rows("SELECT key, uses FROM names"))
    wrong = [key for key in counted.keys() | kept.keys() if counted[key] != kept.get(key, 0)]
    return [f"records: {len(wrong)} names are counted wrongly, such as key {min(wrong)}"] if wrong else []
