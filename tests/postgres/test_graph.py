"""The graph in PostgreSQL is counted as the rows say, and answers as the embedded engine does."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from changes import SETTINGS, some_document

from graphrag_core import Document, KnowledgeIndex, SentenceExtractor
from graphrag_core.engine.postgres import PostgresEngine, counting, reads
from graphrag_core.engine.postgres import engine as engine_module
from graphrag_core.filters import attributes, matches, parse, parse_all
from graphrag_core.ingest.remembered import visible
from graphrag_core.testing import HashEmbedder


def make_index(engine=None, **settings) -> KnowledgeIndex:
    return KnowledgeIndex(HashEmbedder(16), engine=engine, **SETTINGS, **settings)


def problems(index) -> list[str]:
    with index.engine.database.transaction() as cursor:
        return [*counting.problems(cursor, index.engine.index)]


def labels(snapshot, nodes) -> list[tuple[str, ...]]:
    """Return the nodes as text that is the same in every engine."""
    is_chunk = nodes < snapshot.first_entity
    chunks = iter(snapshot.chunks(nodes[is_chunk]))
    entities = iter(snapshot.entities(nodes[~is_chunk]))
    return [
        (next(chunks).id,) if one else ((entity := next(entities)).id, entity.name, str(entity.aliases))
        for one in is_chunk.tolist()
    ]


def said(snapshot, facts) -> list[tuple]:
    return [(fact.entities, fact.text, fact.relation, fact.weight) for fact in snapshot.facts(facts)]


def rows(counts, *columns) -> list[list]:
    """Return columns as lists of rows, one list for each node."""
    ends = np.cumsum(counts).tolist()
    every = [*zip(*(column if isinstance(column, list) else column.tolist() for column in columns), strict=True)]
    return [every[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]


def described(snapshot) -> dict[str, object]:
    """Return all that a snapshot says about its graph, by ids and names."""
    things = snapshot.top_entities(1_000)
    chunks = np.unique(snapshot.neighbours(things, "chunks").targets)
    order = np.argsort([chunk.id for chunk in snapshot.chunks(chunks)], kind="stable")
    chunks = chunks[order]
    nodes = np.concatenate([things, chunks])
    found: dict[str, object] = {
        "entities": snapshot.entities(things),
        "linked share": snapshot.linked_share,
        "counts": [snapshot.entity_counts(things).tolist(), snapshot.are_subjects(things).tolist()],
        "spellings": [snapshot.spellings(int(entity)) for entity in things],
        "names": {
            name: labels(snapshot, np.array([entity]))
            for name, entity in sorted(snapshot.find_entities(["ama", "ibm", "redis", "session", "select"]).items())
        },
    }
    edges = snapshot.mentions(chunks)
    found["mentions"] = [sorted(own) for own in rows(edges.counts, labels(snapshot, edges.targets), edges.is_about)]
    for to in (None, "chunks", "entities"):
        for limit in (None, 2):
            edges = snapshot.neighbours(nodes, to, limit)
            targets = rows(
                edges.counts, labels(snapshot, edges.targets), edges.weights, snapshot.degrees(edges.targets)
            )
            if limit is None:
                targets = [sorted(own) for own in targets]
            found[f"neighbours {to} {limit}"] = targets, edges.totals.tolist()
    facts = snapshot.facts_of(things)
    of_facts = snapshot.fact_rows(facts)
    found["facts"] = said(snapshot, facts)
    found["fact rows"] = (
        labels(snapshot, of_facts.chunks), of_facts.weights.tolist(),
        rows(of_facts.counts, labels(snapshot, of_facts.entities)),
    )  # fmt: skip
    found["some facts"] = said(snapshot, snapshot.facts_of(things, limit=1))
    for at, entity in enumerate(things[:6]):
        own = snapshot.facts_of(np.array([entity]))
        keys, confidence, _ = snapshot.outgoing_facts(int(entity), own)
        found[f"triples {at}"] = said(snapshot, own[snapshot.are_triples(own)])
        found[f"outgoing {at}"] = sorted(zip(said(snapshot, keys), confidence.tolist(), strict=True))
        pair = np.array([entity, things[0]])
        found[f"joint {at}"] = said(snapshot, snapshot.facts_of(pair, joint=True))
    return found


def assert_same(wanted, found, scope=None) -> None:
    filter_ = None if scope is None else parse(scope)
    with wanted.engine.snapshot(filter_) as one, found.engine.snapshot(filter_) as other:
        want, have = described(one), described(other)
    for (name, value), same in zip(want.items(), have.values(), strict=True):
        assert same == value, name


@pytest.fixture(params=["in memory", "in the tables"])
def scopes_are_walked(request, monkeypatch):
    """Small scopes are read at once. The tables are walked for large ones."""
    if request.param == "in the tables":
        monkeypatch.setattr(engine_module, "SMALL_SCOPE", 0)


@pytest.mark.usefixtures("scopes_are_walked")
@pytest.mark.parametrize("seed", range(3))
def test_a_lived_graph_is_the_one_built_from_the_rows(urls, seed) -> None:
    """Random additions, replacements and deletions; the answers are those of the embedded engine."""
    chance = random.Random(seed)
    with make_index() as wanted, make_index(PostgresEngine(urls())) as found:
        for step in range(16):
            documents = {document.id: document for document in (some_document(chance) for _ in range(3))}
            gone = [one for one in wanted.engine.document_ids() if chance.random() < 0.15 and one not in documents]
            for index in (wanted, found):
                index.add([*documents.values()])
                if gone:
                    index.delete(gone)
            assert problems(found) == []
            if step % 5 == 4:
                assert_same(wanted, found)
                assert_same(wanted, found, {"team": "x"})


@pytest.mark.usefixtures("scopes_are_walked")
def test_a_scope_is_that_of_the_embedded_engine(urls) -> None:
    """Degrees are exact below the number that is asked for."""
    chance = random.Random(23)
    with make_index() as wanted, make_index(PostgresEngine(urls())) as found:
        documents = [replace(some_document(chance), id=f"d{at}") for at in range(40)]
        for index in (wanted, found):
            index.add(documents)
        scopes = {"team": "x"}, {"__id__": {"in": [f"d{at}" for at in range(0, 40, 2)]}}, {"not": {"__id__": "d3"}}
        for scope in scopes:
            assert_same(wanted, found, scope)
            with found.engine.snapshot(parse(scope)) as whole:
                nodes = whole.top_entities(1_000)
                exact = dict(zip(labels(whole, nodes), whole.degrees(nodes).tolist(), strict=True))
            for most in (1.0, 2.5, 1e9):
                with found.engine.snapshot(parse(scope)) as snapshot:
                    nodes = snapshot.top_entities(1_000)
                    degrees = snapshot.degrees(nodes, np.full(len(nodes), most))
                    for label, degree in zip(labels(snapshot, nodes), degrees.tolist(), strict=True):
                        assert degree == exact[label] or most <= degree <= max(most, exact[label])


@pytest.mark.usefixtures("scopes_are_walked")
def test_generic_headings_of_a_scope_are_those_of_all_documents(urls) -> None:
    """One that a triple holds is a name, in every scope. Others are none, in a scope that has few of them, too."""
    body = "# {0} Manual\n\nThe {0} Manual starts here.\n\n## {1}\n\nOne does this with care.\n"
    documents = [
        Document(f"{name} {heading}", body.format(name, heading), f"{name} Manual", {"team": "x" if at else "y"})
        for at, name in enumerate(("Alpha", "Bravo", "Charlie", "Delta", "Foxtrot"))
        for heading in ("Installation Steps", "Cable Layout")
    ]
    settings = {**SETTINGS, "extractor": SentenceExtractor()}
    with (
        KnowledgeIndex(HashEmbedder(16), **settings) as wanted,
        KnowledgeIndex(HashEmbedder(16), engine=PostgresEngine(urls()), **settings) as found,
    ):
        for index in (wanted, found):
            index.add(documents)
            index.memory.remember("Installation Steps", "needs", "Grounding Kit")
            for where in ({"team": "x"}, {"team": "y"}):
                assert index.graph.entity("Installation Steps", where=where) is not None
                assert index.graph.entity("Cable Layout", where=where) is None
        assert_same(wanted, found, {"team": "x"})
        assert_same(wanted, found, {"team": "y"})


def test_a_read_that_failed_leaves_nothing_behind(url, monkeypatch) -> None:
    """What questions share of a generation is what the server said."""
    with make_index(PostgresEngine(url)) as index:
        index.add([Document("1", "Ada Lovelace wrote to Charles Babbage.", "Letters")])
        expected = [entity.name for entity, _ in index.graph.neighbours("Ada Lovelace")]
        index.engine._caches.clear()
        read = reads.Transaction.read

        def fail(self, tables, **parameters):
            if "n" in tables and "s" not in tables:
                raise KeyboardInterrupt
            return read(self, tables, **parameters)

        monkeypatch.setattr(reads.Transaction, "read", fail)
        with pytest.raises(KeyboardInterrupt), index.engine.snapshot() as snapshot:
            snapshot.entity_counts(snapshot.mentions(snapshot.search_keywords("chunks", "Ada", 1)[0]).targets)
        monkeypatch.undo()
        assert [entity.name for entity, _ in index.graph.neighbours("Ada Lovelace")] == expected


def test_a_filter_is_resolved_by_one_statement(urls, monkeypatch) -> None:
    """The same chunks, whether those of few documents are looked up or all are looked at."""
    chance = random.Random(29)
    scopes = [
        {"team": "x"},
        {"n": {"gte": 3, "lt": 9}},
        {"n": {"in": [1, 4, "4", True]}},
        {"n": {"in": [2, 5]}},
        {"tags": {"in": ["a", "b"]}},
        {"__id__": {"in": ["d1", "d2", "none"]}},
        {"or": [{"tags": "c"}, {"not": {"n": {"lt": 15}}}]},
        {"n": {"gt": 100}},
    ]
    with make_index(PostgresEngine(urls())) as index:
        documents = [
            replace(
                some_document(chance), id=f"d{at}", metadata={"n": at, "tags": ["a", "b", "c"][: at % 4], "team": "x"}
            )
            for at in range(20)
        ]
        index.add(documents)
        for few in (0, 10**9):
            monkeypatch.setattr(reads, "_FEW", few)
            for scope in scopes:
                asked = []
                wanted = {one.id for one in documents if matches(scope, one.metadata, one.id)}
                with index.engine.snapshot() as snapshot:
                    transaction = snapshot._store.tables
                    run = transaction._execute
                    transaction._execute = lambda *statement, run=run, asked=asked: asked.append(1) or run(*statement)
                    chunks, _ = transaction.chunks_in(parse(scope))
                    assert len(asked) == 1
                    assert chunks.tolist() == sorted(chunks.tolist())
                    rows = transaction.rows("SELECT d.id FROM chunks c JOIN documents d ON d.index = c.index AND "
                                            "d.key = c.document WHERE c.key = ANY(%s)", (chunks,))  # fmt: skip
                    assert {row[0] for row in rows} == wanted, scope
                    assert len(rows) == len(chunks) == sum(len(index.engine.chunks_of(one)) for one in wanted)
        with index.engine.snapshot(parse({"unknown": 1})) as snapshot:
            assert (snapshot.chunk_count, snapshot.unknown_keys) == (0, ("unknown",))
            assert snapshot.metadata_keys() == sorted(
                {name for one in documents for name, _ in attributes(one.metadata)}
            )


@pytest.mark.usefixtures("scopes_are_walked")
def test_edits_apply_to_the_whole_graph_and_are_undone_without_a_trace(urls) -> None:
    """Renamed, merged and deleted entities, before and after further changes."""
    chance = random.Random(5)
    documents = [replace(some_document(chance), id=f"d{at}") for at in range(20)]
    with make_index() as wanted, make_index(PostgresEngine(urls())) as found:
        for index in (wanted, found):
            index.add(documents[:15])
            index.graph.rename("Redis", "Key Value Store")
            index.graph.merge(["IBM"], into="Ada Lovelace")
            index.graph.delete_entity("Red Fox")
        assert problems(found) == []
        assert_same(wanted, found)
        for index in (wanted, found):
            index.add(documents[15:])
        assert_same(wanted, found)
        assert_same(wanted, found, {"team": "y"})
        for index in (wanted, found):
            for edit in [*index.graph.edits()]:
                index.graph.undo(edit.number)
            index.delete(["d3"])
        assert problems(found) == []
        assert_same(wanted, found)


def test_explicit_edges_lead_where_they_lead_in_the_embedded_engine(urls) -> None:
    """Also after the document at their other end came and went."""
    edges = [("author", "author"), ("links", "id")]
    documents = [
        Document("k", "Kestrels hover above meadows.", "Kestrels", {"author": "Mara Lindqvist", "links": ["f"]}),
        Document("l", "Lupins grow in acid soil.", "Lupins", {"author": ["Tomas Vael", "Mara Lindqvist"]}),
        Document("f", "Spores are how these plants spread.", "Ferns", {"author": "Rosa Millan"}),
        Document("g", "Granite forms slowly.", "Granite", {"links": ["b"]}),
    ]
    with make_index(edges=edges) as wanted, make_index(PostgresEngine(urls()), edges=edges) as found:
        for index in (wanted, found):
            index.add(documents)
        assert problems(found) == []
        assert_same(wanted, found)
        for index in (wanted, found):
            index.delete("f")
        assert problems(found) == []
        assert_same(wanted, found)


@pytest.mark.usefixtures("scopes_are_walked")
def test_names_of_hidden_facts_alone_are_not_found_by_similarity(url):
    """The same entities as in memory, with a filter and without one."""
    found = []
    for engine in (None, PostgresEngine(url)):
        with KnowledgeIndex(HashEmbedder(), engine=engine, embed_names=True, progress=False) as index:
            index.add([
                Document("a", "The Auth Service runs on Redis.", metadata={"team": "one"}),
                Document("b", "Kelvaag Instruments owns the Tariff Planner.", metadata={"team": "two"}),
            ])  # fmt: skip
            index.memory.remember("Auth Service", "runs on", "Valkey Cluster", valid_to=1.0)
            at = 2.0
            vector = HashEmbedder().embed_query("valkey cluster")
            for where in (None, {"team": "one"}):
                with index.engine.snapshot(visible(index.engine, parse_all(where), at)) as snapshot:
                    ((entities, _),) = snapshot.search_vectors("entities", vector[None, :], 10)
                    found.append(sorted(entity.name for entity in snapshot.entities(entities)))
    assert found[:2] == found[2:]
    assert "Valkey Cluster" not in found[0]
    assert "Tariff Planner" not in found[1]
