"""The graph in PostgreSQL: tables that are derived from the rows of chunks, facts and names, and kept up to date.

What is decided about a spelling (whether it is a name, which entity it is) depends on how many chunks use it in which
way. ``spellings``, ``name_uses``, ``headings`` and ``word_counts`` hold these numbers. Each is a sum over chunks, so a
change adds what its new chunks say and subtracts what the removed ones said, and only the spellings in them are decided
again, by the functions of the embedded engine. Chunks and facts that are new, or that use a spelling of which the
decision changed, get new rows in ``chunk_entities`` and ``fact_entities``; ``links``, ``entities`` and ``chunk_nodes``
follow from the difference. So the cost of a change is that of its own rows and of the rows whose entities it changes.

The weights of links are sums of single precision numbers of at least 0.0625. In double precision such sums and
differences are exact, so nothing drifts.

With edits, merged names or explicit edges a decision depends on more than the uses of one spelling: then, as after a
large change, the tables are built again from all rows, by the function that builds the graph of the embedded engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.build import (
    MOST_LINKED,
    SUBJECT_WEIGHT,
    Decisions,
    GraphView,
    Index,
    Pairs,
    Tables,
    build,
    resolve,
)
from graphrag_core.engine.graph.edits import GraphEdits
from graphrag_core.engine.graph.names import (
    ADDRESS,
    ALWAYS,
    AS_SUBJECT,
    CAPITALS,
    NEVER,
    WORD,
    UseCounts,
    generic_headings,
    is_word,
    named_as,
    ordinary_words,
    titles,
    word_pairs,
    words_of,
)
from graphrag_core.engine.graph.sparse import ranges
from graphrag_core.engine.postgres.database import copy_rows, matrix
from graphrag_core.engine.postgres.reads import columns
from graphrag_core.engine.postgres.schema import DERIVED, FACT_BITS, GRAM_BITS
from graphrag_core.engine.rows import without_markup
from graphrag_core.ports import Keys
from graphrag_core.text import EDGE, hash64, normalise
from graphrag_core.text.lowercase_names import WORD_BITS, name_grams

Flags = npt.NDArray[np.bool_]
Weighted = tuple[Index, Index, npt.NDArray[np.float64]]
Cursor = Any  # of psycopg, which is an optional package

_GRAM = (1 << GRAM_BITS) - 1
_NONE: Index = np.empty(0, np.int64)
_EDGE = hash64(EDGE)
_MENTION, _SUBJECT = 1, 1 + int(SUBJECT_WEIGHT)
EDITS, SIMILAR = "edits", "merge_similar"
"""The settings of an index that change its whole graph."""

_PAGE = 10_000  # chunks whose rows are read in one go
_NAMES_PAGE, _NEAREST = 1_000, 8  # names whose similarities are computed in one go, and how many count
_FEW = 200  # chunks, whose change is always applied to the tables
_MOST = 4  # times the number of chunks that are there: from which on it is cheaper to build the tables again

_COUNTS = ("as_word", "as_capitals", "subjects", "titled", "spoken", "spoken_names", "spoken_others")


class GraphRows(NamedTuple):
    """The rows of some chunks from which the graph is derived, by key.

    Attributes
    ----------
    chunks
        Their keys, ascending.
    mentions
        Chunk, name, spelling, form and whether it is a subject, in the order of chunks and positions.
    facts
        Key, weight, whether it is a triple, and statement.
    held
        Fact, name and spelling.
    grams
        Fact and gram.
    aliases
        Short and long name, short and long spelling.
    lower
        Fact and spelling of the mentions in lower case that are stored, and whether the spelling is one word.
    """

    chunks: Keys
    mentions: tuple[Index, Index, Index, npt.NDArray[np.int8], Flags]
    facts: tuple[Index, npt.NDArray[np.float32], Flags, Index]
    held: tuple[Index, Index, Index]
    grams: Pairs
    aliases: tuple[Index, Index, Index, Index]
    lower: tuple[Index, Index, Flags]


def read_rows(cursor: Cursor, index: int, chunks: Keys | None = None, *, lower: bool = True) -> GraphRows:
    """Return the rows of chunks, or of all; with ``lower`` the stored mentions in lower case too."""
    if chunks is None:
        (chunks,) = _fetch(cursor, "SELECT key FROM chunks WHERE index = %s ORDER BY key", (index,), np.int64)
    chunks = np.sort(chunks)
    pages = [
        _read_page(cursor, index, chunks[start : start + _PAGE], lower=lower)
        for start in range(0, max(len(chunks), 1), _PAGE)
    ]
    if len(pages) == 1:
        return pages[0]
    parts = (
        tuple(np.concatenate(columns_) for columns_ in zip(*tables, strict=True))
        for tables in list(zip(*pages, strict=True))[1:]
    )
    return GraphRows(chunks, *parts)  # type: ignore[arg-type]


def _read_page(cursor: Cursor, index: int, chunks: Keys, *, lower: bool) -> GraphRows:
    """Return the rows of not too many chunks, in order."""

    def fetch(values: str, table: str, rest: str, *types: npt.DTypeLike) -> tuple[Any, ...]:
        """Return columns of the rows of the chunks. ``table`` has an alias of one letter."""
        column = {"facts f": "key", "fact_names h": "fact", "lower_mentions l": "fact"}.get(table, "chunk")
        bits = f" << {FACT_BITS}"
        inside = "chunk = w.chunk"
        if column != "chunk":
            inside = f"{column} >= w.chunk{bits} AND {column} < (w.chunk + 1){bits}"
        return _fetch(
            cursor,
            f"SELECT {values} FROM unnest(%(chunks)s::bigint[]) w(chunk) CROSS JOIN LATERAL "
            f"(SELECT * FROM {table[:-2]} WHERE index = %(index)s AND {inside} OFFSET 0) {table[-1]} {rest}",
            {"chunks": chunks, "index": index},
            *types,
        )

    key, name = np.int64, np.int64
    return GraphRows(
        chunks,
        fetch(
            "m.chunk, m.name, m.spelling, n.form, m.subject", "mentions m",
            f"{one_row('names', 'n', 'n.key = m.name')} ORDER BY m.chunk, m.position",
            key, name, name, np.int8, np.bool_,
        ),
        fetch(
            "f.key, f.weight, f.relation IS NOT NULL, f.statement", "facts f", "ORDER BY f.key",
            key, np.float32, np.bool_, np.int64,
        ),
        fetch("h.fact, h.name, h.spelling", "fact_names h", "ORDER BY h.fact, h.position", key, name, name),
        fetch(f"f.key, g.gram & {_GRAM}", "facts f", "CROSS JOIN unnest(f.grams) g(gram) ORDER BY f.key", key, name),
        fetch("a.short, a.long, a.short_spelling, a.long_spelling", "aliases a", "", name, name, name, name),
        fetch(
            "l.fact, l.spelling, s.word IS NOT NULL", "lower_mentions l",
            one_row("spellings", "s", "s.number = l.spelling"), key, name, np.bool_,
        ) if lower else (_NONE, _NONE, np.empty(0, np.bool_)),
    )  # fmt: skip


def one_row(table: str, alias: str, condition: str) -> str:
    """Return a join with the one row of a table that has a key.

    The planner cannot read the table in another order: it may have no statistics of a new index.
    """
    where = f"{alias}.index = %(index)s AND {condition}"
    return f"CROSS JOIN LATERAL (SELECT * FROM {table} {alias} WHERE {where} LIMIT 1) {alias}"


def graph_tables(rows: GraphRows, grams: Pairs) -> Tables:
    """Return rows as the tables from which :func:`~graphrag_core.engine.graph.build.build` makes a view.

    ``grams`` are spellings and their grams.
    """
    chunk, name, spelling, form, subject = rows.mentions
    keys, first = np.unique(name, return_index=True)
    key, weight, triple, statement = rows.facts
    spellings = spelling[first]
    order = np.argsort(spellings, kind="stable")
    known = np.isin(grams[0], spellings)
    of_name = keys[order[np.searchsorted(spellings, grams[0][known], sorter=order)]]  # one of its names
    there = np.isin(rows.held[1], keys)
    both = np.isin(rows.aliases[0], keys) & np.isin(rows.aliases[1], keys)
    return {
        "chunks": {"key": rows.chunks},
        "names": {"key": keys, "entity": spellings, "form": form[first]},
        "name_grams": {"name": of_name, "gram": grams[1][known]},
        "mentions": {"chunk": chunk, "name": name, "subject": subject},
        "facts": {
            "key": key,
            "chunk": key >> FACT_BITS,
            "weight": weight,
            "triple": triple,
            "statement": statement.astype(np.uint32),
        },
        "fact_names": {"fact": rows.held[0][there], "name": rows.held[1][there]},
        "fact_grams": {"fact": rows.grams[0], "gram": rows.grams[1]},
        "aliases": {"short": rows.aliases[0][both], "long": rows.aliases[1][both]},
    }


class Touched(NamedTuple):
    """What a removal of chunks touches, read before their rows are deleted."""

    rows: GraphRows | None = None


def before_removal(cursor: Cursor, index: int, removed: Keys) -> Touched:
    """Return what :func:`publish` must know of chunks whose raw rows are deleted after this call."""
    return Touched(read_rows(cursor, index, removed))


def publish(cursor: Cursor, index: int, added: Keys, removed: Keys, touched: Touched, *, edited: bool = False) -> None:
    """Bring the derived tables up to date. The raw rows of added chunks are there, those of removed ones are not.

    Called by one writer of an index at a time, in its transaction.

    Parameters
    ----------
    cursor, index
        A cursor of the transaction, and the number of the index.
    added, removed
        The keys of chunks.
    touched
        What :func:`before_removal` returned for the removed chunks.
    edited
        Whether one of the settings ``EDITS`` and ``SIMILAR`` changed.
    """
    state = _fetch_one(
        cursor,
        "SELECT s.chunks, s.is_plain, EXISTS (SELECT FROM names n WHERE n.index = s.index AND n.spelling = %s) "
        "FROM graph_state s WHERE s.index = %s",
        (_EDGE, index),
    )
    changed = len(added) + len(removed)
    if changed == 0 and not edited:
        return
    if state is None or edited or not state[1] or state[2] or changed > max(_FEW, _MOST * state[0]):
        rebuild(cursor, index)
    else:
        _Change(cursor, index).apply(added, touched.rows or _no_rows())


def rebuild(cursor: Cursor, index: int) -> None:
    """Write the derived tables again from the raw rows. Called as :func:`publish` is."""
    for table in DERIVED:
        cursor.execute(f"DELETE FROM {table} WHERE index = %s", (index,))
    for table, values in _built(cursor, index).items():
        copy_rows(cursor, table, ((index, *row) for row in zip(*values, strict=True)))


def _built(cursor: Cursor, index: int) -> dict[str, list[list[Any]]]:
    """Return the columns of all derived tables but the index, built from all raw rows."""
    rows = read_rows(cursor, index, lower=False)
    grams = _grams_of(cursor, index, np.unique(rows.mentions[2]))
    edits, similar = graph_settings(cursor, index)
    pairs = (_NONE, _NONE) if similar is None else similar_names(cursor, index, similar)
    view, made = build(graph_tables(rows, grams), pairs, edits)
    is_plain = not edits.text and similar is None and not (made.spellings == _EDGE).any()
    tables: dict[str, tuple[Any, ...]] = {**_view_tables(view), **_decision_tables(rows, grams, view, made)}
    leading = int((tables["chunk_nodes"][3] > 0).sum())
    tables["graph_state"] = [len(rows.chunks)], [leading], [is_plain]
    return {
        table: [values if isinstance(values, list) else values.tolist() for values in given]
        for table, given in tables.items()
    }


def graph_settings(cursor: Cursor, index: int) -> tuple[GraphEdits, float | None]:
    """Return the edits of the graph, and the cosine similarity from which on names are one entity."""
    cursor.execute("SELECT name, value FROM settings WHERE index = %s AND name = ANY(%s)", (index, [EDITS, SIMILAR]))
    found = dict(cursor.fetchall())

    def read(facts: Keys) -> Iterable[tuple[int, Sequence[int], str, str, str]]:
        cursor.execute(
            "SELECT f.key, f.names, coalesce(f.relation, ''), coalesce(f.value, ''), f.text, f.is_plain, c.text, "
            "f.start, f.stop FROM facts f JOIN chunks c ON c.index = f.index AND c.key = f.chunk "
            "WHERE f.index = %s AND f.key = ANY(%s)",
            (index, facts.tolist()),
        )
        for key, names, relation, value, own, is_plain, text, start, stop in cursor.fetchall():
            said = own
            if own is None:
                said = without_markup(text, start, stop) if is_plain else text[start:stop].replace("\n", " ")
            yield key, names, relation, value, said

    text = found.get(EDITS, "")
    return GraphEdits(text if text and json.loads(text)["edits"] else "", read), float(found[SIMILAR]) if found.get(
        SIMILAR
    ) else None


def problems(cursor: Cursor, index: int) -> list[str]:
    """Return what differs between the derived tables and those that the raw rows would give."""
    found = []
    for table, values in _built(cursor, index).items():
        want = set(zip(*values, strict=True))
        cursor.execute(f"SELECT * FROM {table} WHERE index = %s", (index,))
        have = {tuple(row[1:]) for row in cursor.fetchall()}
        if have != want and (table != "graph_state" or have):  # an index to which nothing was added has no state
            example = next(iter(have ^ want))
            found.append(f"{table}: {len(have - want)} rows too much, {len(want - have)} missing, such as {example}")
    return found


def _view_tables(view: GraphView) -> dict[str, tuple[Any, ...]]:
    """Return the columns of chunks, facts and entities."""
    entities, chunks = view.entity_ids, view.chunk_keys
    owner, column = _entries(view.mentions)
    about, subject = _entries(view.subjects)
    width = max(len(entities), 1)
    is_about = np.isin(owner * width + column, about * width + subject)
    weight = np.where(is_about, _SUBJECT, _MENTION)
    is_subject = np.bincount(subject, minlength=len(entities)) > 0
    foreign = np.bincount(owner[~is_about & is_subject[column]], minlength=len(chunks))
    totals = np.bincount(owner, weight, len(chunks)).astype(np.int64)
    fact, held = _entries(view.incidence)
    links = view.exact_links
    one, other = _entries(links)
    weights = _rounded(links.data)
    return {
        "chunk_entities": (chunks[owner], entities[column], weight),
        "chunk_nodes": (chunks, np.bincount(owner, minlength=len(chunks)), totals, foreign),
        "fact_entities": (view.fact_keys[fact], entities[held]),
        "links": (entities[one], entities[other], links.data, weights),
        "entities": (
            entities, np.bincount(column, minlength=len(entities)),
            np.bincount(subject, minlength=len(entities)), view.is_address,
            np.bincount(one, minlength=len(entities)), np.bincount(one, weights.astype(np.float64), len(entities)),
        ),
        "hidden_facts": (view.fact_keys[view.hidden] if view.hidden is not None else _NONE,),
    }  # fmt: skip


def _decision_tables(rows: GraphRows, grams: Pairs, view: GraphView, made: Decisions) -> dict[str, tuple[Any, ...]]:
    """Return the columns of spellings, names and words, with what was decided."""
    spellings = made.spellings
    word = np.zeros(len(spellings), np.int64)
    single = is_word(grams[1])
    word[np.searchsorted(spellings, grams[0][single])] = grams[1][single]
    lower_fact, lower_spelling = view.fact_keys[made.lower_fact], spellings[made.lower_spelling]
    uses = _uses(rows, (lower_fact, lower_spelling, word[made.lower_spelling] > 0))
    counts = np.zeros((len(_COUNTS), len(spellings)), np.int64)
    counts[:, np.searchsorted(spellings, uses.spelling)] = uses.counts
    under = np.bincount(np.searchsorted(spellings, uses.headings[0]), minlength=len(spellings))
    mentioned = np.isin(uses.name, view.name_keys)
    names = uses.name[mentioned]
    of_spelling, name_counts = uses.name_spelling[mentioned], uses.name_counts[:, mentioned]
    place = np.searchsorted(view.name_keys, names)
    named = made.named[place]
    kept = np.where(named == ALWAYS, name_counts[0], np.where(named == AS_SUBJECT, name_counts[1], 0))
    mentions = np.bincount(np.searchsorted(spellings, of_spelling), kept, len(spellings)).astype(np.int64)
    valid = view.name_keys[view.name_entity >= 0]
    longs = _long_names(rows.aliases, lambda wanted: np.isin(wanted, valid))
    numbers = spellings.tolist()
    sizes = np.unique(grams[0], return_inverse=True, return_counts=True)
    return {
        "spellings": (
            spellings, [one or None for one in word.tolist()], *counts[:4], under, *counts[4:], made.common, mentions,
            [longs.get(number) for number in numbers],
            [None if at < 0 else numbers[at] for at in made.entity.tolist()],
        ),
        "name_uses": (of_spelling, names, uses.name_form[mentioned], *name_counts, named),
        "name_grams": (grams[1], grams[0], sizes[2][sizes[1]]),
        "headings": uses.headings,
        "word_counts": uses.words,
        "lower_mentions": (lower_fact, lower_spelling),
    }  # fmt: skip


class _Uses(NamedTuple):
    """What some chunks say about spellings, names and words.

    Attributes
    ----------
    spelling, counts
        Spellings, and for each of ``_COUNTS`` how many of the chunks use them so.
    headings
        Spelling, title, and how many chunks under the title have the spelling as a heading.
    name, name_spelling, name_form, name_counts
        Names, and how often each is mentioned, is a subject, and is in a triple.
    words
        Words, and how many chunks have each in lower case.
    """

    spelling: Index
    counts: Index
    headings: tuple[Index, Index, Index]
    name: Index
    name_spelling: Index
    name_form: npt.NDArray[np.int8]
    name_counts: Index
    words: Pairs


def _uses(rows: GraphRows, lower: tuple[Index, Index, Flags]) -> _Uses:
    """Count how chunks use spellings. ``lower`` are mentions in lower case, see :attr:`GraphRows.lower`."""
    chunk, name, spelling, form, subject = rows.mentions
    at = np.searchsorted(rows.chunks, chunk)
    own_titles, title_place = np.unique(spelling, return_inverse=True)
    of_chunk = titles(at, title_place, subject, form, len(rows.chunks))
    plain = ~subject
    flags = (
        (form == WORD) * 1
        | (form == CAPITALS) * 2
        | subject * 4
        | (of_chunk[at] == title_place) * 8
        | (plain & (form != WORD) & (form != CAPITALS)) * 16
        | (plain & (form == WORD)) * 32
        | (plain & (form == CAPITALS)) * 64
        | (subject & (form != ADDRESS)) * 256
    )
    of_lower = lower[0] >> FACT_BITS
    flags = np.concatenate([flags, np.where(lower[2], 0, 128)]).astype(np.int64)
    owners = np.concatenate([spelling, lower[1]])
    (owner, where), _, starts, order = _distinct(owners, np.concatenate([chunk, of_lower]))
    found = np.bitwise_or.reduceat(flags[order], starts) if len(starts) else _NONE
    spellings, place = np.unique(owner, return_inverse=True)
    masks = (1, 2, 4, 8, 16 | 32 | 64 | 128, 16 | 64 | 128, 16 | 128)
    counts = np.array([np.bincount(place[found & mask > 0], minlength=len(spellings)) for mask in masks], np.int64)
    heading = found & 256 > 0
    title = own_titles[of_chunk[np.searchsorted(rows.chunks, where[heading])]] if heading.any() else _NONE
    (headed, under), under_count, _, _ = _distinct(owner[heading], title)

    triple = rows.facts[2][np.searchsorted(rows.facts[0], rows.held[0])] if len(rows.held[0]) else np.empty(0, np.bool_)
    names, first, of_name = np.unique(
        np.concatenate([name, rows.held[1][triple]]), return_index=True, return_inverse=True
    )
    name_spelling = np.concatenate([spelling, rows.held[2][triple]])[first]
    name_form = np.concatenate([form, np.zeros(int(triple.sum()), np.int8)])[first]
    own, in_triple = of_name[: len(name)], of_name[len(name) :]
    size = len(names)
    name_counts = np.array(
        [np.bincount(rows_, minlength=size) for rows_ in (own, own[subject], in_triple)], np.int64
    ).reshape(3, size)
    pairs = word_pairs(rows.grams[1])
    one, two = words_of(rows.grams[1][pairs])
    where = np.concatenate([rows.grams[0][pairs] >> FACT_BITS] * 2)
    (word, _), _, _, _ = _distinct(np.concatenate([one, two]), where)
    words = np.unique(word, return_counts=True)
    return _Uses(
        spellings, counts, (headed, under, under_count), names, name_spelling, name_form, name_counts, words
    )  # fmt: skip


class _Changed(NamedTuple):
    """What a change decided otherwise.

    Attributes
    ----------
    spellings
        The spellings whose uses mean something else now.
    gone
        The spellings that no chunk writes any more.
    entities
        The entities, of now and of before, of all spellings in question.
    """

    spellings: Index
    gone: Index
    entities: Index


class _State(NamedTuple):
    """The stored rows of some spellings, zeros for new ones. ``entity`` is only valid where ``alive``."""

    known: Flags
    word: Index
    counts: Index
    titles: Index
    common: Flags
    alive: Flags
    entity: Index
    alias_of: Mapping[int, int]


class _Names(NamedTuple):
    """Names with their counters, see :class:`_Uses`, and what was decided about them so far."""

    name: Index
    spelling: Index
    form: npt.NDArray[np.int8]
    counts: Index
    named: Index
    known: Flags


class _Change:
    """One change of the tables: the cursor of its transaction, and the steps in their order."""

    def __init__(self, cursor: Cursor, index: int) -> None:
        self._cursor = cursor
        self._index = index

    def apply(self, added: Keys, removed: GraphRows) -> None:
        """Bring the tables up to date."""
        rows = read_rows(self._cursor, self._index, added)
        gone = np.unique(removed.lower[0])
        self._run("DELETE FROM lower_mentions WHERE index = %(index)s AND fact = ANY(%(facts)s)", facts=gone)
        lower = self._match(rows)
        changed = self._decide(rows, lower, removed)
        chunks, facts = self._users(changed.spellings)
        for table in ("name_grams", "lower_mentions"):
            self._run(f"DELETE FROM {table} WHERE index = %(index)s AND spelling = ANY(%(gone)s)", gone=changed.gone)
        links = self._relate(np.union1d(facts, rows.facts[0]), removed)
        self._mention(np.union1d(chunks, rows.chunks), removed.chunks, len(added), links, changed.entities)

    def _run(self, sql: str, **parameters: Any) -> None:
        """Execute a statement with arrays of the same length, unless they are empty."""
        values = {name: _plain(value) for name, value in parameters.items()}
        if any(len(value) for value in values.values()):
            self._cursor.execute(sql, {"index": self._index, **values})

    def _fetch(self, sql: str, *types: npt.DTypeLike, **parameters: Any) -> tuple[Any, ...]:
        """Return the columns of a query."""
        values = {name: _plain(value) for name, value in parameters.items()}
        return _fetch(self._cursor, sql, {"index": self._index, **values}, *types)

    # -- mentions in lower case

    def _match(self, rows: GraphRows) -> tuple[Index, Index, Flags]:
        """Find the names that new facts have in lower case, and the new names that any facts have; store both."""
        spellings = np.unique(rows.mentions[2])
        (known,) = self._fetch(
            "SELECT number FROM spellings WHERE index = %(index)s AND number = ANY(%(spellings)s)",
            np.int64, spellings=spellings,
        )  # fmt: skip
        owner, gram = _grams_of(self._cursor, self._index, np.setdiff1d(spellings, known))
        old_fact = old_spelling = _NONE
        if len(owner):
            new, place, sizes = np.unique(owner, return_inverse=True, return_counts=True)
            self._run(
                "INSERT INTO name_grams SELECT %(index)s, t.* "
                "FROM unnest(%(grams)s::bigint[], %(owners)s::bigint[], %(sizes)s::smallint[]) t",
                grams=gram, owners=owner, sizes=sizes[place],
            )  # fmt: skip
            stored = self._index << GRAM_BITS | gram
            parts = np.split(stored[np.argsort(place, kind="stable")], np.cumsum(sizes)[:-1])
            old_fact, old_spelling = self._fetch(
                "SELECT f.key, t.spelling FROM unnest(%(new)s::bigint[], %(grams)s::text[]) t(spelling, grams) "
                "JOIN facts f ON f.grams @> t.grams::bigint[]",  # grams hold the index
                np.int64, np.int64, new=new, grams=["{" + ",".join(map(str, part.tolist())) + "}" for part in parts],
            )  # fmt: skip
        fact, spelling = self._names_in(*rows.grams)
        fact, spelling = _distinct(np.concatenate([fact, old_fact]), np.concatenate([spelling, old_spelling]))[0]
        self._run(
            "INSERT INTO lower_mentions SELECT %(index)s, t.* FROM unnest(%(facts)s::bigint[], %(names)s::bigint[]) t",
            facts=fact, names=spelling,
        )  # fmt: skip
        (words,) = self._fetch(
            "SELECT spelling FROM name_grams WHERE index = %(index)s AND spelling = ANY(%(spellings)s) "
            f"AND gram < 1::bigint << {WORD_BITS}",
            np.int64, spellings=np.unique(spelling),
        )  # fmt: skip
        return fact, spelling, np.isin(spelling, words)

    def _names_in(self, fact: Index, gram: Index) -> Pairs:
        """Return facts and the spellings of which they have all grams."""
        known, spelling, size = self._fetch(
            "SELECT gram, spelling, size FROM name_grams WHERE index = %(index)s AND gram = ANY(%(grams)s) "
            "ORDER BY gram",
            np.int64, np.int64, np.int64, grams=np.unique(gram),
        )  # fmt: skip
        start = np.searchsorted(known, gram, "left")
        count = np.searchsorted(known, gram, "right") - start
        at = ranges(start, count)
        owner, of_fact, _ = _distinct(spelling[at], np.repeat(fact, count), known[at])[0]
        (owner, of_fact), found = _distinct(owner, of_fact)[:2]
        spellings, first = np.unique(spelling, return_index=True)
        whole = np.flatnonzero(found == size[first][np.searchsorted(spellings, owner)]) if len(owner) else _NONE
        return of_fact[whole], owner[whole]

    # -- decisions

    def _decide(self, rows: GraphRows, lower: tuple[Index, Index, Flags], removed: GraphRows) -> _Changed:
        """Count the uses again, decide about the spellings in question, and store it; return what changed."""
        new, old = _uses(rows, lower), _uses(removed, removed.lower)
        (of_words,) = self._fetch(
            "SELECT spelling FROM name_grams WHERE index = %(index)s AND gram = ANY(%(words)s)",
            np.int64, words=self._count_words(new.words, old.words),
        )  # fmt: skip
        touched = (new.spelling, old.spelling, new.name_spelling, old.name_spelling, of_words)
        spellings = np.unique(np.concatenate(touched))
        state = self._read_state(spellings)
        for uses, sign in ((new, 1), (old, -1)):
            np.add.at(state.counts.T, np.searchsorted(spellings, uses.spelling), sign * uses.counts.T)
        titles_ = state.titles + self._count_headings(spellings, new.headings, old.headings)
        names = self._read_names(spellings, new, old)
        owner = np.searchsorted(spellings, names.spelling)

        count = dict(zip(_COUNTS, state.counts, strict=True))
        common, rare = ordinary_words(self._word_chunks(state.word), count["as_word"], count["as_capitals"])
        titled = count["titled"] > 0
        spoken = np.where(rare, count["spoken_others"], np.where(common, count["spoken_names"], count["spoken"]))
        decided = UseCounts(common, rare, count["subjects"] > 0, titled, generic_headings(titles_, spoken))
        named = named_as(names.form, owner, names.counts[2] > 0, decided)
        common = common & ~titled
        kept = np.where(named == ALWAYS, names.counts[0], np.where(named == AS_SUBJECT, names.counts[1], 0))
        mentions = np.bincount(owner, kept, len(spellings)).astype(np.int64)
        alive = np.zeros(len(spellings), np.bool_)
        alive[owner[(named == ALWAYS) | ((named == AS_SUBJECT) & (names.counts[1] > 0))]] = True
        there = np.zeros(len(spellings), np.bool_)
        there[owner] = True
        other_names = np.zeros(len(spellings), np.bool_)
        other_names[owner[names.known & (names.named != named)]] = True
        self._store_names(names, named)

        redecided = other_names | (alive != state.alive)
        stated = np.concatenate([aliases[2] for aliases in (rows.aliases, removed.aliases)])
        new_names = np.zeros(len(spellings), np.bool_)
        new_names[owner[~names.known]] = True
        entities, longs, before = self._resolve(
            spellings, state, alive, mentions, np.unique(stated), spellings[redecided | new_names | ~there]
        )
        own = np.array([entities[one] or 0 for one in spellings.tolist()], np.int64)
        differs = other_names | (common != state.common) | (alive != state.alive) | (alive & (own != state.entity))
        self._store_spellings(spellings[there], state, there, titles_, common, mentions, longs, entities)
        self._run("DELETE FROM spellings WHERE index = %(index)s AND number = ANY(%(gone)s)", gone=spellings[~there])
        others = sorted(entities.keys() - set(spellings.tolist()))
        self._run(
            "UPDATE spellings s SET entity = t.entity, alias_of = t.alias_of FROM "
            "unnest(%(numbers)s::bigint[], %(entities)s::bigint[], %(longs)s::bigint[]) t(number, entity, alias_of) "
            "WHERE s.index = %(index)s AND s.number = ANY(%(numbers)s) AND s.number = t.number",
            numbers=others, entities=[entities[one] for one in others], longs=[longs.get(one) for one in others],
        )  # fmt: skip
        moved = [one for one in others if entities[one] != before[one]]
        ends = {*entities.values(), *(before[one] for one in others), *state.entity[state.alive].tolist()} - {None}
        return _Changed(
            np.union1d(spellings[differs], np.array(moved, np.int64)),
            spellings[~there],
            np.array(sorted(ends), np.int64),
        )

    def _read_state(self, spellings: Index) -> _State:
        columns = ", ".join(_COUNTS)
        number, word, common, alive, entity, alias, titles_, *counts = self._fetch(
            "SELECT number, coalesce(word, 0), common, entity IS NOT NULL, coalesce(entity, 0), alias_of, titles, "
            f"{columns} FROM spellings WHERE index = %(index)s AND number = ANY(%(spellings)s) ORDER BY number",
            np.int64, np.int64, np.bool_, np.bool_, np.int64, object, *[np.int64] * (1 + len(_COUNTS)),
            spellings=spellings,
        )  # fmt: skip
        size, place = len(spellings), np.searchsorted(spellings, number)

        def spread(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            found = np.zeros(size, values.dtype)
            found[place] = values
            return found

        known = spread(np.ones(len(number), np.bool_))
        words = spread(word)
        new, gram = self._fetch(
            "SELECT spelling, gram FROM name_grams WHERE index = %(index)s AND spelling = ANY(%(new)s) "
            f"AND gram < 1::bigint << {WORD_BITS}",
            np.int64, np.int64, new=spellings[~known],
        )  # fmt: skip
        words[np.searchsorted(spellings, new)] = gram
        longs = {one: long for one, long in zip(number.tolist(), alias, strict=True) if long is not None}
        table = np.array([spread(column) for column in counts], np.int64)
        return _State(known, words, table, spread(titles_), spread(common), spread(alive), spread(entity), longs)

    def _read_names(self, spellings: Index, new: _Uses, old: _Uses) -> _Names:
        """Return the names of spellings, with their uses after the change; those without are deleted."""
        name, spelling, form, named, *counts = self._fetch(
            "SELECT name, spelling, form, named, mentions, subjects, triples FROM name_uses "
            "WHERE index = %(index)s AND spelling = ANY(%(spellings)s)",
            np.int64, np.int64, np.int8, np.int64, np.int64, np.int64, np.int64, spellings=spellings,
        )  # fmt: skip
        parts = ((name, spelling, form), *((u.name, u.name_spelling, u.name_form) for u in (new, old)))
        every = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
        names, first, place = np.unique(every[0], return_index=True, return_inverse=True)
        table = np.concatenate([np.array(counts, np.int64).reshape(3, len(name)), new.name_counts, -old.name_counts], 1)
        sums = np.zeros((3, len(names)), np.int64)
        np.add.at(sums.T, place, table.T)
        known = np.zeros(len(names), np.bool_)
        known[place[: len(name)]] = True
        before = np.zeros(len(names), np.int64)
        before[place[: len(name)]] = named
        forms = every[2][first]
        there = sums[0] > 0
        gone = np.flatnonzero(~there & known)
        self._run(
            "DELETE FROM name_uses WHERE index = %(index)s AND spelling = ANY(%(spellings)s) AND name = ANY(%(names)s)",
            spellings=every[1][first][gone], names=names[gone],
        )  # fmt: skip
        return _Names(names[there], every[1][first][there], forms[there], sums[:, there], before[there], known[there])

    def _store_names(self, names: _Names, named: npt.NDArray[np.int8]) -> None:
        self._run(
            "INSERT INTO name_uses SELECT %(index)s, t.* FROM unnest(%(spellings)s::bigint[], %(names)s::bigint[], "
            "%(forms)s::smallint[], %(mentions)s::int[], %(subjects)s::int[], %(triples)s::int[], "
            "%(named)s::smallint[]) t ON CONFLICT (index, spelling, name) DO UPDATE SET mentions = excluded.mentions, "
            "subjects = excluded.subjects, triples = excluded.triples, named = excluded.named "
            "WHERE (name_uses.mentions, name_uses.subjects, name_uses.triples, name_uses.named) IS DISTINCT FROM "
            "(excluded.mentions, excluded.subjects, excluded.triples, excluded.named)",
            spellings=names.spelling, names=names.name, forms=names.form, mentions=names.counts[0],
            subjects=names.counts[1], triples=names.counts[2], named=named,
        )  # fmt: skip

    def _store_spellings(
        self,
        numbers: Index,
        state: _State,
        there: Flags,
        titles_: Index,
        common: Flags,
        mentions: Index,
        longs: Mapping[int, int],
        entities: Mapping[int, int | None],
    ) -> None:
        """Write the rows of the spellings that are there."""
        integers = ("titles", *_COUNTS, "mentions")
        columns = ("number", "word", "common", "alias_of", "entity", *integers)
        types = ("bigint", "bigint", "boolean", "bigint", "bigint", *["int"] * len(integers))
        values: dict[str, Any] = {
            "number": numbers,
            "word": [one or None for one in state.word[there].tolist()],
            "common": common[there],
            "alias_of": [longs.get(one) for one in numbers.tolist()],
            "entity": [entities[one] for one in numbers.tolist()],
            "titles": titles_[there],
            "mentions": mentions[there],
            **{name: column[there] for name, column in zip(_COUNTS, state.counts, strict=True)},
        }
        given = ", ".join(f"%({name})s::{kind}[]" for name, kind in zip(columns, types, strict=True))
        changes = [name for name in columns if name not in ("number", "word")]
        own, new = (", ".join(f"{table}.{name}" for name in changes) for table in ("spellings", "excluded"))
        self._run(
            f"INSERT INTO spellings (index, {', '.join(columns)}) SELECT %(index)s, t.* FROM unnest({given}) t "
            f"ON CONFLICT (index, number) DO UPDATE SET ({', '.join(changes)}) = ({new}) "
            f"WHERE ({own}) IS DISTINCT FROM ({new})",
            **values,
        )

    def _count_words(self, new: Pairs, old: Pairs) -> Index:
        """Count the chunks that have words in lower case; return the words whose number changed."""
        words, place = np.unique(np.concatenate([new[0], old[0]]), return_inverse=True)
        change = np.bincount(place, np.concatenate([new[1], -old[1]]), len(words)).astype(np.int64)
        words, change = words[change != 0].astype(np.int64), change[change != 0]
        self._run(
            "INSERT INTO word_counts SELECT %(index)s, t.* FROM unnest(%(words)s::bigint[], %(change)s::int[]) t "
            "ON CONFLICT (index, word) DO UPDATE SET chunks = word_counts.chunks + excluded.chunks",
            words=words, change=change,
        )  # fmt: skip
        self._run(
            "DELETE FROM word_counts WHERE index = %(index)s AND word = ANY(%(words)s) AND chunks = 0",
            words=words[change < 0],
        )
        changed: Index = words
        return changed

    def _word_chunks(self, word: Index) -> Index:
        """Return how many chunks have each word in lower case; 0 for the word 0, which is none."""
        known, chunks = self._fetch(
            "SELECT word, chunks FROM word_counts WHERE index = %(index)s AND word = ANY(%(words)s) ORDER BY word",
            np.int64, np.int64, words=np.unique(word[word > 0]),
        )  # fmt: skip
        return _looked_up(known, chunks, word)

    def _count_headings(
        self, spellings: Index, new: tuple[Index, Index, Index], old: tuple[Index, Index, Index]
    ) -> Index:
        """Count the chunks of headings under titles; return by how many titles each spelling has more."""
        more = np.zeros(len(spellings), np.int64)
        heading, title = np.concatenate([new[0], old[0]]), np.concatenate([new[1], old[1]])
        if len(heading) == 0:
            return more
        pairs = _distinct(heading, title)[0]
        known = self._fetch(
            "SELECT h.spelling, h.title, h.chunks FROM unnest(%(spellings)s::bigint[], %(titles)s::bigint[]) "
            f"t(spelling, title) {one_row('headings', 'h', 'h.spelling = t.spelling AND h.title = t.title')}",
            np.int64, np.int64, np.int64, spellings=pairs[0], titles=pairs[1],
        )  # fmt: skip
        (heading, title), _, starts, order = _distinct(
            np.concatenate([heading, known[0]]), np.concatenate([title, known[1]])
        )
        zeros = np.zeros(len(new[2]) + len(old[2]), np.int64)
        before = np.add.reduceat(np.concatenate([zeros, known[2]])[order], starts)
        after = np.add.reduceat(np.concatenate([new[2], -old[2], known[2]])[order], starts)
        np.add.at(more, np.searchsorted(spellings, heading), (after > 0) * 1 - (before > 0) * 1)
        kept, gone = (after > 0) & (after != before), (after == 0) & (before > 0)
        self._run(
            "INSERT INTO headings SELECT %(index)s, t.* "
            "FROM unnest(%(spellings)s::bigint[], %(titles)s::bigint[], %(chunks)s::int[]) t "
            "ON CONFLICT (index, spelling, title) DO UPDATE SET chunks = excluded.chunks",
            spellings=heading[kept], titles=title[kept], chunks=after[kept],
        )  # fmt: skip
        self._run(
            "DELETE FROM headings WHERE index = %(index)s AND spelling = ANY(%(spellings)s) AND (spelling, title) IN "
            "(SELECT * FROM unnest(%(spellings)s::bigint[], %(titles)s::bigint[]))",
            spellings=heading[gone], titles=title[gone],
        )  # fmt: skip
        return more

    def _resolve(
        self, spellings: Index, state: _State, alive: Flags, mentions: Index, stated: Index, decided: Index
    ) -> tuple[dict[int, int | None], dict[int, int], dict[int, int | None]]:
        """Find the entities of spellings, and of those that are one with them.

        Each short name has at most one long name that it stands for, so names and their aliases are small trees.

        Parameters
        ----------
        spellings, state, alive, mentions
            The spellings in question, what is stored of them, and what they are now.
        stated
            Short spellings whose aliases were stated or taken back.
        decided
            Spellings of which an alias may have become a name, or is none any more.

        Returns
        -------
        tuple
            Entities and long names by spelling, and the entities of before of spellings that are not in question.
        """
        numbers = spellings.tolist()
        found: dict[int, int | None] = {
            one: one if there else None for one, there in zip(numbers, alive.tolist(), strict=True)
        }
        (shorts,) = self._fetch(
            "SELECT DISTINCT short_spelling FROM aliases WHERE index = %(index)s AND (long_spelling = ANY(%(ends)s) "
            "OR short_spelling = ANY(%(ends)s) OR short_spelling = ANY(%(stated)s))",
            np.int64, ends=decided, stated=stated,
        )  # fmt: skip
        shorts = np.union1d(shorts, stated)
        longs = self._read_longs(shorts, spellings, alive) if len(shorts) else {}
        short_set = set(shorts.tolist())
        now = dict(zip(numbers, mentions.tolist(), strict=True))
        stored = {one: (state.alias_of.get(one), now[one]) for one in numbers}
        before: dict[int, int | None] = {}
        ahead = short_set | {one for one in numbers if one in state.alias_of}
        searched = ahead | set(numbers)
        group: set[int] = set()
        while searched:
            rows = self._fetch(
                "SELECT number, alias_of, mentions, entity FROM spellings WHERE index = %(index)s "
                "AND (number = ANY(%(ahead)s) OR alias_of = ANY(%(searched)s))",
                object, object, object, object, ahead=sorted(ahead - stored.keys()), searched=sorted(searched),
            )  # fmt: skip
            for number, long, uses, entity in zip(*rows, strict=True):
                if number not in stored:
                    stored[number] = long, uses
                    before[number] = entity
                if long in searched:  # an alias of a spelling in question
                    ahead |= {number, long}
            group |= ahead
            after = {one: longs.get(one) if one in short_set else stored.get(one, (None, 0))[0] for one in group}
            near = {long for long in after.values() if long is not None}
            near |= {long for one in group if (long := stored.get(one, (None, 0))[0]) is not None}
            near |= {one for one, long in longs.items() if long in group}
            ahead = searched = near - group
        members = np.array(sorted(group & stored.keys()), np.int64)
        after = {one: longs.get(one) if one in short_set else stored[one][0] for one in members.tolist()}
        pairs = [(one, long) for one, long in after.items() if long is not None]
        ends = [np.searchsorted(members, [pair[end] for pair in pairs]).astype(np.int64) for end in (0, 1)]
        uses = np.array([stored[one][1] for one in members.tolist()], np.int64)
        groups = members[resolve((ends[0], ends[1]), (_NONE, _NONE), uses, members)] if len(members) else _NONE
        for one, representative in zip(members.tolist(), groups.tolist(), strict=True):
            there = found[one] is not None if one in now else before[one] is not None
            found[one] = representative if there else None
        all_longs = {one: long for one, long in after.items() if long is not None}
        return found, all_longs, before

    def _read_longs(self, shorts: Index, spellings: Index, alive: Flags) -> dict[int, int]:
        """Return the long name of each short one that has exactly one."""
        aliases = self._fetch(
            "SELECT DISTINCT short, long, short_spelling, long_spelling FROM aliases "
            "WHERE index = %(index)s AND short_spelling = ANY(%(shorts)s)",
            np.int64, np.int64, np.int64, np.int64, shorts=shorts,
        )  # fmt: skip
        names, first = np.unique(np.concatenate(aliases[:2]), return_index=True)
        of_names = np.concatenate(aliases[2:])[first]
        name, spelling, there = self._fetch(
            "SELECT n.name, n.spelling, s.entity IS NOT NULL FROM unnest(%(spellings)s::bigint[], %(names)s::bigint[]) "
            f"t(spelling, name) {one_row('name_uses', 'n', 'n.spelling = t.spelling AND n.name = t.name')} "
            "LEFT JOIN LATERAL (SELECT entity FROM spellings WHERE index = %(index)s AND number = t.spelling LIMIT 1) "
            "s ON true WHERE n.named > 0",
            np.int64, np.int64, np.bool_, spellings=of_names, names=names,
        )  # fmt: skip
        touched = np.isin(spelling, spellings)
        there[touched] = alive[np.searchsorted(spellings, spelling[touched])]
        return _long_names(aliases, lambda wanted: np.isin(wanted, name[there]))

    def _users(self, spellings: Index) -> Pairs:
        """Return the chunks and facts that use spellings, in any case."""
        kind, key = self._fetch(
            "SELECT 0, chunk FROM mentions WHERE index = %(index)s AND spelling = ANY(%(spellings)s) "
            "UNION ALL SELECT 1, fact FROM fact_names WHERE index = %(index)s AND spelling = ANY(%(spellings)s) "
            "UNION ALL SELECT 2, fact FROM lower_mentions WHERE index = %(index)s AND spelling = ANY(%(spellings)s)",
            np.int64, np.int64, spellings=spellings,
        )  # fmt: skip
        chunks = np.concatenate([key[kind == 0], key[kind == 2] >> FACT_BITS])
        return np.unique(chunks), np.unique(key[kind > 0])

    # -- rows of facts, chunks and entities

    def _relate(self, facts: Index, removed: GraphRows) -> Weighted:
        """Give facts their entities and take those of removed facts; return how the links of entities change."""
        old = self._fetch(
            "SELECT fact, entity FROM fact_entities WHERE index = %(index)s AND fact = ANY(%(facts)s)",
            np.int64, np.int64, facts=np.union1d(facts, removed.facts[0]),
        )  # fmt: skip
        new = self._fetch(
            f"""
            SELECT h.fact, s.entity FROM fact_names h
            {one_row("name_uses", "n", "n.spelling = h.spelling AND n.name = h.name")}
            {one_row("spellings", "s", "s.number = h.spelling")}
            WHERE h.index = %(index)s AND h.fact = ANY(%(facts)s) AND s.entity IS NOT NULL AND (
                n.named = {ALWAYS} OR n.named = {AS_SUBJECT} AND EXISTS (
                    SELECT FROM mentions m WHERE m.index = h.index AND m.chunk = h.fact >> {FACT_BITS}
                    AND m.spelling = h.spelling AND m.subject OFFSET 0
                )
            )
            UNION SELECT l.fact, s.entity FROM lower_mentions l
            {one_row("spellings", "s", "s.number = l.spelling")}
            WHERE l.index = %(index)s AND l.fact = ANY(%(facts)s) AND s.entity IS NOT NULL AND NOT s.common
            """,
            np.int64, np.int64, facts=facts,
        )  # fmt: skip
        gone, came = _difference(old, new)
        self._run(
            "DELETE FROM fact_entities WHERE index = %(index)s AND fact = ANY(%(facts)s) AND (fact, entity) IN "
            "(SELECT * FROM unnest(%(facts)s::bigint[], %(entities)s::bigint[]))",
            facts=gone[0], entities=gone[1],
        )  # fmt: skip
        self._run(
            "INSERT INTO fact_entities SELECT %(index)s, t.* "
            "FROM unnest(%(facts)s::bigint[], %(entities)s::bigint[]) t",
            facts=came[0], entities=came[1],
        )  # fmt: skip
        changed = np.unique(np.concatenate([gone[0], came[0]]))
        key, weight = self._fetch(
            "SELECT key, weight FROM facts WHERE index = %(index)s AND key = ANY(%(facts)s)",
            np.int64, np.float32, facts=changed,
        )  # fmt: skip
        weights = np.concatenate([key, removed.facts[0]]), np.concatenate([weight, removed.facts[1]])
        return self._link(_pairs_of(old, changed, weights, -1), _pairs_of(new, changed, weights, 1))

    def _link(self, *parts: Weighted) -> Weighted:
        """Add weights to links; return the entities, and how many links and how much weight they have more."""
        first, second, weight = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        (first, second), _, starts, order = _distinct(first, second)
        change = np.add.reduceat(weight[order], starts) if len(starts) else np.empty(0)
        first, second, change = first[change != 0], second[change != 0], change[change != 0]
        known = self._fetch(
            "SELECT l.entity, l.other, l.sum FROM unnest(%(ones)s::bigint[], %(others)s::bigint[]) t(entity, other) "
            f"{one_row('links', 'l', 'l.entity = t.entity AND l.other = t.other')}",
            np.int64, np.int64, np.float64, ones=first, others=second,
        )  # fmt: skip
        order = np.lexsort((second, first))
        first, second, change = first[order], second[order], change[order]
        before = np.zeros(len(first))
        place = _places(known[:2], (first, second))
        before[place] = known[2]
        after = before + change
        old, new = _rounded(before).astype(np.float64), _rounded(after).astype(np.float64)
        kept = new != 0
        self._run(
            "INSERT INTO links SELECT %(index)s, t.* FROM unnest(%(ones)s::bigint[], %(others)s::bigint[], "
            "%(sums)s::double precision[], %(weights)s::real[]) t "
            "ON CONFLICT (index, entity, other) DO UPDATE SET sum = excluded.sum, weight = excluded.weight",
            ones=first[kept], others=second[kept], sums=after[kept], weights=new[kept],
        )  # fmt: skip
        gone = ~kept & (old != 0)
        self._run(
            "DELETE FROM links WHERE index = %(index)s AND entity = ANY(%(ones)s) AND (entity, other) IN "
            "(SELECT * FROM unnest(%(ones)s::bigint[], %(others)s::bigint[]))",
            ones=first[gone], others=second[gone],
        )  # fmt: skip
        entities, place = np.unique(first, return_inverse=True)
        links = np.bincount(place, (new != 0) * 1 - (old != 0) * 1, len(entities)).astype(np.int64)
        return entities, links, np.bincount(place, new - old, len(entities)).astype(np.float64)

    def _mention(
        self,
        chunks: Index,
        removed: Index,
        added: int,
        links: Weighted,
        decided: Index,
    ) -> None:
        """Give chunks their entities, and count for entities what that and the links change."""
        old = self._fetch(
            "SELECT chunk, entity, weight FROM chunk_entities WHERE index = %(index)s AND chunk = ANY(%(chunks)s)",
            np.int64, np.int64, np.int64, chunks=np.union1d(chunks, removed),
        )  # fmt: skip
        new = self._fetch(
            f"""
            SELECT chunk, entity, CASE WHEN bool_or(subject) THEN {_SUBJECT} ELSE {_MENTION} END FROM (
                SELECT m.chunk, s.entity, m.subject FROM mentions m
                {one_row("name_uses", "n", "n.spelling = m.spelling AND n.name = m.name")}
                {one_row("spellings", "s", "s.number = m.spelling")}
                WHERE m.index = %(index)s AND m.chunk = ANY(%(chunks)s) AND s.entity IS NOT NULL
                AND (n.named = {ALWAYS} OR n.named = {AS_SUBJECT} AND m.subject)
                UNION ALL SELECT c.chunk, s.entity, false FROM unnest(%(chunks)s::bigint[]) c(chunk)
                CROSS JOIN LATERAL (
                    SELECT spelling FROM lower_mentions WHERE index = %(index)s
                    AND fact >= c.chunk << {FACT_BITS} AND fact < (c.chunk + 1) << {FACT_BITS} OFFSET 0
                ) l {one_row("spellings", "s", "s.number = l.spelling")}
                WHERE s.entity IS NOT NULL AND NOT s.common
            ) AS uses GROUP BY chunk, entity
            """,
            np.int64, np.int64, np.int64, chunks=chunks,
        )  # fmt: skip
        gone, came = _difference(old, new)
        self._run(
            "DELETE FROM chunk_entities WHERE index = %(index)s AND chunk = ANY(%(chunks)s) AND (chunk, entity) IN "
            "(SELECT * FROM unnest(%(chunks)s::bigint[], %(entities)s::bigint[]))",
            chunks=gone[0], entities=gone[1],
        )  # fmt: skip
        self._run(
            "INSERT INTO chunk_entities SELECT %(index)s, t.* "
            "FROM unnest(%(chunks)s::bigint[], %(entities)s::bigint[], %(weights)s::smallint[]) t",
            chunks=came[0], entities=came[1], weights=came[2],
        )  # fmt: skip
        turned, is_subject = self._count_entities(gone, came, new[1], links, decided)
        self._store_nodes(chunks, removed, new, is_subject, turned, added)

    def _count_entities(
        self,
        gone: tuple[Index, ...],
        came: tuple[Index, ...],
        used: Index,
        links: Weighted,
        decided: Index,
    ) -> tuple[Pairs, tuple[Index, Flags]]:
        """Update the rows of entities.

        Returns
        -------
        tuple
            The entities that became subjects (1) or are none any more (-1), and for each of ``used`` entities and
            those that changed, in order, whether it is a subject.
        """
        entities = np.unique(np.concatenate([gone[1], came[1], links[0], used, decided]))
        number, *columns = self._fetch(
            "SELECT number, chunks, subjects, links, link_total FROM entities "
            "WHERE index = %(index)s AND number = ANY(%(entities)s)",
            np.int64, np.int64, np.int64, np.int64, np.float64, entities=entities,
        )  # fmt: skip
        size, place = len(entities), np.searchsorted(entities, number)
        chunks, subjects, count, total = (np.zeros(size, column.dtype) for column in columns)
        for target, column in zip((chunks, subjects, count, total), columns, strict=True):
            target[place] = column
        was_subject = subjects > 0
        before = chunks.copy(), subjects.copy(), count.copy(), total.copy()
        for rows, sign in ((gone, -1), (came, 1)):
            at = np.searchsorted(entities, rows[1])
            np.add.at(chunks, at, sign)
            np.add.at(subjects, at, sign * (rows[2] == _SUBJECT))
        at = np.searchsorted(entities, links[0])
        np.add.at(count, at, links[1])
        np.add.at(total, at, links[2])
        changed = np.isin(entities, decided)
        changed[np.setdiff1d(np.arange(size), place)] = True
        for one, other in zip(before, (chunks, subjects, count, total), strict=True):
            changed |= one != other
        found, is_address = self._fetch(
            f"""
            SELECT s.number, EXISTS (
                SELECT FROM spellings o CROSS JOIN LATERAL (
                    SELECT FROM name_uses n WHERE n.index = %(index)s AND n.spelling = o.number
                    AND n.form = {ADDRESS} AND n.named > {NEVER} LIMIT 1
                ) n WHERE o.index = %(index)s AND o.entity = s.number
            ) FROM spellings s
            WHERE s.index = %(index)s AND s.number = ANY(%(entities)s) AND s.entity = s.number
            """,
            np.int64, np.bool_, entities=entities[changed],
        )  # fmt: skip
        there, address = (np.isin(entities[changed], numbers) for numbers in (found, found[is_address]))
        kept = np.flatnonzero(changed)[there]
        self._run(
            "INSERT INTO entities SELECT %(index)s, t.* FROM unnest(%(numbers)s::bigint[], %(chunks)s::int[], "
            "%(subjects)s::int[], %(addresses)s::boolean[], %(links)s::int[], %(totals)s::double precision[]) t "
            "ON CONFLICT (index, number) DO UPDATE SET chunks = excluded.chunks, subjects = excluded.subjects, "
            "is_address = excluded.is_address, links = excluded.links, link_total = excluded.link_total",
            numbers=entities[kept], chunks=chunks[kept], subjects=subjects[kept], addresses=address[there],
            links=count[kept], totals=total[kept],
        )  # fmt: skip
        self._run(
            "DELETE FROM entities WHERE index = %(index)s AND number = ANY(%(gone)s)",
            gone=np.setdiff1d(entities[changed], entities[kept]),
        )
        now = subjects > 0
        turned = np.flatnonzero(now != was_subject)
        return (entities[turned], np.where(now[turned], 1, -1)), (entities, now)

    def _store_nodes(
        self,
        chunks: Index,
        removed: Index,
        rows: tuple[Index, ...],
        is_subject: tuple[Index, Flags],
        turned: Pairs,
        added: int,
    ) -> None:
        """Update the rows of chunks as nodes, and the number of chunks that lead to others."""
        (before,) = self._fetch(
            "SELECT count(*) FROM chunk_nodes WHERE index = %(index)s AND chunk = ANY(%(chunks)s) "
            "AND foreign_subjects > 0",
            np.int64, chunks=np.union1d(chunks, removed),
        )  # fmt: skip
        owner = np.searchsorted(chunks, rows[0])
        foreign = (rows[2] == _MENTION) & is_subject[1][np.searchsorted(is_subject[0], rows[1])]
        leads = np.bincount(owner[foreign], minlength=len(chunks))
        self._run(
            "INSERT INTO chunk_nodes SELECT %(index)s, t.* FROM unnest(%(chunks)s::bigint[], %(degrees)s::int[], "
            "%(totals)s::int[], %(foreign)s::int[]) t ON CONFLICT (index, chunk) DO UPDATE SET "
            "degree = excluded.degree, total = excluded.total, foreign_subjects = excluded.foreign_subjects",
            chunks=chunks, degrees=np.bincount(owner, minlength=len(chunks)),
            totals=np.bincount(owner, rows[2], len(chunks)).astype(np.int64), foreign=leads,
        )  # fmt: skip
        self._run("DELETE FROM chunk_nodes WHERE index = %(index)s AND chunk = ANY(%(removed)s)", removed=removed)
        leading = int((leads > 0).sum()) - int(before[0])
        if len(turned[0]):
            others, change = self._fetch(
                "SELECT c.chunk, sum(t.change) FROM unnest(%(entities)s::bigint[], %(changes)s::bigint[]) "
                "t(entity, change) CROSS JOIN LATERAL (SELECT chunk FROM chunk_entities WHERE index = %(index)s "
                f"AND entity = t.entity AND weight = {_MENTION} OFFSET 0) c GROUP BY c.chunk ORDER BY c.chunk",
                np.int64, np.int64, entities=turned[0], changes=turned[1],
            )  # fmt: skip
            others, change = others[~np.isin(others, chunks)], change[~np.isin(others, chunks)]
            self._run(
                "UPDATE chunk_nodes n SET foreign_subjects = n.foreign_subjects + t.change "
                "FROM unnest(%(chunks)s::bigint[], %(changes)s::bigint[]) t(chunk, change) "
                "WHERE n.index = %(index)s AND n.chunk = ANY(%(chunks)s) AND n.chunk = t.chunk",
                chunks=others, changes=change,
            )  # fmt: skip
            (count,) = self._fetch(
                "SELECT foreign_subjects FROM chunk_nodes WHERE index = %(index)s AND chunk = ANY(%(chunks)s) "
                "ORDER BY chunk",
                np.int64, chunks=others,
            )  # fmt: skip
            leading += int((count > 0).sum()) - int((count - change > 0).sum())
        self._cursor.execute(
            "UPDATE graph_state SET chunks = chunks + %s, leading_chunks = leading_chunks + %s WHERE index = %s",
            (added - len(removed), leading, self._index),
        )


def similar_names(cursor: Cursor, index: int, least: float, names: Keys | None = None) -> Pairs:
    """Return pairs of names, of all or of some, whose vectors have at least this cosine similarity.

    Each name is compared with its eight nearest, as in the embedded engine.
    """
    chosen = "" if names is None else " AND key = ANY(%s)"
    cursor.execute(
        f"SELECT key, vector FROM name_vectors WHERE index = %s{chosen} ORDER BY key",
        (index,) if names is None else (index, names),
    )
    rows = cursor.fetchall()
    if not rows:
        return _NONE, _NONE
    keys, vectors = np.array([row[0] for row in rows], np.int64), matrix([row[1] for row in rows])
    first, second = [_NONE], [_NONE]
    for start in range(0, len(keys), _NAMES_PAGE):
        scores = vectors[start : start + _NAMES_PAGE] @ vectors.T
        scores[np.arange(len(scores)), start + np.arange(len(scores))] = -np.inf
        nearest = np.argpartition(-scores, min(_NEAREST, len(keys) - 1), axis=1)[:, :_NEAREST]
        one, place = np.nonzero(np.take_along_axis(scores, nearest, 1) >= least)
        ends = keys[start + one], keys[nearest[one, place]]
        first.append(np.minimum(*ends))
        second.append(np.maximum(*ends))
    return np.concatenate(first), np.concatenate(second)


def _no_rows() -> GraphRows:
    none, flags = _NONE, np.empty(0, np.bool_)
    return GraphRows(
        none, (none, none, none, none.astype(np.int8), flags),
        (none, none.astype(np.float32), flags, none), (none, none, none), (none, none),
        (none, none, none, none), (none, none, flags),
    )  # fmt: skip


def _grams_of(cursor: Cursor, index: int, spellings: Index) -> Pairs:
    """Return spellings and their grams, from their names."""
    if len(spellings) == 0:
        return _NONE, _NONE
    numbers, surfaces = _fetch(
        cursor,
        "SELECT DISTINCT ON (spelling) spelling, surface FROM names WHERE index = %s AND spelling = ANY(%s)",
        (index, spellings.tolist()), np.int64, object,
    )  # fmt: skip
    owner, gram = name_grams([normalise(surface) for surface in surfaces])
    return _distinct(numbers[owner], gram & _GRAM)[0]  # type: ignore[return-value]


def _long_names(aliases: tuple[Index, ...], is_name: Callable[[Index], Flags]) -> dict[int, int]:
    """Return for each short spelling the long one that it stands for, if there is exactly one; see ``resolve``.

    ``aliases`` are short and long names, short and long spellings.
    """
    short, long, of_short, of_long = aliases
    if len(short) == 0:
        return {}
    valid = is_name(short).astype(np.bool_) & is_name(long).astype(np.bool_) & (of_short != of_long)
    first, second = _distinct(of_short[valid], of_long[valid])[0]
    numbers, at, counts = np.unique(first, return_index=True, return_counts=True)
    alone = counts == 1
    return dict(zip(numbers[alone].tolist(), second[at[alone]].tolist(), strict=True))


def _pairs_of(
    rows: tuple[Index, ...], changed: Index, weights: tuple[Index, npt.NDArray[np.float32]], sign: int
) -> Weighted:
    """Return the pairs of entities that changed facts link, and their weights.

    ``rows`` are facts and entities, ``weights`` the keys and weights of facts.
    """
    fact, entity = rows
    inside = np.isin(fact, changed)
    order = np.argsort(fact[inside], kind="stable")
    fact, entity = fact[inside][order], entity[inside][order]
    if len(fact) == 0:
        return _NONE, _NONE, np.empty(0)
    starts = np.flatnonzero(np.r_[True, np.diff(fact) != 0])
    counts = np.diff(np.r_[starts, len(fact)])
    of_row = np.repeat(np.arange(len(starts)), counts)
    few = counts[of_row] <= MOST_LINKED  # a fact of more entities is a list
    wanted = np.where(few, counts[of_row], 0)
    first, second = np.repeat(entity, wanted), entity[ranges(starts[of_row], wanted)]
    by_key = np.argsort(weights[0])
    weight = weights[1][by_key[np.searchsorted(weights[0], fact, sorter=by_key)]]
    strength = sign * np.repeat((weight / 10).astype(np.float32).astype(np.float64), wanted)
    other = first != second
    return first[other], second[other], strength[other]


def _distinct(*columns: Index) -> tuple[tuple[Index, ...], Index, Index, Index]:
    """Return the different rows of some columns in order, how often each is there, and how they were sorted.

    The last two are where each row starts among the sorted ones, and the order of the given rows.
    """
    order = np.lexsort(columns[::-1])
    rows = [column[order] for column in columns]
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in rows:
        new[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(new)
    return tuple(column[starts] for column in rows), np.diff(np.r_[starts, len(order)]), starts, order


def _difference(old: tuple[Index, ...], new: tuple[Index, ...]) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
    """Return the rows, each there once, that only ``old`` has, and those that only ``new`` has."""
    columns = [np.concatenate(pair) for pair in zip(old, new, strict=True)]
    rows, counts, starts, order = _distinct(*columns)
    alone, of_old = counts == 1, order[starts] < len(old[0])
    return tuple(column[alone & of_old] for column in rows), tuple(column[alone & ~of_old] for column in rows)


def _places(rows: tuple[Index, ...], among: tuple[Index, ...]) -> Index:
    """Return where pairs are among sorted pairs that contain them."""
    first, second = np.concatenate([among[0], rows[0]]), np.concatenate([among[1], rows[1]])
    order = np.lexsort((np.arange(len(first)), second, first))
    is_one = order < len(among[0])
    place = np.empty(len(first), np.int64)
    place[order] = np.cumsum(is_one) - 1
    return place[len(among[0]) :]


def _looked_up(known: Index, values: Index, wanted: Index) -> Index:
    """Return the values of wanted keys among sorted ones; 0 for those that are not known."""
    if len(known) == 0:
        return np.zeros(len(wanted), np.int64)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, values[place], 0)


def _rounded(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return the weights of links, see :attr:`GraphView.links`."""
    return np.round(sums, 6).astype(np.float32)


def _entries(matrix: Any) -> Pairs:
    """Return the rows and columns of the entries of a sparse matrix."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices.astype(np.int64)


def _plain(value: Any) -> Any:
    """Return a value as a database driver takes it; numbers stay an array, see ``database``."""
    return value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind not in "ifb" else value


def _fetch(cursor: Cursor, sql: str, parameters: Any, *types: npt.DTypeLike) -> tuple[Any, ...]:
    """Return the columns of a query's rows as arrays."""

    def rows(sql: str, parameters: Any) -> Any:
        return cursor.execute(sql, parameters).fetchall()

    if object not in types:
        return columns(rows, sql, parameters, *types)
    found = [*zip(*rows(sql, parameters), strict=True)] or [()] * len(types)
    return tuple(_array(column, kind) for column, kind in zip(found, types, strict=True))


def _array(values: Sequence[Any], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    if kind is object:
        found = np.empty(len(values), object)
        found[:] = values
        return found
    return np.array(values, kind)


def _fetch_one(cursor: Cursor, sql: str, parameters: Sequence[Any]) -> Any:
    cursor.execute(sql, parameters)
    return cursor.fetchone()
