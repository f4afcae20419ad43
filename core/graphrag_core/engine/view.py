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
from graphrag_core.lazy import computed_once
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


_COMPUTED = ("newer_ranks", "postings", "edge_facts")  # for each view anew


class Removal(NamedTuple):
    """The keys of passages of whole documents that were deleted, and the tokens of their fields."""

    passages: Keys
    lengths: Numbers

    @classmethod
    def none(cls) -> Removal:
        """Return an empty removal."""
        return cls(np.empty(0, np.int64), np.zeros(len(FIELDS), np.int64))


class Stored(NamedTuple):
    """A change as it was stored. ``previous`` is the token of the one before."""

    generation: int
    previous: str
    token: str
    segment: Segment | None
    removal: Removal


class View:
    """One generation of an index: its tables by name, and what is derived of them.

    ``alive`` masks the passages that were not deleted, ``exists`` the entities that exist for a question without a
    scope. ``counters`` say how documents use each entity, ``uses`` how many passages write each name, ``totals`` how
    many tokens all passages have, by field. ``numbering`` is the same object in all views of one base: passages, facts
    and entities have the same numbers.
    """

    def __init__(self, meta: dict[str, Any], arrays: Arrays) -> None:
        def array(name: str, dtype: npt.DTypeLike, width: tuple[int, ...] = ()) -> Array:
            return arrays.get(name, np.empty((0, *width), dtype))

        self.generation, self.token = int(meta["generation"]), str(meta["token"])
        self.columns = {name: Column(array(name, dtype)) for name, dtype in _COLUMNS.items()}
        self.columns["passage_length"] = Column(array("passage_length", np.uint8, (len(FIELDS),)))
        self.forward = {name: Forward.opened(arrays, name, types) for name, types in _FORWARD.items()}
        self.inverse = {name: Inverse.opened(arrays, name, *types) for name, types in _INVERSE.items()}
        self.counters = Counters(array("counters.sums", np.int32, (len(COUNTERS),)))
        self.uses = Counters(array("uses.sums", np.int32))
        self.vectors = Vectors.opened(arrays)
        self.totals: Numbers = np.array(meta["totals"], np.int64)
        self._ranks, self._by_rank = array("id_ranks", np.int32), array("id_order", np.int32)
        self.base_size = len(self._ranks)  # passages in the base
        self._gaps: dict[int, int] = {}  # ids of the base before a newer one, by the number of its passage
        self.size, self.dead = len(self.columns["passage"]), 0
        self._alive = _flags(np.ones(self.size, np.bool_))
        self._exists = _flags(exist(self.counters.sums, self.columns["entity_address"].base))
        self.newer: Numbers = np.empty(0, np.int64)  # entities that the base lacks, in the order of their ids
        self.scopes: dict[Any, Any] = {}  # by filter
        self.numbering = object()

    @classmethod
    def empty(cls) -> View:
        """Return the view of a new index."""
        return cls({"generation": 0, "token": "", "totals": [0] * len(FIELDS)}, {})

    @property
    def alive(self) -> Flags:
        return self._alive.tail

    @property
    def exists(self) -> Flags:
        return self._exists.tail

    @property
    def changed(self) -> int:
        """The number of passages that came since the base was written, or went."""
        return len(self.columns["passage"]) - self.base_size + self.dead

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without what is mapped."""
        tables: list[Any] = [*self.columns.values(), *self.forward.values(), *self.inverse.values()]
        tables += [self.counters, self.uses, self.vectors, self._alive, self._exists]
        return sum(own.nbytes for own in tables)

    # -- changes

    def after(
        self, generation: int, token: str, segment: Segment | None, vectors: Matrix | None, removal: Removal
    ) -> View:
        """Return the view after passages came and went. Columns of the newest view grow in place."""
        new = object.__new__(View)
        new.__dict__.update({name: value for name, value in self.__dict__.items() if name not in _COMPUTED})
        new.generation, new.token, new.scopes = generation, token, {}
        new.columns, new.forward, new.inverse = {**self.columns}, {**self.forward}, {**self.inverse}
        touched = [np.empty(0, np.int64)]
        if segment is not None and len(segment["passage"]) + len(segment["name"]):
            new._add_names(segment)
            touched.append(new._add_passages(segment, vectors))
        if len(removal.passages):
            touched.append(new._remove(removal))
        entities = distinct(*touched)
        flags = exist(new.counters.take(entities), new.columns["entity_address"].take(entities))
        if (new.exists[entities] != flags).any():
            exists = new.exists.copy()  # a view that was published before keeps its flags
            exists[entities] = flags
            new._exists = _flags(exists)
        return new

    def _append(self, **values: Array) -> None:
        for name, own in values.items():
            self.columns[name] = self.columns[name].appended(own)

    def _extend(self, name: str, counts: Array, *values: Array) -> None:
        self.forward[name] = self.forward[name].appended(counts, *values)

    def _enter(self, name: str, part: Part) -> None:
        self.inverse[name] = self.inverse[name].appended(part)

    def _add_names(self, segment: Segment) -> None:
        """Add the names of a segment, and new entities in the order in which their names came."""
        ids, first = segment["name_entity"], len(self.columns["name"])
        own, earliest, place = np.unique(ids, return_index=True, return_inverse=True)
        known = self.entities_of(own)
        unknown = np.flatnonzero(known < 0)
        unknown = unknown[np.argsort(earliest[unknown])]
        size = len(self.columns["entity"])
        known[unknown] = size + np.arange(len(unknown))
        entities = known[place].astype(np.int32)
        self._append(
            entity=own[unknown], entity_address=segment["name_address"][earliest[unknown]], name=segment["name"],
            name_entity=entities,
        )  # fmt: skip
        self._exists = self._exists.appended(np.zeros(len(unknown), np.bool_))
        order = np.argsort(own[unknown], kind="stable")
        at = self.columns["entity"].take(self.newer).searchsorted(own[unknown][order])
        self.newer = np.insert(self.newer, at, size + order)
        names = np.arange(first, first + len(ids), dtype=np.int32)
        is_alias = segment["name_spelling"] != ids
        self._enter("entity_names", Part.of(entities, names))
        self._enter("alias_names", Part.of(segment["name_spelling"][is_alias], names[is_alias]))
        self._extend("name_term", segment["name_term_count"], segment["name_term"])

    def _add_passages(self, segment: Segment, vectors: Matrix | None) -> Numbers:
        """Add the passages of a segment with their facts and mentions; return the entities that they touch."""
        first, count = len(self.columns["passage"]), len(segment["passage"])
        first_fact, held = len(self.columns["fact_passage"]), segment["fact_entity_count"]
        passages = np.arange(first, first + count, dtype=np.int32)
        columns = ("passage", "passage_document", "passage_length", "fact_weight", "fact_triple", "fact_statement")
        self._append(**{name: segment[name] for name in columns}, fact_passage=passages.repeat(segment["fact_count"]))
        self._extend("id", segment["id_count"], segment["id"])
        self._extend("fact", segment["fact_count"])
        self._extend("term", segment["term_count"], segment["term"], segment["term_sentences"])
        self._extend("token", segment["token_count"], segment["token"])
        self._extend("part", segment["part_count"], segment["part"])
        self.vectors = self.vectors.appended(vectors, first, count)
        self._alive = self._alive.appended(np.ones(count, np.bool_))
        self.size += count
        values = segment["posting_passage"] + np.int32(first), segment["posting_number"]
        self._enter("postings", Part(segment["posting"], segment["posting_start"], values))
        self.totals = self.totals + segment["lengths"]
        # mentions
        names, flags = self.columns["name"].find(segment["mention"]), segment["mention_flags"]
        self._extend("mention", segment["mention_count"], (names << NAME_BITS | flags).astype(np.int32))
        self.uses = self.uses.added(names, np.ones(len(names), np.int32))
        once = flags & AGAIN == 0
        codes = passages.repeat(segment["mention_count"]) << PASSAGE_BITS | (flags & (SUBJECT | IN_TITLE))
        self._enter("entity_passages", Part.of(self.columns["name_entity"].take(names)[once], codes[once]))
        # facts
        entities = self.columns["name_entity"].take(self.columns["name"].find(segment["fact_entity"]))
        self._extend("fact_entity", held, entities)
        facts = np.arange(first_fact, first_fact + len(held), dtype=np.int32).repeat(held)
        self._enter("entity_facts", Part.of(entities, facts))
        return self._count(1, passages.astype(np.int64))

    def _remove(self, removal: Removal) -> Numbers:
        """Remove passages; return the entities that they mention."""
        gone = self.columns["passage"].find(np.sort(removal.passages))
        gone = gone[gone >= 0]
        entities = self._count(-1, gone)
        names = self.forward["mention"].gather(gone)[1].astype(np.int64) >> NAME_BITS
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
        facts = ranges(*self.forward["fact"].locate(passages))
        held = self.forward["fact_entity"].gather(facts[self.columns["fact_triple"].take(facts)])[1].astype(np.int64)
        documents = self.columns["passage_document"].take(owners).astype(np.int64)
        found, changes = usage(
            documents, owners, entities, codes[once], self.columns["entity_address"].take(entities), held
        )
        self.counters = self.counters.added(found, (sign * changes).astype(np.int32))
        return found

    # -- the base

    def write(self, base: BaseWriter, in_order: Keys, *, with_lists: bool = True) -> None:
        """Write the base of this view, without what was deleted. ``in_order`` are the keys of passages by id.

        Without lists of vectors it depends on the rows alone.
        """
        alive, facts = self.alive, self.alive[self.columns["fact_passage"].all()]
        names = self.uses.take(np.arange(len(self.columns["name"]))) > 0
        is_kept = {"passage": alive, "fact": facts, "name": names}
        entities = np.zeros(len(self.columns["entity"]), np.bool_)
        entities[self.columns["name_entity"].all()[names]] = True
        by_id = np.argsort(self.columns["entity"].all(), kind="stable")
        by_id = by_id[entities[by_id]]
        place = {kind: np.cumsum(flags, dtype=np.int32) - np.int32(1) for kind, flags in is_kept.items()}
        place["entity"] = np.empty(len(entities), np.int32)
        place["entity"][by_id] = np.arange(len(by_id), dtype=np.int32)
        rows = {kind: np.flatnonzero(flags) for kind, flags in is_kept.items()} | {"entity": by_id}

        def to(kind: str, bits: int = 0) -> Callable[[Array], Array]:
            return lambda codes: (place[kind][codes >> bits] << bits | (codes & ((1 << bits) - 1))).astype(np.int32)

        remaps = {
            "fact_passage": to("passage"), "name_entity": to("entity"), "fact_entity": to("entity"),
            "mention": to("name", NAME_BITS),
        }  # fmt: skip
        for name, column in self.columns.items():
            column.write(base, name, rows[name.partition("_")[0]], remaps.get(name))
        kinds = {"fact_entity": "fact", "name_term": "name"}
        for name, table in self.forward.items():
            table.write(base, name, rows[kinds.get(name, "passage")], remaps.get(name))
        for name, kind, bits, own in (
            ("postings", "passage", 0, None), ("alias_names", "name", 0, None), ("entity_names", "name", 0, by_id),
            ("entity_facts", "fact", 0, by_id), ("entity_passages", "passage", PASSAGE_BITS, by_id),
        ):  # fmt: skip
            self.inverse[name].write(base, name, _keeper(is_kept[kind], bits), to(kind, bits), own)
        base.put("counters.sums", self.counters.take(by_id))
        base.put("uses.sums", self.uses.take(rows["name"]))
        numbers = self.columns["passage"].find(in_order)
        numbers = numbers[numbers >= 0]
        order = place["passage"][numbers[alive[numbers]]]
        ranks = np.empty(len(order), np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        base.put("id_ranks", ranks)
        base.put("id_order", order)
        self.vectors.write(base, rows["passage"], with_lists=with_lists)
        base.finish(generation=self.generation, token=self.token, totals=self.totals.tolist())

    # -- reads

    def entities_of(self, ids: Numbers) -> Numbers:
        """Return the entities of ids; -1 for unknown ones."""
        column, newer = self.columns["entity"], self.newer
        found = np.full(len(ids), -1, np.int64)
        for known, entities in ((column.base, None), (column.take(newer), newer)):
            if len(known):
                at = np.minimum(known.searchsorted(ids), len(known) - 1)
                hit = known[at] == ids
                found[hit] = at[hit] if entities is None else entities[at[hit]]
        return found

    @computed_once
    def newer_ranks(self) -> tuple[Numbers, Numbers]:
        """Before which entity of the base each newer one comes, in the order of ids; and the rank of each newer one."""
        column = self.columns["entity"]
        first = column.base.searchsorted(column.take(self.newer))
        ranks = np.empty(len(self.newer), np.int64)
        ranks[self.newer - len(column.base)] = first + np.arange(len(first))
        return first, ranks

    @computed_once
    def postings(self) -> Postings:
        """The posting lists."""
        alive = self.alive if self.dead else None
        return Postings(self.inverse["postings"], self.columns["passage_length"], self.totals, alive, self.size)

    @computed_once
    def edge_facts(self) -> Numbers:
        """The facts that are explicit edges, ascending."""
        entities = self.entities_of(np.array([EDGE_ID], np.int64))
        facts = self.inverse["entity_facts"].gather(entities[entities >= 0])[1].astype(np.int64)
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
        return self.forward["id"].gather(np.array([passage]))[1].tobytes()

    def _gap(self, passage: int, passage_id: bytes) -> int:
        """Return how many ids of the base come before the id of a newer passage."""
        if passage not in self._gaps:
            low, high = 0, self.base_size
            while low < high:
                middle = (low + high) // 2
                if self._id(int(self._by_rank[middle])) < passage_id:
                    low = middle + 1
                else:
                    high = middle
            self._gaps[passage] = low
        return self._gaps[passage]


def _flags(values: Flags) -> Column:
    return Column(values[:0]).appended(values)


def _keeper(flags: Flags, bits: int) -> Callable[[Array], Array]:
    return lambda codes: flags[codes >> bits]
