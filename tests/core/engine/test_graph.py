"""The graph in memory: whatever came and went, and whatever a question may see, it is that of those documents alone."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from changes import CHUNKER, MORE, StatedAliases, some_document
from support import snapshot

from graphrag_core import Combined, Document, GraphRetriever, KnowledgeExtractor, KnowledgeIndex, SentenceExtractor
from graphrag_core.engine.embedded.graph_rows import graph_rows
from graphrag_core.engine.graph.counters import COUNTERS, Mentions, count, exist
from graphrag_core.engine.graph.memory import MemoryGraph
from graphrag_core.engine.graph.sparse import Growing, Rows, remembered
from graphrag_core.filters import parse
from graphrag_core.model import Extraction, Fact, Mention
from graphrag_core.result import Trace
from graphrag_core.testing import HashEmbedder
from graphrag_core.testing.samples import FixedExtractor

QUESTIONS = ["Who met Ada Lovelace?", "auth service session", "What did the AMA write to IBM?", "Tomas Vael and Redis"]
PEOPLE = ["Ada Lovelace", "Mara", "Tomas Vael", "Redis", "Red Fox", "IBM"]
SETTINGS = {
    "chunker": CHUNKER,
    "extractor": Combined(SentenceExtractor(), StatedAliases(), KnowledgeExtractor()),
    "edges": [("author", "author"), ("links", "id")],
    "progress": False,
}


def document(chance: random.Random) -> Document:
    """Return one of 15 documents with sections, links, aliases, triples and explicit edges."""
    made = some_document(chance)
    triples = [[*chance.sample(PEOPLE, 2), chance.choice(["likes", "met"])] for _ in range(chance.randint(0, 2))]
    more = {
        "author": chance.sample(PEOPLE[1:4], chance.randint(0, 2)),
        "links": [f"d{chance.randint(0, 14)}" for _ in range(chance.randint(0, 2))],
        "knowledge": [[one, relation, other] for one, other, relation in triples],
        "n": chance.randint(0, 3),
    }
    return replace(made, metadata={**made.metadata, **more})


def make(place=None, **more) -> KnowledgeIndex:
    settings = SETTINGS | more
    return KnowledgeIndex(HashEmbedder(16), **settings) if place is None else KnowledgeIndex.open(
        place, HashEmbedder(16), **settings
    )  # fmt: skip


def change(chance: random.Random, present: dict[str, Document], *indexes: KnowledgeIndex) -> None:
    """Add, replace or delete some documents."""
    if chance.random() < 0.65 or not present:
        added = {one.id: one for one in (document(chance) for _ in range(chance.randint(1, 3)))}
        present |= added
        for index in indexes:
            index.add(added.values())
    else:
        gone = chance.sample(sorted(present), min(len(present), chance.randint(1, 3)))
        for one in gone:
            del present[one]
        for index in indexes:
            index.delete(gone)


def graph_of(index: KnowledgeIndex) -> MemoryGraph:
    with index.engine.reading() as indexes:
        return indexes.current_graph()[0]


def built(index: KnowledgeIndex) -> MemoryGraph:
    """Return a graph that is built from all rows of the records."""
    graph, records = MemoryGraph(), index.engine.records
    for rows in records.graph_rows(records.everything()):
        graph.add(graph_rows(rows))
    return graph


def assert_same_arrays(found: MemoryGraph, wanted: MemoryGraph) -> None:
    mine, other = found.packed().arrays(), wanted.packed().arrays()
    assert mine.keys() == other.keys()
    for name, array in other.items():
        assert array.dtype == mine[name].dtype, name
        assert np.array_equal(mine[name], array), name


def described(index: KnowledgeIndex, where=None) -> dict[str, object]:
    """Everything that questions read of the graph of some documents, in ids and texts."""
    chunk_ids = [chunk.id for one in index.document_ids(where) for chunk in index.engine.chunks_of(one)]
    with index.engine.snapshot(None if where is None else parse(where)) as read:
        chunks = np.array([*read.find_chunks(chunk_ids).values()], np.int64)
        entities = np.sort(read.top_entities(10**6))
        every = np.unique(np.concatenate([read.walk(chunks).targets, entities]))  # with addresses
        nodes = np.concatenate([chunks, every])
        names = {
            **{key: (one.id, "chunk") for key, one in zip(chunks.tolist(), read.chunks(chunks), strict=True)},
            **{
                key: (one, read.spellings(key))
                for key, one in zip(every.tolist(), read.entities(every), strict=True)
            },
        }  # fmt: skip

        def edges(found) -> list[str]:
            owners = nodes.repeat(found.counts).tolist()
            rows = zip(owners, found.targets.tolist(), found.weights.tolist(), strict=True)
            return sorted(f"{names[one]} {names[other]} {weight:.4f}" for one, other, weight in rows)

        walk, mentions = read.walk(nodes), read.mentions(chunks)
        degrees = read.degrees(nodes)
        assert degrees.tolist() == walk.counts.tolist()
    with index.engine.snapshot(None if where is None else parse(where)) as other:  # which has counted nothing yet
        most = np.full(len(nodes), 2.5)
        bounded = other.degrees(nodes, most)
        assert ((bounded == degrees) | ((bounded >= most) & (bounded <= degrees))).all()
        facts = read.facts_of(every)
        spellings = sorted({norm for key in entities.tolist() for norm in read.spellings(key)})
        found = read.find_entities(spellings)
        counts, about = read.entity_counts(every), read.are_subjects(every)
        return {
            "entities": sorted(map(repr, names.values())),
            "top": [repr(names[key]) for key in read.top_entities(7).tolist()],
            "counts": sorted(
                zip(map(repr, map(names.get, every.tolist())), counts.tolist(), about.tolist(), strict=True)
            ),
            "found": {name: repr(names[key]) for name, key in found.items()},
            "walk": edges(walk),
            "totals": sorted(zip(map(repr, map(names.get, nodes.tolist())), walk.totals.tolist(), strict=True)),
            "neighbours": edges(read.neighbours(nodes)),
            "subjects": [repr(names.get(key)) for key in mentions.targets[mentions.is_about].tolist()],
            "sizes": mentions.counts.tolist(),
            "facts": sorted(map(repr, read.facts(facts))),
            "facts in chunks": sorted(map(repr, read.facts(read.facts_in(chunks)))),
            "rows": sorted(_fact_rows(read, facts, names)),
            "joint": [
                sorted(fact.id for fact in read.facts(read.facts_of(np.array(pair), joint=True)))
                for pair in pairwise(every.tolist())
            ],
            "like": [repr(names[key]) for key in read.search_names("", "a").tolist()],
        }  # fmt: skip


def _fact_rows(read, facts, names) -> list[tuple[str, str, float, list[str]]]:
    rows = read.fact_rows(facts)
    held = np.split(rows.entities, rows.counts.cumsum()[:-1]) if len(facts) else []
    columns = zip(read.facts(facts), rows.chunks.tolist(), rows.weights.tolist(), held, strict=True)
    return [
        (fact.id, names[chunk][0], weight, sorted(repr(names[key]) for key in own.tolist()))
        for fact, chunk, weight, own in columns
    ]


def assert_same_description(found: dict[str, object], wanted: dict[str, object]) -> None:
    for name, value in wanted.items():
        assert found[name] == value, name


def answers(index: KnowledgeIndex, where=None) -> list[object]:
    retriever = GraphRetriever(index, k=8, cache=False)
    results = (retriever.retrieve(question, where=where) for question in QUESTIONS)
    return [replace(result, trace=Trace(), generation=0) for result in results]


def edit(index: KnowledgeIndex) -> None:
    """Rename, merge and delete what is there."""
    known = lambda name: index.graph.entity(name) is not None  # noqa: E731
    if known("Redis"):
        index.graph.rename("Redis", "Valkey")
    if known("Mara") and known("Tomas Vael"):
        index.graph.merge(["Tomas Vael"], "Mara")
    if known("IBM"):
        index.graph.delete_entity("IBM")
    for relation in index.graph.relations(relation="likes", limit=1):
        index.graph.delete_relation(relation)


# -- after changes


@pytest.mark.parametrize("seed", range(6))
def test_after_any_changes_the_graph_is_that_of_the_remaining_documents(seed):
    chance, present = random.Random(seed), dict[str, Document]()
    with make(batch_size=chance.choice([1, 2, 100])) as lived, make() as fresh:
        for _ in range(25):
            change(chance, present, lived)
            if chance.random() < 0.5:  # else the next view has several changes
                assert_same_arrays(graph_of(lived), built(lived))
        assert lived.verify(), str(lived.verify())
        fresh.add(chance.sample([*present.values()], len(present)))
        if seed % 2:
            edit(fresh)
            lived.engine.write(settings={"edits": fresh.engine.settings().get("edits", "")})
        assert graph_of(lived).removed > 0
        assert_same_description(described(lived), described(fresh))
        assert snapshot(lived) == snapshot(fresh)
        for where in (None, {"team": "x"}):
            assert answers(lived, where) == answers(fresh, where)


@pytest.mark.parametrize("seed", range(4))
def test_a_saved_graph_is_the_one_in_memory_and_follows_changes(tmp_path, seed):
    chance, present = random.Random(50 + seed), dict[str, Document]()
    with make() as in_memory:
        for _ in range(5):
            with make(tmp_path / "kb") as index:
                for _ in range(chance.randint(0, 4)):
                    change(chance, present, index, in_memory)
                    assert_same_arrays(graph_of(index), built(index))
                assert index.verify(), str(index.verify())
                in_one_go = {name: Growing(array.copy()) for name, array in graph_of(index).packed().arrays().items()}
                assert_same_arrays(MemoryGraph.load(in_one_go), graph_of(index))
            with KnowledgeIndex.open(tmp_path / "kb", read_only=True) as reader:
                assert reader.engine.indexes._is_mapped or not present
                assert_same_description(described(reader), described(in_memory))


def test_packing_changes_no_answer_and_leaves_out_what_is_gone():
    chance, present = random.Random(7), dict[str, Document]()
    with make() as index:
        for _ in range(20):
            change(chance, present, index)
        before = described(index), answers(index)
        graph = graph_of(index)
        packed = graph.packed()
        assert packed.removed == 0
        assert packed.there.all()
        assert len(packed) == graph.there.sum() < len(graph)
        assert packed.packed() is packed
        with index.engine.reading() as indexes:
            indexes.graph = packed
            indexes._id_places = None
        assert (described(index), answers(index)) == before
        change(chance, present, index)
        assert_same_arrays(graph_of(index), built(index))
        index.delete([*present])
        assert {name: len(array) for name, array in graph_of(index).packed().arrays().items() if len(array)} == {
            "mentions.counts": 1_024
        }


def test_what_was_removed_is_not_there():
    extractor = FixedExtractor({"a": [Fact(("Ann", "Bob"), "Ann, Bob")]})
    with KnowledgeIndex(HashEmbedder(16), extractor=extractor, progress=False) as index:
        index.add([Document("a", "Some text."), Document("b", "it rained.")])
        for wanted in (True, False):
            with index.engine.snapshot() as read:
                assert [read.has(kind) for kind in ("chunks", "facts", "entities")] == [True, wanted, wanted]
            index.delete("a")
        assert graph_of(index).removed == 1


def test_memory_does_not_grow_with_changes_that_cancel_out(monkeypatch):
    monkeypatch.setattr("graphrag_core.engine.graph.memory._MANY", 50)
    with make() as index:
        index.add([Document(f"a{at}", MORE[at % len(MORE)]) for at in range(60)])
        sizes = []
        for at in range(150):
            index.add([Document("b", f"{MORE[at % len(MORE)]} Uppsala{at} is left.")])
            sizes.append(graph_of(index).nbytes)
        assert max(sizes[75:]) <= 1.5 * max(sizes[:75])


# -- in a scope

FILTERS = [
    {"team": "x"},
    {"not": {"team": "x"}},
    {"n": {"lte": 1}},
    {"__id__": "d3"},
    {"or": [{"__id__": {"in": ["d1", "d2", "d5"]}}, {"n": 3}]},
    {"team": "nobody"},
]


@pytest.mark.parametrize("is_edited", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_scope_is_an_index_of_its_documents_alone(monkeypatch, seed, is_edited):
    monkeypatch.setattr("graphrag_core.engine.graph.counters.MOST_TITLES", 1_000)  # what is generic, all documents say
    chance, present = random.Random(100 + seed), dict[str, Document]()
    with make() as whole:
        for _ in range(25):
            change(chance, present, whole)
        assert graph_of(whole).removed > 0
        if is_edited:
            edit(whole)
        for where in FILTERS:
            inside = whole.document_ids(where)
            with make() as alone:
                alone.add([present[one] for one in inside])
                alone.engine.write(settings={"edits": whole.engine.settings().get("edits", "")})
                assert_same_description(described(whole, where), described(alone))


def test_whether_a_heading_is_generic_is_decided_from_all_documents():
    text = "# {0}\n\nThe page explains what it is.\n\n## Retry queue\n\nNothing is known about it so far, says Mara.\n"
    with KnowledgeIndex(HashEmbedder(16), progress=False) as index:
        index.add([Document(name, text.format(name), name) for name in ("Alpha", "Beta", "Gamma", "Delta")])
        assert index.graph.entity("Retry queue") is index.graph.entity("Retry queue", where={"__id__": "Beta"}) is None
        index.delete("Alpha")
        assert index.graph.entity("Retry queue").mentions == 3
        assert index.graph.entity("Retry queue", where={"__id__": "Beta"}).mentions == 1


def test_an_alias_of_what_does_not_exist_leads_nowhere():
    facts = {str(at): [Fact(("Retry Queue", "RQ", f"Page {at}"), "RQ")] for at in range(4)}

    class Headings(FixedExtractor):
        """States that RQ is short for a heading of every page."""

        def _extract(self, document_id):
            names = (f"Page {document_id}", "Retry Queue")
            mentions = tuple(Mention(name, subject=True, aliases=("RQ",) * (name == names[1])) for name in names)
            return Extraction((*mentions, Mention("RQ"), Mention("Mara")), tuple(self._facts[document_id]))

    with KnowledgeIndex(HashEmbedder(16), extractor=Headings(facts), progress=False) as index:
        index.add([Document(one, "Some text.", f"Page {one}") for one in ("0", "1", "2")])
        assert index.graph.entity("RQ").id == "retry queue"
        index.add([Document("3", "Some text.", "Page 3")])
        assert index.graph.entity("Retry Queue") is None
        assert index.graph.entity("RQ") is None
        assert index.verify(), str(index.verify())


@pytest.mark.parametrize(
    ("stated", "wanted"),
    [
        ({"Ann": ["A"]}, {"ann": ("A",)}),
        ({"Ann": ["A", "B"]}, {"ann": ("A", "B")}),
        ({"Ann": ["A"], "Bob": ["A"]}, {"ann": (), "bob": (), "a": ()}),
        ({"Ann": ["Bob"], "Bob": ["A", "B"]}, {"ann": ("Bob",), "a": (), "b": ()}),
        ({"Ann": ["Bob"], "Bob": ["Ann"]}, {"ann": (), "bob": ()}),
        ({"Ann": ["Ann", "ann"]}, {"ann": ("ann",)}),
    ],
)
def test_a_document_gives_a_short_name_one_long_name_or_none(stated, wanted):
    class States:
        def extract(self, chunks):
            names = dict.fromkeys([*stated, *(short for own in stated.values() for short in own)])
            return [
                Extraction(tuple(Mention(one, aliases=tuple(stated.get(one, ()))) for one in names)) for _ in chunks
            ]

    with KnowledgeIndex(HashEmbedder(16), extractor=States(), progress=False) as index:
        index.add([Document("1", "Some text.")])
        assert {entity.id: entity.aliases for entity in index.graph.entities()} == wanted
        for long, names in wanted.items():
            assert {index.graph.entity(name).id for name in (long, *names)} == {long}
        assert index.verify(), str(index.verify())


# -- edits


def edited() -> KnowledgeIndex:
    """An index in which chunk a mentions Ann and Anne, b is about Anne, and c mentions Bob alone with both."""
    facts = {
        "a": [Fact(("Ann", "Anne"), "Ann, Anne", weight=3), Fact(("Ann", "Bob"), "Ann likes Bob", "likes", weight=5)],
        "b": [Fact(("Anne", "Bob"), "Anne, Bob", weight=2), Fact(("Anne", "Bob"), "Anne met Bob", "met", weight=5)],
        "c": [Fact(("Bob", "Ann", "Anne"), "Bob, Ann, Anne", weight=1)],
    }
    index = KnowledgeIndex(HashEmbedder(16), extractor=FixedExtractor(facts, {"b": "Anne"}), progress=False)
    index.add([Document(one, f"Text {one}.") for one in facts])
    return index


def test_merged_rows_are_a_union_without_duplicates():
    with edited() as index:
        index.graph.merge(["Ann"], "Anne")
        with index.engine.snapshot() as read:
            found = read.find_entities(["ann", "anne"])
            assert found["ann"] == found["anne"]
            anne = np.array([found["anne"]])
            edges = read.walk(anne)
            assert [chunk.id for chunk in read.chunks(np.sort(edges.targets))] == ["a", "b", "c"]
            assert sorted(edges.weights.tolist()) == [1, 1, 6]
            assert edges.totals.tolist() == [8]
            assert (read.entity_counts(anne).tolist(), read.are_subjects(anne).tolist()) == ([3], [True])
            assert read.degrees(anne).tolist() == [3]
            assert len(read.facts_of(anne)) == 5
            chunks = read.find_chunks(["a", "b", "c"])
            of_chunk = read.walk(np.array([chunks["a"], chunks["b"]]))
            assert of_chunk.counts.tolist() == [2, 2], "Anne and Bob, each once"
            assert sorted(of_chunk.weights[2:].tolist()) == [1, 6]
            links = read.neighbours(anne, to="entities")
            assert [one.id for one in read.entities(links.targets)] == ["bob"]
            assert np.allclose(links.weights, [0.5 + 0.2 + 0.5 + 0.1])
        assert index.graph.entity("Ann").mentions == 3
        assert {entity.id for entity in index.graph.entities()} == {"anne", "bob"}


def test_deleting_an_entity_hides_its_rows_and_the_triples_that_hold_it():
    with edited() as index:
        index.graph.delete_entity("Ann")
        with index.engine.snapshot() as read:
            assert read.find_entities(["ann", "anne"]).keys() == {"anne"}
            found = read.find_entities(["anne", "bob"])
            chunks = np.array([*read.find_chunks(["a", "b", "c"]).values()])
            assert read.walk(chunks).counts.tolist() == [2, 2, 2]
            bob = np.array([found["bob"]])
            facts = {fact.text: fact.entities for fact in read.facts(read.facts_of(bob))}
            assert facts == {
                "Anne, Bob": ("anne", "bob"),
                "Anne met Bob": ("anne", "bob"),
                "Bob, Ann, Anne": ("bob", "anne"),
            }, "a sentence stays, a triple does not"
            hidden = [fact.text for fact in read.facts(read.hidden_facts())]
            assert hidden == ["Ann likes Bob"]
            assert np.allclose(read.neighbours(bob, to="entities").weights, [0.2 + 0.5 + 0.1])
        index.graph.undo(1)
        assert index.graph.entity("Ann").mentions == 2


# -- what is counted

TITLES = 100  # entities from here on


def mentions(*rows: tuple[int, int, int, str]) -> Mentions:
    """Return mentions of a document, a chunk and an entity; letters for subject, in title, and address."""
    numbers = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3).T
    return Mentions(*numbers, *(np.array([letter in row[3] for row in rows], np.bool_) for letter in "sta"))


def counted(found: Mentions, in_triples: tuple[int, ...] = ()) -> dict[int, dict[str, int]]:
    ids, counts = count(found, np.array(in_triples, np.int64))
    assert ids.tolist() == sorted(ids.tolist())
    rows = (dict(zip(COUNTERS, row, strict=True)) for row in counts.tolist())
    return {
        one: {name: value for name, value in row.items() if value} for one, row in zip(ids.tolist(), rows, strict=True)
    }


def exists(found: Mentions, entity: int, in_triples: tuple[int, ...] = ()) -> bool:
    ids, counts = count(found, np.array(in_triples, np.int64))
    at = ids.searchsorted(entity)
    return bool(exist(counts[at : at + 1], np.isin([entity], found.entity[found.is_address]))[0])


def test_passages_subjects_titles_headings_and_triples_are_counted():
    one = mentions(
        (0, 0, 9, "sta"), (0, 0, 7, "st"), (0, 0, 5, "s"), (0, 0, 3, ""),  # an address, the title, a heading
        (0, 1, 7, "st"), (0, 1, 5, "s"), (0, 1, 3, ""),  # the same section goes on
        (1, 2, 3, "st"), (1, 2, 5, "s"),  # another title above the same heading
    )  # fmt: skip
    assert counted(one, (3, 3, 4)) == {
        3: {"passages": 3, "subjects": 1, "titled": 1, "triples": 2},
        4: {"triples": 1},
        5: {"passages": 3, "subjects": 3, "headings": 2},
        7: {"passages": 2, "subjects": 2, "titled": 1},
        9: {"passages": 1, "subjects": 1, "titled": 1},
    }
    assert counted(mentions()) == {}


def under(titles: int, *more: tuple[int, int, int, str]) -> Mentions:
    """Return documents with titles of their own, and in each the heading 5."""
    own = [row for at in range(titles) for row in ((at, at, TITLES + at, "st"), (at, at, 5, "s"))]
    return mentions(*own, *more)


def test_a_heading_under_four_titles_is_generic_unless_it_is_spoken_of_or_in_a_triple():
    assert exists(under(3), 5)
    assert not exists(under(4), 5)
    assert exists(under(4), TITLES)
    assert exists(under(4), 5, (5,))
    spoken = [(50 + at, 50 + at, 5, "") for at in range(4)]
    assert not exists(under(4, *spoken[:3]), 5)
    assert exists(under(4, *spoken), 5)
    assert not exists(under(3, (9, 9, 5, "st")), 5), "under three titles, and a title itself"


def test_a_heading_under_one_title_of_many_documents_counts_once_for_each_document():
    same = [row for at in range(3) for row in ((at, at, TITLES, "st"), (at, at, 5, "s"))]
    assert counted(mentions(*same))[5] == {"passages": 3, "subjects": 3, "headings": 3}
    again = [(0, 1, TITLES, "st"), (0, 1, 5, "s")]
    assert counted(mentions(*same[:2], *again))[5]["headings"] == 1


def test_a_title_that_many_documents_share_is_not_generic():
    shared = mentions(*[(at, at, 5, "st") for at in range(9)])
    assert counted(shared) == {5: {"passages": 9, "subjects": 9, "titled": 9}}
    assert exists(shared, 5)


def test_an_address_exists_while_some_chunk_is_about_it():
    assert exists(mentions((0, 0, 5, "sa")), 5)
    assert not exists(mentions((0, 0, 5, "a"), (1, 1, 5, "a")), 5)
    assert exists(mentions((0, 0, 5, "a"), (1, 1, 5, "sa")), 5)


# -- rows to which indices are appended


def listed(rows: Rows, count: int, limit=None) -> list[list[int]]:
    counts, indices = rows.gather(np.arange(count), limit)
    return [own.tolist() for own in np.split(indices, counts.cumsum()[:-1])]


@pytest.mark.parametrize("seed", range(5))
def test_rows_keep_what_was_appended_in_order(seed):
    chance = random.Random(seed)
    rows, wanted = Rows(), list[list[int]]()
    for _ in range(40):
        wanted += [[] for _ in range(chance.randint(0 if wanted else 1, 3))]
        rows.extend(len(wanted))
        pairs = [(chance.randrange(len(wanted)), chance.randrange(1_000)) for _ in range(chance.randint(0, 12))]
        for owner, index in pairs:
            wanted[owner].append(index)
        rows.append(np.array([one for one, _ in pairs], np.int64), np.array([one for _, one in pairs], np.int64))
        assert listed(rows, len(wanted)) == wanted
        assert rows.counts.values.tolist() == [*map(len, wanted)]
        assert listed(rows, len(wanted), 2) == [own[:2] for own in wanted]
        limits = [chance.randint(0, 5) for _ in wanted]
        assert listed(rows, len(wanted), np.array(limits)) == [
            own[:most] for own, most in zip(wanted, limits, strict=True)
        ]
    some = chance.choices(range(len(wanted)), k=6)
    _, indices = rows.gather(np.array(some))
    assert indices.tolist() == [index for row in some for index in wanted[row]]
    owners = np.arange(len(wanted)).repeat(rows.counts.values)
    packed = Rows.of(owners, rows.gather(np.arange(len(wanted)))[1], len(wanted))
    assert packed.is_packed
    assert packed.indices.values.tolist() == [index for own in wanted for index in own]


def test_what_another_thread_computes_is_not_waited_for():
    """A child of a process that forked meanwhile would wait for ever."""
    began, go, calls = threading.Event(), threading.Event(), []

    class Slow:
        @remembered
        def value(self) -> int:
            calls.append(threading.get_ident())
            if len(calls) == 1:
                began.set()
                go.wait()
            return 7

    slow = Slow()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    began.wait()
    assert slow.value == slow.value == 7
    go.set()
    thread.join()
    assert len(calls) == 2


def test_the_room_of_rows_is_in_proportion_to_what_they_hold():
    rows = Rows.of(np.zeros(1, np.int64), np.zeros(1, np.int64), 4)
    for at in range(5_000):
        rows.append(np.array([at % 3]), np.array([at]))
    assert rows.counts.values.sum() == 5_001
    assert len(rows.indices.values) < 4 * 5_001
    assert listed(rows, 4)[3] == []


# -- damage


@pytest.fixture(scope="module")
def arrays():
    with make() as index:
        index.add([document(random.Random(at)) for at in (1, 2)])
        return {name: array.copy() for name, array in graph_of(index).packed().arrays().items()}


COLUMNS = [
    "chunks.key", "chunks.document", "entities.is_address", "entities.counters", "names.entity",
    "facts.weight", "facts.statement", "aliases.chunk", "mentions.counts", "mentions.indices", "name_chunks.counts",
    "entity_names.indices", "fact_entities.counts", "entity_facts.counts",
]  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_different_length_are_refused(arrays, name):
    def load(changed):
        return MemoryGraph.load({one: Growing(array.copy()) for one, array in {**arrays, **changed}.items()})

    load({})
    shorter, longer = arrays[name][:-1], np.concatenate([arrays[name], arrays[name][-1:], arrays[name][-1:]])
    for wrong in (shorter, longer):
        with pytest.raises(ValueError, match=r"differ in length|as many as are counted"):
            load({name: wrong})
