"""``View``: one generation of an index as arrays. It never changes; :meth:`View.after` returns the next one.

Passages, facts, names and entities are numbered in the order of their keys; entities in the order in which names came
that mean them. Deleted passages keep their numbers until the base is replaced, and are masked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.arrays import (
    Array,
    Arrays,
    BaseWriter,
    Column,
    Counters,
    Flags,
    Forward,
    Inverse,
    Numbers,
    Part,
)
from graphrag_core.engine.counters import (
    AGAIN,
    COUNTERS,
    EDGE_ID,
    IN_TITLE,
    NAME_BITS,
    PASSAGE_BITS,
    SUBJECT,
    exist,
    usage,
)
from graphrag_core.engine.postings import Postings
from graphrag_core.engine.rows import FIELDS
from graphrag_core.engine.segments import Segment
from graphrag_core.engine.vectors import Vectors
from graphrag_core.key_sets import distinct, ranges
from graphrag_core.ports import Keys, Matrix

_COLUMNS: dict[str, npt.DTypeLike] = {
    "passage": np.int64, "passage_document": np.int32,
    "fact_passage": np.int32, "fact_weight": np.float32, "fact_triple": np.bool_, "fact_statement": np.uint32,
    "name": np.int32, "name_entity": np.int32, "entity": np.int64, "entity_address": np.bool_,
}  # fmt: skip
_FORWARD: dict[str, tuple[npt.DTypeLike, ...]] = {
    "id": (np.uint8,), "mention": (np.int32,), "fact": (), "fact_entity": (np.int32,), "name_term": (np.uint32,),
    "term": (np.uint32, np.uint32), "token": (np.uint16,), "part": (np.uint16,),
}  # fmt: skip
_INVERSE: dict[str, tuple[npt.DTypeLike | None, tuple[npt.DTypeLike, ...]]] = {
    "entity_passages": (None, (np.int32,)), "entity_facts": (None, (np.int32,)), "entity_names": (None, (np.int32,)),
    "alias_names": (np.int64, (np.int32,)),
    "postings": (np.int64, (np.int32, np.uint8)),
}  # fmt: skip


class Removal(NamedTuple):
    """The keys of passages of whole documents that were deleted, and the tokens of their fields."""

    passages: Keys
    lengths: Numbers


class Stored(NamedTuple):
    """A change as it was stored. ``previous`` is the token of the one before."""

    generation: int
    previous: str
    segment: Segment | None
    removal: Removal


class SegmentRow(NamedTuple):
    """A change that another process made."""

    generation: int
    previous: str
    token: str
    segment: Segment | None
    removal: Removal


class View:
    """One generation of an index.

    Attributes
    ----------
    generation, token
        The number of changes it has, and a random text that differs if another process made other changes.
    columns, forward, inverse
        The tables, by name.
    alive, size, dead
        Which passages were not deleted, how many these are, and how many were deleted.
    exists
        Which entities exist for a question without a scope.
    counters, uses
        How documents use each entity; how many passages write each name.
    totals
        The tokens of all passages, by field.
    numbering
        The same object in views in which passages, facts and entities have the same numbers: those of one base.
    """

    generation: int
    token: str
    columns: dict[str, Column]
    forward: dict[str, Forward]
    inverse: dict[str, Inverse]
    vectors: Vectors
    size: int
    dead: int

    def __init__(self, meta: dict[str, Any], arrays: Arrays) -> None:
        self.generation, self.token = int(meta["generation"]), str(meta["token"])
        self.columns = {name: Column(arrays[name]) for name in _COLUMNS}
        self.columns["passage_length"] = Column(arrays["passage_length"])
        self.forward = {name: Forward.opened(arrays, name, len(types)) for name, types in _FORWARD.items()}
        self.inverse = {name: Inverse.opened(arrays, name, len(types)) for name, (_, types) in _INVERSE.items()}
        self.counters, self.uses = Counters.opened(arrays, "counters"), Counters.opened(arrays, "uses")
        self.vectors = Vectors.opened(arrays)
        self.totals = np.array(meta["totals"], np.int64)
        self._ranks, self._by_rank = arrays["id_ranks"], arrays["id_order"]
        self._gaps: dict[int, int] = {}  # ids of the base before a newer one, by the number of its passage
        self.size, self.dead = len(self.columns["passage"]), 0
        self._alive = _flags(np.ones(self.size, np.bool_))
        self._exists = _flags(exist(self.counters.sums, arrays["entity_address"]))
        self._newer: Numbers = np.empty(0, np.int64)  # entities that the base lacks, in the order of their ids
        self._derived: dict[str, Any] = {}
        self.numbering = object()

    @classmethod
    def empty(cls) -> View:
        """Return the view of a new index."""
        arrays: dict[str, Array] = {name: np.empty(0, dtype) for name, dtype in _COLUMNS.items()}
        arrays["passage_length"] = np.empty((0, len(FIELDS)), np.uint8)
        for name, types in _FORWARD.items():
            arrays[f"{name}.starts"] = np.zeros(1, np.int64)
            arrays |= {f"{name}.{number}": np.empty(0, dtype) for number, dtype in enumerate(types)}
        for name, (keys, values) in _INVERSE.items():
            part = Part.none(keys, *values)
            arrays[f"{name}.starts"] = part.starts
            arrays |= {f"{name}.{number}": own for number, own in enumerate(part.values)}
            if part.keys is not None:
                arrays[f"{name}.keys"] = part.keys
        arrays["counters.sums"] = np.empty((0, len(COUNTERS)), np.int32)
        arrays["uses.sums"] = np.empty(0, np.int32)
        arrays["id_ranks"] = arrays["id_order"] = np.empty(0, np.int32)
        return cls({"generation": 0, "token": "", "totals": [0] * len(FIELDS)}, arrays)

    def __getitem__(self, column: str) -> Column:
        return self.columns[column]

    @property
    def alive(self) -> Flags:
        return self._alive.tail

    @property
    def exists(self) -> Flags:
        return self._exists.tail

    @property
    def base_size(self) -> int:
        """The number of passages in the base."""
        return len(self._ranks)

    @property
    def changed(self) -> int:
        """The number of passages that came since the base was written, or went."""
        return len(self.columns["passage"]) - self.base_size + self.dead

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without what is mapped."""
        parts = (self.columns, self.forward, self.inverse)
        every = [*(own for part in parts for own in part.values()), self.counters, self.uses, self.vectors]
        return sum(own.nbytes for own in every) + self._alive.nbytes + self._exists.nbytes

    # -- changes

    def after(
        self, generation: int, token: str, segment: Segment | None, vectors: Matrix | None, removal: Removal
    ) -> View:
        """Return the view after a change: passages that come, and passages that go. The newest view may be changed."""
        new = object.__new__(View)
        new.__dict__.update(self.__dict__)
        new.generation, new.token, new._derived = generation, token, {}
        new.columns, new.forward, new.inverse = {**self.columns}, {**self.forward}, {**self.inverse}
        touched = [np.empty(0, np.int64)]
        if segment is not None and len(segment["passage"]) + len(segment["name"]):
            touched.append(new._add(segment, vectors))
        if len(removal.passages):
            touched.append(new._remove(removal))
        new._update_existence(distinct(*touched))
        return new

    def _append(self, **values: Array) -> None:
        for name, own in values.items():
            self.columns[name] = self.columns[name].appended(own)

    def _add(self, segment: Segment, vectors: Matrix | None) -> Numbers:
        """Add a segment; return the entities that it touches."""
        first, count = len(self.columns["passage"]), len(segment["passage"])
        first_fact, first_name = len(self.columns["fact_passage"]), len(self.columns["name"])
        self._add_names(segment, first_name)
        self.vectors = self.vectors.appended(vectors, first, count)
        facts = segment["fact_count"]
        self._append(
            **{name: segment[name] for name in ("passage", "passage_document", "passage_length")},
            **{name: segment[name] for name in ("fact_weight", "fact_triple", "fact_statement")},
            fact_passage=np.arange(first, first + count, dtype=np.int32).repeat(facts),
        )
        for name, lengths, columns in (
            ("id", "id_count", ("id",)), ("fact", "fact_count", ()), ("term", "term_count", ("term", "term_sentences")),
            ("token", "token_count", ("token",)), ("part", "part_count", ("part",)),
        ):  # fmt: skip
            self.forward[name] = self.forward[name].appended(segment[lengths], *(segment[own] for own in columns))
        self._alive = self._alive.appended(np.ones(count, np.bool_))
        self.size += count
        postings = Part(
            segment["posting"],
            segment["posting_start"],
            (segment["posting_passage"] + np.int32(first), segment["posting_number"]),
        )
        self.inverse["postings"] = self.inverse["postings"].appended(postings)
        self.totals = self.totals + segment["lengths"]
        entities = self._add_mentions(segment, first)
        self._add_facts(segment, first_fact)
        self._count(1, np.arange(first, first + count))
        return entities

    def _add_names(self, segment: Segment, first: int) -> None:
        ids = segment["name_entity"]
        own, place = np.unique(ids, return_inverse=True)
        known = self.entities_of(own)
        # New entities in the order in which their names came.
        unknown = np.flatnonzero(known < 0)
        earliest = np.full(len(own), len(ids), np.int64)
        np.minimum.at(earliest, place, np.arange(len(ids)))
        unknown = unknown[np.argsort(earliest[unknown])]
        size = len(self.columns["entity"])
        known[unknown] = size + np.arange(len(unknown))
        entities = known[place].astype(np.int32)
        self._append(
            entity=own[unknown], entity_address=segment["name_address"][earliest[unknown]], name=segment["name"],
            name_entity=entities,
        )  # fmt: skip
        self._exists = self._exists.appended(np.zeros(len(unknown), np.bool_))
        added = np.sort(own[unknown])
        place = self.columns["entity"].take(self._newer).searchsorted(added)
        self._newer = np.insert(self._newer, place, size + np.argsort(own[unknown], kind="stable"))
        names = np.arange(first, first + len(ids), dtype=np.int32)
        is_alias = segment["name_spelling"] != ids
        for table, part in (
            ("entity_names", Part.of(entities, names)),
            ("alias_names", Part.of(segment["name_spelling"][is_alias], names[is_alias])),
        ):
            self.inverse[table] = self.inverse[table].appended(part)
        self.forward["name_term"] = self.forward["name_term"].appended(segment["name_term_count"], segment["name_term"])

    def _add_mentions(self, segment: Segment, first: int) -> Numbers:
        """Add the mentions of a segment; return the entities."""
        names = self.columns["name"].find(segment["mention"])
        flags = segment["mention_flags"]
        codes = (names << NAME_BITS | flags).astype(np.int32)
        self.forward["mention"] = self.forward["mention"].appended(segment["mention_count"], codes)
        self.uses = self.uses.added(names, np.ones(len(names), np.int32))
        once = flags & AGAIN == 0
        entities = self.columns["name_entity"].take(names)[once]
        passages = np.arange(first, first + len(segment["passage"]), dtype=np.int32).repeat(segment["mention_count"])
        codes = passages[once] << PASSAGE_BITS | (flags[once] & (SUBJECT | IN_TITLE))
        self.inverse["entity_passages"] = self.inverse["entity_passages"].appended(Part.of(entities, codes))
        return np.asarray(entities, np.int64)

    def _add_facts(self, segment: Segment, first: int) -> None:
        counts = segment["fact_entity_count"]
        entities = self.columns["name_entity"].take(self.columns["name"].find(segment["fact_entity"]))
        self.forward["fact_entity"] = self.forward["fact_entity"].appended(counts, entities)
        facts = np.arange(first, first + len(counts), dtype=np.int32).repeat(counts)
        self.inverse["entity_facts"] = self.inverse["entity_facts"].appended(Part.of(entities, facts))

    def _remove(self, removal: Removal) -> Numbers:
        """Remove passages; return the entities that they mention."""
        gone = self.columns["passage"].find(np.sort(removal.passages))
        gone = gone[gone >= 0]
        entities = self._count(-1, gone)
        _, codes = self.forward["mention"].gather(gone)
        names = (codes >> NAME_BITS).astype(np.int64)
        self.uses = self.uses.added(names, np.full(len(names), -1, np.int32))
        alive = self.alive.copy()
        alive[gone] = False
        self._alive = _flags(alive)
        self.dead += len(gone)
        self.size -= len(gone)
        self.totals = self.totals - removal.lengths
        return entities

    def _count(self, sign: int, passages: Numbers) -> Numbers:
        """Add what passages of whole documents say of entities to the counters, or subtract it. Return the entities."""
        counts, codes = self.forward["mention"].gather(passages)
        once = codes & AGAIN == 0
        owners = passages.repeat(counts)[once]
        entities = self.columns["name_entity"].take(codes[once] >> NAME_BITS).astype(np.int64)
        starts, sizes = self.forward["fact"].locate(passages)
        facts = ranges(starts, sizes)
        facts = facts[self.columns["fact_triple"].take(facts)]
        held = self.forward["fact_entity"].gather(facts)[1].astype(np.int64)
        documents = self.columns["passage_document"].take(owners).astype(np.int64)
        addresses = self.columns["entity_address"].take(entities)
        found, changes = usage(documents, owners, entities, codes[once], addresses, held)
        self.counters = self.counters.added(found, (sign * changes).astype(np.int32))
        return found

    def _update_existence(self, entities: Numbers) -> None:
        if len(entities) == 0:
            return
        flags = exist(self.counters.take(entities), self.columns["entity_address"].take(entities))
        if (self.exists[entities] != flags).any():
            exists = self.exists.copy()  # a view that was published before keeps its flags
            exists[entities] = flags
            self._exists = _flags(exists)

    # -- the base

    def write(self, base: BaseWriter, in_order: Keys) -> None:
        """Write the base of this view, without what was deleted. ``in_order`` are the keys of passages by id."""
        alive, facts = self.alive, self.alive[self.columns["fact_passage"].all()]
        names = self.uses.take(np.arange(len(self.columns["name"]))) > 0
        entities = np.zeros(len(self.columns["entity"]), np.bool_)
        entities[self.columns["name_entity"].all()[names]] = True
        kept = {"passage": alive, "fact": facts, "name": names, "entity": entities}
        place = {kind: np.cumsum(flags, dtype=np.int32) - np.int32(1) for kind, flags in kept.items()}
        by_id = self.entities_at(np.arange(len(entities)))
        by_id = by_id[entities[by_id]]
        place["entity"] = np.empty(len(entities), np.int32)
        place["entity"][by_id] = np.arange(len(by_id), dtype=np.int32)

        def to(kind: str, bits: int = 0) -> Callable[[Array], Array]:
            return lambda codes: (place[kind][codes >> bits] << bits | (codes & ((1 << bits) - 1))).astype(np.int32)

        remaps = {"fact_passage": to("passage"), "name_entity": to("entity")}
        for name in ("entity", "entity_address"):
            base.put(name, self.columns[name].take(by_id))
        for name, column in self.columns.items():
            if name.startswith("entity"):
                continue
            with base.array(name, column.base) as write:
                for piece in column.pieces(kept[name.partition("_")[0]]):
                    write(remaps[name](piece) if name in remaps else piece)
        for name, flags, remap in (
            ("id", alive, None), ("mention", alive, to("name", NAME_BITS)), ("fact", alive, None),
            ("fact_entity", facts, to("entity")), ("name_term", names, None), ("term", alive, None),
            ("token", alive, None), ("part", alive, None),
        ):  # fmt: skip
            self.forward[name].write(base, name, flags, remap)
        tables = self.inverse
        tables["postings"].write(base, "postings", lambda own: alive[own], to("passage"))
        tables["entity_passages"].write(
            base, "entity_passages", lambda own: alive[own >> PASSAGE_BITS], to("passage", PASSAGE_BITS), by_id
        )
        tables["entity_facts"].write(base, "entity_facts", lambda own: facts[own], to("fact"), by_id)
        tables["entity_names"].write(base, "entity_names", lambda own: names[own], to("name"), by_id)
        tables["alias_names"].write(base, "alias_names", lambda own: names[own], to("name"))
        self.counters.write(base, "counters", by_id)
        self.uses.write(base, "uses", np.flatnonzero(names))
        self._write_order(base, in_order, place["passage"])
        self.vectors.write(base, alive)
        base.finish(generation=self.generation, token=self.token, totals=self.totals.tolist())

    def _write_order(self, base: BaseWriter, in_order: Keys, place: Array) -> None:
        numbers = self.columns["passage"].find(in_order)
        numbers = numbers[numbers >= 0]
        order = place[numbers[self.alive[numbers]]]
        ranks = np.empty(len(order), np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        base.put("id_ranks", ranks)
        base.put("id_order", order)

    # -- reads

    def entities_of(self, ids: Numbers) -> Numbers:
        """Return the entities of ids; -1 for unknown ones."""
        column, newer = self.columns["entity"], self._newer
        found = np.full(len(ids), -1, np.int64)
        for known, entities in ((column.base, None), (column.take(newer), newer)):
            if len(known):
                at = np.minimum(known.searchsorted(ids), len(known) - 1)
                hit = known[at] == ids
                found[hit] = at[hit] if entities is None else entities[at[hit]]
        return found

    def ranks(self, entities: Numbers) -> Numbers:
        """Return the places of entities in the order of ids, whatever the order in which they came."""
        if len(self._newer) == 0:
            return entities
        first, among_newer = self._newer_ranks()
        is_new = entities >= len(self.columns["entity"].base)
        ranks = entities + first.searchsorted(entities, "right")
        ranks[is_new] = among_newer[entities[is_new] - len(self.columns["entity"].base)]
        return ranks

    def entities_at(self, ranks: Numbers) -> Numbers:
        """Return the entities at some places in the order of ids."""
        if len(self._newer) == 0:
            return ranks
        first, _ = self._newer_ranks()
        newer = first + np.arange(len(first))  # the places of the newer ones
        at = newer.searchsorted(ranks)
        entities = ranks - at
        is_new = newer[np.minimum(at, len(newer) - 1)] == ranks
        entities[is_new] = self._newer[at[is_new]]
        return entities

    def _newer_ranks(self) -> tuple[Numbers, Numbers]:
        """Return before which entity of the base each newer one comes, in order of id; and the rank of each newer."""
        return self.derived("newer", self._rank_newer)  # type: ignore[no-any-return]

    def _rank_newer(self) -> tuple[Numbers, Numbers]:
        column = self.columns["entity"]
        first = column.base.searchsorted(column.take(self._newer))
        ranks = np.empty(len(self._newer), np.int64)
        ranks[self._newer - len(column.base)] = first + np.arange(len(first))
        return first, ranks

    def postings(self) -> Postings:
        """Return the posting lists of this view."""
        return self.derived("postings", self._postings)  # type: ignore[no-any-return]

    def _postings(self) -> Postings:
        alive = self.alive if self.dead else None
        return Postings(self.inverse["postings"], self.columns["passage_length"], self.totals, alive, self.size)

    def derived(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return a value that is computed once for this view."""
        if name not in self._derived:
            self._derived[name] = compute()
        return self._derived[name]

    def edge_facts(self) -> Numbers:
        """Return the facts that are explicit edges, ascending."""
        return self.derived("edges", self._edge_facts)  # type: ignore[no-any-return]

    def _edge_facts(self) -> Numbers:
        entities = self.entities_of(np.array([EDGE_ID], np.int64))
        facts: Numbers = self.inverse["entity_facts"].gather(entities[entities >= 0])[1].astype(np.int64)
        return np.asarray(facts[self.alive[self.columns["fact_passage"].take(facts)]], np.int64)

    def id_order(self, passages: Keys) -> Keys:
        """Return numbers that sort passages by id."""
        order = np.empty(len(passages), np.int64)
        is_new = passages >= self.base_size
        order[~is_new] = self._ranks.take(passages[~is_new]).astype(np.int64) + 1 << 32
        if is_new.any():
            numbers = passages[is_new].tolist()
            own = {number: self._id(number) for number in numbers}
            place = {number: at for at, number in enumerate(sorted(own, key=own.__getitem__), 1)}
            order[is_new] = [(self._gap(number, own[number]) << 32) + place[number] for number in numbers]
        return order

    def _id(self, passage: int) -> bytes:
        ids = self.forward["id"]
        if passage < self.base_size:
            starts = ids.starts.base
            return ids.values[0].base[starts[passage] : starts[passage + 1]].tobytes()
        return ids.gather(np.array([passage]))[1].tobytes()

    def _gap(self, passage: int, passage_id: bytes) -> int:
        """Return how many ids of the base come before the id of a newer passage."""
        if (known := self._gaps.get(passage)) is not None:
            return known
        low, high = 0, self.base_size
        while low < high:
            middle = (low + high) // 2
            if self._id(int(self._by_rank[middle])) < passage_id:
                low = middle + 1
            else:
                high = middle
        self._gaps[passage] = low
        return low


def _flags(values: Flags) -> Column:
    return Column(values[:0]).appended(values)
