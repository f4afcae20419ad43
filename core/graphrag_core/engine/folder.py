"""``FolderEngine``: the engine of rows and arrays behind today's interfaces, ``Engine`` and ``Snapshot``.

It goes with them. :class:`~graphrag_core.engine.graph.snapshot.StoreSnapshot` answers questions from a ``Store``; this
one reads a :class:`~graphrag_core.engine.snapshot.Snapshot`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.engine import IndexEngine
from graphrag_core.engine.graph.snapshot import StoreSnapshot
from graphrag_core.engine.graph.sparse import Flags
from graphrag_core.engine.segments import FACT_BITS, PASSAGE
from graphrag_core.engine.snapshot import Snapshot, fact_bits
from graphrag_core.engine.store import OPENING, RecentRows, Store
from graphrag_core.filters import Filter
from graphrag_core.model import Chunk, Document, Entity, Fact, FileMark, Stats
from graphrag_core.ports import Keys, Kind, Matrix, ParsedDocument, Ranking, Scores, Sentences, StoredFile
from graphrag_core.text import EDGE, REFERS_TO

_TOP = 5  # entities in the statistics

EmbedTokens = Callable[[Keys, npt.NDArray[Any]], Matrix] | None


class FolderEngine(IndexEngine):
    """Stores and searches an index in a folder or in memory. See :class:`~graphrag_core.ports.Engine`."""

    embed_tokens: EmbedTokens = None

    @contextmanager
    def snapshot(self, scope: Filter | None = None) -> Iterator[Any]:
        """Open a snapshot of the newest generation, restricted to the documents that match a filter."""
        with self.opened(scope) as snapshot:
            yield FolderSnapshot(FolderStore(snapshot, self.embed_tokens))

    def mark_files(self, marks: Mapping[str, FileMark]) -> None:
        """Store the files that documents were read from, by id."""
        self.change(lambda records: records.mark_files(marks))

    def files(self) -> list[StoredFile]:
        """Return the files that documents were read from, in order of path."""
        return self.read(lambda records: records.files())  # type: ignore[no-any-return]

    def documents_of_file(self, path: str) -> dict[str, str]:
        """Return the versions of a file's documents, by id."""
        return self.read(lambda records: records.documents_of_file(path))  # type: ignore[no-any-return]

    def stored(self, document_ids: Sequence[str]) -> dict[str, str]:
        """Return the digests of the documents that exist, by id."""
        return self.read(lambda records: records.stored(document_ids))  # type: ignore[no-any-return]

    def new_names(self, names: Iterable[str]) -> list[str]:
        """Return the names that no passage mentions yet, each once."""
        return self.read(lambda records: records.new_names(names))  # type: ignore[no-any-return]

    def document(self, document_id: str) -> Document | None:
        """Return a document as it was added."""
        return self.read(lambda records: records.document(document_id))  # type: ignore[no-any-return]

    def chunks_of(self, document_id: str) -> list[Chunk]:
        """Return a document's passages, in order."""
        return self.read(lambda records: records.chunks_of(document_id))  # type: ignore[no-any-return]

    def parsed(self, document_ids: Sequence[str], *, accesses: bool = False) -> list[ParsedDocument]:
        """Return documents as they were written, with their vectors."""
        return self.read(lambda records: records.parsed(document_ids, accesses=accesses))  # type: ignore[no-any-return]

    def name_vectors(self, names: Sequence[str]) -> dict[str, Matrix]:
        """Return the stored vectors of names; names without one are left out."""
        return self.read(lambda records: records.name_vectors(names))  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return int(self.read(lambda records: records.count("documents")))

    def stats(self) -> Stats:
        """Return the size of the index and its most frequent entities."""
        with self.opened() as own:
            snapshot, records, meta = FolderSnapshot(FolderStore(own)), own.records, own.meta
            hidden = snapshot.hidden_facts()
            relations = records.relations(hidden)
            on_disk, in_memory = records.session.sizes()
            top = snapshot.entities(snapshot.top_entities(_TOP))
            return Stats(
                documents=records.count("documents"),
                chunks=records.count("passages"),
                entities=len(snapshot.top_entities(snapshot.node_limit)),
                facts=records.count("facts") - len(hidden),
                relations={name: count for name, count in relations.items() if name != REFERS_TO},
                vectors={
                    "chunks": records.count("passages", "vector IS NOT NULL"),
                    "names": records.count("name_vectors"),
                },
                dim=int(meta.get("dim", "0")),
                embedder=meta.get("embedder", ""),
                generation=snapshot.generation,
                bytes_on_disk=on_disk,
                bytes_in_memory=own.view.nbytes + in_memory,
                top_entities=tuple((entity.name, entity.mentions) for entity in top),
                links=relations.get(REFERS_TO, 0),
            )


class FolderStore(Store):
    """Reads of one generation of rows and arrays."""

    def __init__(self, snapshot: Snapshot, embed_tokens: EmbedTokens = None) -> None:
        self._snapshot, self._embed_tokens, view = snapshot, embed_tokens, snapshot.view
        self.tables = _MetadataKeys(snapshot)  # type: ignore[assignment]
        self.generation, self.numbering, self.edits = view.generation, view.numbering, snapshot.meta.get("edits", "")
        self.chunk_count, self.statistics_count = snapshot.scope.size, view.size
        self.unknown_keys = snapshot.scope.unknown_keys
        self.graph, self.accesses = snapshot.graph, snapshot.accesses
        self.linked_share, self.id_places, self.names = view.linked_share, view.id_order, snapshot.records.names
        self.fact_places = snapshot.fact_places
        self.chunk_keys, self.chunk_numbers = view["passage"].take, view["passage"].find
        self.fact_keys, self.fact_numbers = snapshot.fact_keys, snapshot.fact_numbers
        seen = snapshot.scope.seen
        self.sees = None if seen is None and not view.dead else self._sees
        self.entities = snapshot.scope.rows.setdefault("entities", RecentRows[Entity]())

    def _sees(self, keys: Keys) -> Flags:
        numbers = self._snapshot.view["passage"].find(keys)
        visible = self._snapshot.scope.visible
        seen = numbers >= 0
        if visible is not None:
            seen[seen] = visible[numbers[seen]]
        return seen

    def has(self, kind: Kind, *, vectors: bool = False) -> bool:
        view = self._snapshot.view
        if vectors:
            if kind == "entities":
                return self._snapshot.has_name_vectors()
            has_any = view.vectors.dim > 0 and view.size > 0
            return has_any and (kind == "chunks" or self._embed_tokens is not None)
        if self.chunk_count == 0:
            return False
        if kind == "entities":
            return bool(view.derived("has_entities", lambda: bool(view.exists.any())))
        facts = view["fact_passage"]
        return kind == "chunks" or (len(facts) > 0 and (view.dead == 0 or bool(view.alive[facts.all()].any())))

    def nearest(self, kind: str, vectors: Matrix, k: int) -> list[Ranking]:
        return self._snapshot.nearest_names(vectors, k) if kind == "names" else self._snapshot.nearest(vectors, k)

    def keywords(self, kind: str, text: str, k: int) -> Ranking:
        if kind == "facts":  # they are compared in the first passages
            return np.empty(0, np.int64), np.empty(0, np.float32)
        return self._snapshot.keywords(text, k)

    def term_counts(self, terms: Sequence[str]) -> Keys:
        return self._snapshot.counts(terms)

    def similarities(self, kind: str, keys: Keys, vector: Matrix) -> Scores:
        if kind == "facts":
            return self._of_facts(keys, vector)
        return self._snapshot.cosines(keys, vector)

    def _of_facts(self, facts: Keys, vector: Matrix) -> Scores:
        """Return the cosines of facts, whose vectors are made of their tokens."""
        if self._embed_tokens is None or len(facts) == 0:
            return np.zeros(len(facts), np.float32)
        scores: Scores = np.vecdot(self._embed_tokens(*self._snapshot.fact_tokens(facts)), vector)
        return scores

    def fact_columns(self, facts: Keys) -> tuple[Scores, Keys]:
        view = self._snapshot.view
        return view["fact_weight"].take(facts), view["fact_statement"].take(facts)

    def facts_of_chunks(self, chunks: Keys) -> tuple[Keys, Keys, Keys]:
        return self._snapshot.facts_of(chunks)

    def texts(self, chunks: Keys, length: int | None = None) -> list[str]:
        return [chunk.text[:length] for chunk in self.chunks(chunks)]

    def openings(self, chunks: Keys) -> list[str]:
        return self.texts(chunks, OPENING)

    def documents_of(self, chunks: Keys) -> Keys:
        return self._snapshot.view["passage_document"].take(chunks).astype(np.int64)

    def chunks(self, chunks: Keys) -> list[Chunk]:
        return self._snapshot.chunks(chunks)

    def facts(self, facts: Keys) -> list[tuple[list[int], Fact]]:
        return self._snapshot.facts(facts)

    def with_relations(self, facts: Keys, relations: Sequence[str]) -> Keys:
        keys = self.fact_keys(facts)
        return facts[np.isin(keys, self._snapshot.records.with_relations(keys, relations))]

    def outgoing(self, facts: Keys, names: Keys) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        snapshot, pending, subjects = self._snapshot, self.accesses.pending, set(names.tolist())
        both_ways = set(snapshot.records.keys_of_name(EDGE)) if self.graph.has_edges else set()
        rows = [
            (key, confidence, pending[key][1] if key in pending else last)
            for key, relation, ends, confidence, last in snapshot.records.ends(self.fact_keys(facts))
            if relation is None or (ends and (ends[0] in subjects or ends[-1] in both_ways))
        ]
        keys, confidences, times = [*zip(*rows, strict=True)] or ((), (), ())
        numbers = snapshot.fact_numbers(np.array(keys, np.int64))
        return numbers, np.array(confidences, np.float32), np.array(times, np.float64)

    def name_terms(self, names: Keys) -> tuple[Keys, npt.NDArray[np.uint32]]:
        view = self._snapshot.view
        counts, terms = view.forward["name_term"].gather(view["name"].find(names))
        return counts, terms.astype(np.uint32)

    def claims(self, names: Sequence[int]) -> list[tuple[int, str, str]]:
        rows = self._in_scope([*self._snapshot.records.claims(names)])
        return [(row[1], row[2], row[3]) for row in rows]

    def digits(self, name_ids: Keys) -> Keys:
        return self._snapshot.records.numbers_among(name_ids)

    def names_like(self, start: str, inside: str) -> Keys:
        return self._snapshot.records.names_like(start, inside)

    def find_chunks(self, ids: Sequence[str]) -> dict[str, int]:
        return self._snapshot.find(ids)


class FolderSnapshot(StoreSnapshot):
    """A snapshot whose terms by sentence are masks in arrays."""

    _store: FolderStore

    def terms_in(self, kind: Kind, keys: Keys, terms: Sequence[str]) -> Flags:
        if kind == "entities" or len(keys) == 0:
            return super().terms_in(kind, keys, terms)
        found: Flags = self._store._snapshot.sentences(keys, terms) & PASSAGE > 0  # noqa: SLF001 - of this module
        return found

    def sentences(self, chunks: Keys, terms: Sequence[str]) -> Sentences:
        counts, facts, numbers = self._store.facts_of_chunks(chunks)
        owners = np.arange(len(chunks)).repeat(counts)
        if self._edited is not None:
            seen = ~self._edited.hidden(facts)
            facts, numbers, owners = facts[seen], numbers[seen], owners[seen]
        masks = self._store._snapshot.sentences(chunks, terms)  # noqa: SLF001 - of this module
        of_facts = masks[owners] >> fact_bits(numbers)[:, None] & 1
        return Sentences(masks & PASSAGE > 0, facts, owners, of_facts.astype(np.bool_))

    def id_order(self, kind: Kind, keys: Keys) -> Keys:
        if kind == "chunks":
            return self._store.id_places(keys)
        chunks, numbers = self._store.fact_places(keys)
        _, places = np.unique(self._store.id_places(chunks), return_inverse=True)
        return places << FACT_BITS | numbers

    def tokens(self, chunks: Keys) -> tuple[Keys, npt.NDArray[np.uint16]]:
        return self._store._snapshot.tokens(chunks)  # noqa: SLF001 - of this module


class _MetadataKeys:
    """What a snapshot reads of ``Tables``."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.metadata_keys: Callable[[], list[str]] = snapshot.records.metadata_keys
