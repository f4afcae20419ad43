"""The graph of an index in memory: which chunks mention which entities, which facts hold them, and what is counted.

Rows are appended by additions. A deletion subtracts what it counted, and marks its chunks: reads leave out marked
chunks as they leave out those that are not in scope. :class:`GraphView` is what a question reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.counters import COUNTERS, MENTION, SUBJECT, Mentions, count, exist
from graphrag_core.engine.graph.sparse import (
    Array,
    Flags,
    Growing,
    Numbers,
    Pairs,
    Rows,
    kept_rows,
    once,
    remembered,
    rows_of,
    spans,
)
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Adjacency, Keys, Scores
from graphrag_core.text import EDGE, hash64

_EDGE = hash64(EDGE)
_ROOM = 1_024  # chunks, and a quarter of all, that can be added before entities get other places
_MANY, _SMALL = 1_000, 0.25  # chunks, and the share, from which on removed and new ones are worth packing
_AHEAD, _FEW = 2, 8  # to find whether a node has enough mentions, this many times as many are read, and a few
_BITS, _KINDS = 2, 3  # of an index of mentions: whether a subject, and whether in the title
_WEIGHTS = np.array([MENTION, SUBJECT], np.float32)
_SAMPLE = 1_000  # chunks from which the share of linked ones is estimated

_COLUMNS: dict[str, npt.DTypeLike] = {
    "chunks.key": np.int64, "chunks.document": np.int32, "chunks.sample": np.uint32,
    "entities.id": np.int64, "entities.is_address": np.bool_, "entities.counters": np.int32,
    "names.key": np.int64, "names.entity": np.int32,
    "facts.key": np.int64, "facts.chunk": np.int32, "facts.weight": np.float32, "facts.triple": np.bool_,
    "facts.statement": np.uint32,
    "aliases.chunk": np.int32, "aliases.name": np.int32, "aliases.entity": np.int32,
}  # fmt: skip
_ROWS = {
    "mentions": "", "name_chunks": "names", "name_terms": "names", "entity_names": "entities",
    "fact_entities": "facts", "entity_facts": "entities",
}  # fmt: skip
"""The sparse tables, and the table of which each has a row for each row."""
_REFER = {
    "names.entity": "entities", "facts.chunk": "chunks", "aliases.chunk": "chunks", "aliases.name": "names",
    "aliases.entity": "entities",
}  # fmt: skip
"""The columns that have rows of another table."""
_KEY = {name.partition(".")[0]: name for name in reversed(_COLUMNS)}
"""The first column of each table."""


class GraphRows(NamedTuple):
    """What some documents add to a graph. Chunks, facts and names are given by key, in ascending order.

    Attributes
    ----------
    samples
        Numbers that choose a sample of the chunks.
    names, entities, addresses, terms
        New names, the ids of their entities, whether they are addresses; the places of names and their terms.
    titles
        The places of chunks, and the ids of the entities that the titles of their documents name.
    mentions
        The place of the chunk, the name, and whether it is a subject, in the order of chunks and positions.
    facts
        Key, chunk, weight, whether it is a triple, and a number that is the same for facts that say the same.
    held, aliases
        The place of the fact, and the name; the place of a chunk, a short name, and the long name that it stands for.
    """

    chunks: Numbers
    documents: Numbers
    samples: Array
    names: Numbers
    entities: Numbers
    addresses: Flags
    terms: tuple[Numbers, Array]
    titles: Pairs
    mentions: tuple[Numbers, Numbers, Flags]
    facts: tuple[Numbers, Numbers, Array, Flags, Array]
    held: Pairs
    aliases: tuple[Numbers, Numbers, Numbers]


class MemoryGraph:
    """The graph of all chunks. Not safe to read while it changes.

    Chunks, facts and names have their place in the order of keys as number. Entities have places from ``first_entity``
    on, in the order in which they came, and numbers in the order of their ids (:attr:`numbers`). A row of ``mentions``
    is that of a chunk or of an entity, by place: four times the place of the other end, and 1 more if the entity is a
    subject of the chunk, 2 more if it is in the title of the document. Those of a chunk are in the order in which the
    extractor found them.

    Attributes
    ----------
    first_entity
        Numbers of chunks are below this one.
    rows
        The sparse tables, by name.
    there, removed
        Which chunks were not removed, and how many were whose rows are still there.
    """

    def __init__(self) -> None:
        self._columns = {name: Growing(np.empty(0, dtype)) for name, dtype in _COLUMNS.items()}
        self._columns["entities.counters"] = Growing(np.empty((0, len(COUNTERS)), np.int32))
        self.rows = {name: Rows() for name in _ROWS}
        self.first_entity = 0
        self._start()

    def _start(self) -> None:
        self._known = self["entities.id"]  # the ids that are in order
        self._new = dict[int, int]()  # and the places of the others
        self.there = np.ones(len(self), np.bool_)
        self.removed = 0
        self._forget()

    def _forget(self) -> None:
        """Drop what was computed from the rows before a change."""
        for name in ("everything", "all_exist", "about", "linked_share", "edge_facts", "numbers", "alias_order"):
            self.__dict__.pop(name, None)

    def __getitem__(self, column: str) -> Array:
        """Return a column such as ``"facts.chunk"``: not a copy."""
        return self._columns[column].values

    def __len__(self) -> int:
        """Return the number of chunks, including deleted ones that are not compacted yet."""
        return len(self["chunks.key"])

    @property
    def node_limit(self) -> int:
        """All numbers of chunks and entities are below this one."""
        return self.first_entity + len(self["entities.id"])

    @property
    def nbytes(self) -> int:
        columns = sum(column.nbytes for column in self._columns.values())
        return columns + sum(rows.nbytes for rows in self.rows.values())

    # -- changes

    def add(self, rows: GraphRows) -> None:
        """Add rows of documents that are not there yet."""
        self._forget()
        first_chunk, first_fact = len(self), len(self["facts.key"])
        if (chunks := first_chunk + len(rows.chunks)) > self.first_entity:
            self._renumber(_capacity(chunks))
        self._add_names(rows)
        names, slot_of = self["names.key"], self["names.entity"]
        chunk, name, subject = rows.mentions
        name_row = rows_of(names, name)
        entity = slot_of[name_row].astype(np.int64)
        fact_key, fact_chunk, weight, triple, statement = rows.facts
        fact_chunk = np.searchsorted(rows.chunks, fact_chunk)
        fact, held_row = rows.held[0], rows_of(names, rows.held[1])
        held = slot_of[held_row].astype(np.int64)
        if len(rows.aliases[0]):
            codes, long = self._aliases(rows)
            entity = _replaced(entity, name_row << 32 | rows.documents[chunk], codes, long)
            held = _replaced(held, held_row << 32 | rows.documents[fact_chunk[fact]], codes, long)
            moved = entity != slot_of[name_row]
            self._append("aliases", chunk=chunk[moved] + first_chunk, name=name_row[moved], entity=entity[moved])
            self._add_aliases(distinct(entity[moved] << 32 | name_row[moved]))

        self.rows["name_chunks"].append(name_row, chunk + first_chunk)
        self._append("chunks", key=rows.chunks, document=rows.documents, sample=rows.samples)
        self.there = np.concatenate([self.there, np.ones(len(rows.chunks), np.bool_)])
        kept = once(chunk, entity)
        chunk, entity, subject = chunk[kept], entity[kept], subject[kept]
        in_title = among(chunk << 32 | entity, np.sort(rows.titles[0] << 32 | self._slots(rows.titles[1])))
        mentions = _both_ways(chunk + first_chunk, entity + self.first_entity, subject + 2 * in_title)
        self._append_rows("mentions", self.node_limit, *mentions)
        self._append(
            "facts", key=fact_key, chunk=fact_chunk + first_chunk, weight=weight, triple=triple, statement=statement
        )
        first = np.flatnonzero(once(fact, held))
        first = first[np.lexsort((self["entities.id"][held[first]], fact[first]))]
        fact, held = fact[first], held[first]
        self._append_rows("fact_entities", first_fact + len(fact_key), fact + first_fact, held)
        self._append_rows("entity_facts", len(self["entities.id"]), held, fact + first_fact)
        self._count(1, held[triple[fact]], rows.documents[chunk], chunk, entity, subject, in_title)

    def _append(self, table: str, **columns: Array) -> None:
        for name, values in columns.items():
            self._columns[f"{table}.{name}"].append(values)

    def _append_rows(self, name: str, size: int, owners: Numbers, indices: Array) -> None:
        """Append pairs of a row and an index to a sparse table, after adding empty rows up to a size."""
        self.rows[name].extend(size)
        self.rows[name].append(owners, indices)

    def _add_names(self, rows: GraphRows) -> None:
        first, slots = len(self["names.key"]), self._slots(rows.entities, new=True)
        size = first + len(slots)
        self._append("names", key=rows.names, entity=slots)
        self["entities.is_address"][slots[rows.addresses]] = True
        self.rows["name_chunks"].extend(size)
        self._append_rows("name_terms", size, first + rows.terms[0], rows.terms[1])
        self._append_rows("entity_names", len(self["entities.id"]), slots, np.arange(first, size))

    def _aliases(self, rows: GraphRows) -> Pairs:
        """Return the short names that documents give one long name, each with the document, and the entities they mean.

        A short name and its document are one number, in ascending order. A name that is itself short for another one
        in the document is not a long name.
        """
        chunk, *ends = rows.aliases
        short, long = (rows_of(self["names.key"], end) for end in ends)
        entity = self["names.entity"][long].astype(np.int64)
        other = entity != self["names.entity"][short]
        chunk, short, entity = chunk[other], short[other], entity[other]
        _, place = np.unique(short << 32 | rows.documents[chunk], return_inverse=True)
        kept = once(place, entity)
        chunk, short, entity, place = chunk[kept], short[kept], entity[kept], place[kept]
        alone = np.bincount(place)[place] == 1 if len(place) else kept
        chunk, short, entity = chunk[alone], short[alone], entity[alone]
        document = rows.documents[chunk]
        moved = distinct(self["names.entity"][short].astype(np.int64) << 32 | document)
        is_long = ~among(entity << 32 | document, moved)
        codes, entity = (short << 32 | document)[is_long], entity[is_long]
        order = np.argsort(codes)
        return codes[order], entity[order]

    def _add_aliases(self, pairs: Numbers) -> None:
        """Give entities names that they do not have yet: pairs of an entity and a name, in one number."""
        known, entities = self.rows["entity_names"], distinct(pairs >> 32)
        counts, names = known.gather(entities)
        pairs = pairs[~among(pairs, np.sort(entities.repeat(counts) << 32 | names))]
        known.append(pairs >> 32, pairs & 0xFFFFFFFF)

    def remove(self, chunks: Keys) -> None:
        """Remove the chunks of whole documents, given by key."""
        if len(chunks) == 0:
            return
        self._forget()
        gone = np.sort(rows_of(self["chunks.key"], chunks))
        counts, codes = self.rows["mentions"].gather(gone)
        chunk, entity = gone.repeat(counts), (codes >> _BITS) - self.first_entity
        facts, _ = spans(self["facts.chunk"], gone)
        _, held = self.rows["fact_entities"].gather(facts[self["facts.triple"][facts]])
        documents = self["chunks.document"][chunk].astype(np.int64)
        self._count(-1, held, documents, chunk, entity, codes & 1 > 0, codes & 2 > 0)
        self.there = self.there.copy()
        self.there[gone] = False
        self.removed += len(gone)

    def _count(self, sign: int, in_triples: Numbers, *mentions: Array) -> None:
        """Add what documents say to the counters, or subtract it. The mentions are without ``is_address``."""
        document, chunk, entity, subject, in_title = mentions
        is_address = self["entities.is_address"][entity]
        slots, counts = count(Mentions(document, chunk, entity, subject, in_title, is_address), in_triples)
        self["entities.counters"][slots] += (sign * counts).astype(np.int32)

    def _slots(self, ids: Array, *, new: bool = False) -> Numbers:
        """Return the places of entities, given by id; -1 for unknown ones, or the next place for ``new`` ones."""
        known = self._known
        at = np.minimum(np.searchsorted(known, ids), max(len(known) - 1, 0))
        found = np.where(known[at] == ids, at, -1) if len(known) else np.full(len(ids), -1)
        if len(places := np.flatnonzero(found < 0)) and (new or self._new):
            numbers = ids[places].tolist()
            if new:
                first = len(self["entities.id"])
                added = [number for number in dict.fromkeys(numbers) if number not in self._new]
                self._new |= zip(added, range(first, first + len(added)), strict=True)
                self._columns["entities.id"].append(added)
                self._columns["entities.is_address"].extend(len(added))
                self._columns["entities.counters"].extend(len(added))
            found[places] = [self._new.get(number, -1) for number in numbers]
        return found

    def _renumber(self, first_entity: int) -> None:
        """Give entities other numbers, so that there is room for more chunks."""
        chunks = np.arange(len(self))
        counts, codes = self.rows["mentions"].gather(chunks)
        moved = first_entity - self.first_entity
        self.first_entity = first_entity
        pairs = _both_ways(chunks.repeat(counts), (codes >> _BITS) + moved, codes & _KINDS)
        self.rows["mentions"] = Rows.of(*pairs, self.node_limit)

    # -- files

    def arrays(self) -> dict[str, Array]:
        """Return all that :meth:`load` needs. Rows of removed chunks must have been dropped, see :meth:`packed`."""
        found = {name: column.values for name, column in self._columns.items()}
        for name, rows in self.rows.items():
            found |= {f"{name}.counts": rows.counts.values, f"{name}.indices": rows.indices.values}
        return found

    @classmethod
    def load(cls, arrays: Mapping[str, Growing]) -> MemoryGraph:
        """Return the graph of which :meth:`arrays` returned these arrays; raise ``ValueError`` if they do not fit."""
        graph = cls()
        graph._columns = {name: arrays[name] for name in _COLUMNS}
        graph.rows = {name: Rows(arrays[f"{name}.counts"], arrays[f"{name}.indices"]) for name in _ROWS}
        graph.first_entity = len(graph.rows["mentions"].counts.values) - len(graph["entities.id"])
        graph._check_sizes()
        graph._start()
        return graph

    def _check_sizes(self) -> None:
        """Raise ``ValueError`` if the sizes of columns and rows do not fit each other."""
        sizes: dict[str, int] = {}
        for name in _COLUMNS:
            if sizes.setdefault(table := name.partition(".")[0], len(self[name])) != len(self[name]):
                raise ValueError(f"the columns of {table!r} differ in length")
        for name, table in _ROWS.items():
            counts, indices = self.rows[name].counts.values, self.rows[name].indices.values
            if len(counts) != sizes.get(table, len(counts)) or counts.sum() != len(indices):
                raise ValueError(f"the rows of {name!r} are not as many as are counted")
        if self.first_entity < len(self):
            raise ValueError("the rows of 'mentions' are not as many as are counted")

    def packed(self) -> MemoryGraph:
        """Return the same graph without the rows of removed chunks, and with entities in the order of their ids.

        Entities and names without a use are left out. Equal rows give equal graphs.
        """
        is_packed = all(rows.is_packed for rows in self.rows.values())
        if is_packed and self.removed == 0 and not self._new and self.first_entity == _capacity(len(self)):
            return self
        new, kept = MemoryGraph(), self._kept()
        place: dict[str, Numbers] = {}  # the new row of each row, or -1
        for table, rows in kept.items():
            place[table] = np.full(len(self[_KEY[table]]), -1, np.int64)
            place[table][rows] = np.arange(len(rows))
        for name, dtype in _COLUMNS.items():
            values = self[name][kept[name.partition(".")[0]]]
            new._columns[name] = Growing(place[_REFER[name]][values].astype(dtype) if name in _REFER else values)
        new.first_entity = _capacity(len(kept["chunks"]))
        for name, owner, other in (
            ("mentions", "chunks", "entities"), ("name_terms", "names", ""), ("name_chunks", "names", "chunks"),
            ("fact_entities", "facts", "entities"), ("entity_facts", "entities", "facts"),
        ):  # fmt: skip
            counts, indices = self.rows[name].gather(kept[owner])
            owners, size = np.arange(len(counts)).repeat(counts), len(counts)
            if name == "mentions":
                targets = place[other][(indices >> _BITS) - self.first_entity] + new.first_entity
                owners, indices = _both_ways(owners, targets, indices & _KINDS)
                size = new.node_limit
            elif other:
                indices = place[other][indices]
                owners, indices = owners[indices >= 0], indices[indices >= 0]
            if other in ("chunks", "facts"):  # in the order of keys, whatever was added first
                order = np.lexsort((indices, owners))
                owners, indices = owners[order], indices[order]
            new.rows[name] = Rows.of(owners, indices, size)
        names = new["names.entity"].astype(np.int64) << 32 | np.arange(len(kept["names"]))
        pairs = distinct(names, new["aliases.entity"].astype(np.int64) << 32 | new["aliases.name"])
        new.rows["entity_names"] = Rows.of(pairs >> 32, pairs & 0xFFFFFFFF, len(kept["entities"]))
        new._start()
        return new

    def _kept(self) -> dict[str, Numbers]:
        """Return the rows of each table that are used, in their new order."""
        facts = np.flatnonzero(self.there[self["facts.chunk"]])
        counts, uses = self.rows["name_chunks"].gather(np.arange(len(self["names.key"])))
        names = np.flatnonzero(kept_rows(counts, self.there[uses]))
        is_used = self["entities.counters"][:, 0] > 0
        is_used[self["names.entity"][names]] = True
        entities = np.flatnonzero(is_used)
        entities = entities[np.argsort(self["entities.id"][entities])]
        aliases = np.flatnonzero(self.there[self["aliases.chunk"]])
        chunks = np.flatnonzero(self.there)
        return {"chunks": chunks, "facts": facts, "names": names, "entities": entities, "aliases": aliases}

    @property
    def is_worth_packing(self) -> bool:
        """Whether so much was removed or is new that packing pays."""
        changed = self.removed / max(len(self), 1), len(self._new) / max(len(self["entities.id"]), 1)
        return self.removed + len(self._new) > _MANY and max(changed) > _SMALL

    # -- what all views of a state share

    @remembered
    def numbers(self) -> Pairs | None:
        """The number of each place of a chunk or entity, and the place of each number; None if they are the same."""
        if not self._new:
            return None
        ids, known = self["entities.id"], len(self._known)
        new = known + np.argsort(ids[known:], kind="stable")
        order = np.insert(np.arange(known), np.searchsorted(self._known, ids[new]), new)
        places = np.concatenate([np.arange(self.first_entity), self.first_entity + order])
        numbers = np.empty_like(places)
        numbers[places] = np.arange(len(places))
        return numbers, places

    @remembered
    def everything(self) -> Flags:
        """Which chunks and entities exist for a question without a scope, by place."""
        found = np.zeros(self.node_limit, np.bool_)
        found[: len(self)] = self.there
        found[self.first_entity :] = exist(self["entities.counters"], self["entities.is_address"])
        return found

    @remembered
    def all_exist(self) -> bool:
        """Whether every entity exists for a question without a scope."""
        return bool(self.everything[self.first_entity :].all())

    @remembered
    def about(self) -> Pairs:
        """The addresses that chunks are about, and these chunks, by place."""
        addresses = self.first_entity + np.flatnonzero(self["entities.is_address"])
        counts, codes = self.rows["mentions"].gather(addresses)
        about = codes & 1 > 0
        return addresses.repeat(counts)[about], codes[about] >> _BITS

    @remembered
    def linked_share(self) -> float:
        """The share of chunks that mention the subject of another chunk, estimated from a sample."""
        chunks = np.flatnonzero(self.there)
        if len(chunks) > _SAMPLE:
            order = np.argpartition(self["chunks.sample"][chunks], _SAMPLE)[:_SAMPLE]
            chunks = chunks[order]
        counts, codes = self.rows["mentions"].gather(chunks)
        entities = codes >> _BITS
        leads = (codes & 1 == 0) & self.everything[entities]
        leads &= self["entities.counters"][entities - self.first_entity, 1] > 0
        return float((kept_rows(counts, leads) > 0).mean()) if len(chunks) else 0.0

    @remembered
    def edge_facts(self) -> Numbers:
        """The facts that are explicit edges, ascending."""
        slots = self._slots(np.array([_EDGE], np.int64))
        return np.sort(self.rows["entity_facts"].gather(slots[slots >= 0])[1])

    @remembered
    def alias_order(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Names and chunks of aliases as ascending codes, what each stands for; entities of names, and their rows."""
        name, entity = (self[f"aliases.{column}"].astype(np.int64) for column in ("name", "entity"))
        code, of_name = name << 32 | self["aliases.chunk"], self["names.entity"][name].astype(np.int64)
        by_code, by_name = np.argsort(code), np.argsort(of_name, kind="stable")
        return code[by_code], entity[by_code], of_name[by_name], by_name

    def hide(self, ids: Keys) -> None:
        """Let some entities not exist, and all others whatever their headings. For the graph of a scope."""
        self._forget()
        self["entities.counters"][:, 2:] = 0
        slots = self._slots(ids)
        self["entities.counters"][slots[slots >= 0]] = 0

    def fact_places(self, facts: Keys) -> Pairs:
        """Return the chunk of each fact, and its place in the chunk. The facts of a chunk follow each other."""
        chunks = self["facts.chunk"][facts].astype(np.int64)
        return chunks, facts - np.searchsorted(self["facts.chunk"], chunks.astype(np.int32))


class GraphView:
    """The graph of the chunks that a question sees: see :class:`~graphrag_core.engine.store.StoreGraph`.

    Parameters
    ----------
    graph
        The graph of all chunks.
    chunks
        Which chunks are in scope, by number; None for all.
    """

    def __init__(self, graph: MemoryGraph, chunks: Flags | None) -> None:
        self._graph = graph
        self._rows = graph.rows
        self.first_entity, self.node_limit = graph.first_entity, len(graph.everything)
        self.has_edges = len(graph.edge_facts) > 0
        # The places of chunks and entities, given by number, and their numbers.
        self._places: Callable[[Keys], Numbers] = np.asarray
        self._nodes: Callable[[Numbers], Keys] = np.asarray
        if graph.numbers is not None:
            self._nodes, self._places = (numbers.__getitem__ for numbers in graph.numbers)
        self._in_scope = chunks is not None
        self._seen = graph.everything  # which chunks and entities exist for the question, by place
        if chunks is not None:  # whether a chunk in scope mentions an entity is looked up later, but for addresses
            self._seen = graph.everything.copy()
            self._seen[: len(graph)] &= chunks
            addresses, about = graph.about
            self._seen[addresses] = False
            self._seen[addresses[self._seen[about]]] = True
        self._all_there = chunks is None and graph.removed == 0
        self._hides_some = not self._all_there or not graph.all_exist
        self._degrees: npt.NDArray[np.float32] | None = None  # of nodes; -1 - n if at least n mentions were counted

    # -- entities

    def find(self, ids: Sequence[int]) -> dict[int, list[int]]:
        """Return for each id the entities with that name: the entity of the id, and the ones it is an alias of."""
        slots = self._graph._slots(np.array(ids, np.int64))  # noqa: SLF001 - of this module
        known = np.flatnonzero(slots >= 0)
        found: dict[int, list[int]] = {}
        places = slots[known] + self.first_entity
        nodes, exist = self._nodes(places), self._seen[places]
        if self._in_scope:
            exist = exist & (self.degrees(nodes, np.ones(len(nodes))) > 0)
        for place, node in zip(known[exist].tolist(), nodes[exist].tolist(), strict=True):
            found[ids[place]] = [node]
        if len(self._graph["aliases.chunk"]):
            for slot, node in self._aliases(slots[known]):
                for place in known[slots[known] == slot].tolist():
                    own = found.setdefault(ids[place], [])
                    own += [node] if node not in own else []
        return found

    def _aliases(self, slots: Numbers) -> list[tuple[int, int]]:
        """Return the rows of entities whose names are aliases in scope, and the numbers of what these stand for."""
        graph = self._graph
        of_name, by_name = graph.alias_order[2:]
        at, _ = spans(of_name, distinct(slots))
        rows = by_name[at]
        meant = graph["aliases.entity"][rows].astype(np.int64) + self.first_entity
        seen = self._seen[graph["aliases.chunk"][rows]] & self._seen[meant]
        pairs = distinct(of_name[at][seen] << 32 | self._nodes(meant[seen]))
        return [*zip((pairs >> 32).tolist(), (pairs & 0xFFFFFFFF).tolist(), strict=True)]

    def ids(self, entities: Keys) -> Keys:
        """Return the ids of entities."""
        return self._graph["entities.id"][self._places(entities) - self.first_entity]

    def are_addresses(self, entities: Keys) -> Flags:
        """Return whether each entity is the address of a section."""
        return self._graph["entities.is_address"][self._places(entities) - self.first_entity]

    def counts(self, entities: Keys) -> tuple[Keys, Flags]:
        """Return how many chunks mention each entity, and whether it is the subject of any."""
        if self._in_scope:
            edges = self.walk(entities)
            return edges.counts, edges.totals > edges.counts * MENTION
        slots, counters = self._places(entities) - self.first_entity, self._graph["entities.counters"]
        return counters[slots, 0].astype(np.int64), counters[slots, 1] > 0

    def passages(self, entities: Keys, most: int) -> Keys:
        """Count the chunks that mention each entity. Counting may stop at ``most``."""
        if not self._in_scope:
            return self.counts(entities)[0]
        return self.degrees(entities, np.full(len(entities), float(most))).astype(np.int64)

    def names(self, entities: Keys) -> Pairs:
        """Return the names of entities that chunks in scope write: how many each has, and their keys."""
        slots = self._places(entities) - self.first_entity
        counts, names = self._rows["entity_names"].gather(slots)
        if not self._all_there or len(self._graph["aliases.chunk"]):
            several = (counts > 1).repeat(counts)
            kept = ~several
            kept[several] = self._written(names[several], slots.repeat(counts)[several])
            counts, names = kept_rows(counts, kept), names[kept]
        return counts, self._graph["names.key"][names].astype(np.int64)

    def _written(self, names: Numbers, entities: Numbers) -> Flags:
        """Return which names a chunk in scope writes for an entity."""
        counts, chunks = self._rows["name_chunks"].gather(names)
        seen = self._seen[chunks]
        if len(self._graph["aliases.chunk"]):
            means = self._graph["names.entity"][names].astype(np.int64).repeat(counts)
            means = _replaced(means, names.repeat(counts) << 32 | chunks, *self._graph.alias_order[:2])
            seen = seen & (means == entities.repeat(counts))
        return kept_rows(counts, seen) > 0

    def uses(self, names: Keys) -> Keys:
        """Return how many chunks in scope mention each name, given by key."""
        counts, chunks = self._rows["name_chunks"].gather(np.searchsorted(self._graph["names.key"], names))
        return counts if self._all_there else kept_rows(counts, self._seen[chunks])

    def top(self, count: int) -> Keys:
        """Return the entities that the most chunks mention, most first, without addresses."""
        things = self._seen[self.first_entity :] & ~self._graph["entities.is_address"]
        uses = self._graph["entities.counters"][:, 0]
        if self._in_scope:
            entities = self.walk(np.flatnonzero(self._seen[: len(self._graph)])).targets
            uses = np.bincount(self._places(entities) - self.first_entity, minlength=len(uses))
        found = np.flatnonzero(things & (uses > 0))
        found = found[np.lexsort((self._graph["entities.id"][found], -uses[found]))[:count]]
        return self._nodes(self.first_entity + found)

    # -- edges

    def walk(self, nodes: Keys) -> Adjacency:
        """Return the mentions of nodes: the entities of chunks, and the chunks of entities."""
        counts, codes = self._rows["mentions"].gather(self._places(nodes))
        targets = codes >> _BITS
        if self._hides_some and not (kept := self._seen[targets]).all():
            counts, codes, targets = kept_rows(counts, kept), codes[kept], targets[kept]
        weights = _WEIGHTS[codes & 1]
        totals = np.bincount(np.arange(len(nodes)).repeat(counts), weights, len(nodes)).astype(np.float32)
        return Adjacency(counts, self._nodes(targets), weights, totals)

    def degrees(self, nodes: Keys, most: npt.NDArray[np.float64] | None = None) -> Scores:
        """Return the number of mentions of each node. Counting may stop at ``most``."""
        if not self._hides_some:
            return self._rows["mentions"].counts.values[self._places(nodes)].astype(np.float32)
        if self._degrees is None:
            self._degrees = np.full(self.node_limit, -1, np.float32)
        known = self._degrees[nodes]
        found = np.where(known < 0, -1 - known, known)
        unread = np.flatnonzero((known < 0) & (found < (np.inf if most is None else most)))
        if most is not None:
            limits = (_AHEAD * most[unread]).astype(np.int64) + _FEW
            few = self._rows["mentions"].counts.values[self._places(nodes[unread])] > limits
            ahead = unread[few]
            found[ahead] = self._walked(nodes[ahead], limits[few])
            known[ahead] = -1 - found[ahead]
            unread = np.concatenate([unread[~few], ahead[found[ahead] < most[ahead]]])
        found[unread] = known[unread] = self._walked(nodes[unread])
        self._degrees[nodes] = known
        return found

    def _walked(self, nodes: Keys, limit: Numbers | None = None) -> Numbers:
        """Return how many mentions nodes have in scope, all or among the first."""
        counts, codes = self._rows["mentions"].gather(self._places(nodes), limit)
        return kept_rows(counts, self._seen[codes >> _BITS])

    # -- facts

    def are_edges(self, facts: Keys) -> Flags:
        """Return which facts are explicit edges."""
        return among(facts, self._graph.edge_facts)

    def are_triples(self, facts: Keys) -> Flags:
        """Return which facts have a relation."""
        return self._graph["facts.triple"][facts]

    def every_edge(self) -> Keys:
        """Return all explicit edges in scope."""
        facts = self._graph.edge_facts
        return facts[self._seen[self._graph["facts.chunk"][facts]]]

    def entities_of(self, facts: Keys) -> Pairs:
        """Return the entities that facts hold: how many each has, and which."""
        counts, slots = self._rows["fact_entities"].gather(facts)
        places = slots + self.first_entity
        if self._hides_some and not (kept := self._seen[places]).all():
            counts, places = kept_rows(counts, kept), places[kept]
        return counts, self._nodes(places)

    def facts_of(self, entities: Keys, limit: int | None = None) -> Pairs:
        """Return the first ``limit`` facts that hold each entity: how many, and which."""
        counts, facts = self._rows["entity_facts"].gather(
            self._places(entities) - self.first_entity, limit if self._all_there else None
        )
        if self._all_there:
            return counts, facts
        kept = self._seen[self._graph["facts.chunk"][facts]]
        counts, facts = kept_rows(counts, kept), facts[kept]
        if limit is not None:
            place = np.arange(len(facts)) - (counts.cumsum() - counts).repeat(counts)
            counts, facts = np.minimum(counts, limit), facts[place < limit]
        return counts, facts


def _capacity(chunks: int) -> int:
    """Return for how many chunks there is room before the places of entities."""
    return chunks + chunks // 4 + _ROOM


def _both_ways(chunks: Numbers, entities: Numbers, kinds: Numbers) -> Pairs:
    """Return mentions, in the order of chunks, as pairs of a row and an index: rows of chunks, then of entities."""
    owners, others = np.concatenate([chunks, entities]), np.concatenate([entities, chunks])
    return owners, others << _BITS | np.tile(kinds, 2)


def _replaced(values: Numbers, codes: Numbers, known: Numbers, others: Numbers) -> Numbers:
    """Replace the values that have a known code. Known codes are in ascending order."""
    found = among(codes, known)
    replaced = values.copy()
    replaced[found] = others[np.searchsorted(known, codes[found])]
    return replaced
