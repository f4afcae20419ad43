"""The published design of the graph index, by its own numbers and examples.

Numbers in the comments follow its formulas: confidence · source · decay · usage · status, with user_edit 2.0, file 1.5,
system 1.2, conversation 1.0; 0.95 per week after one week; 1 + 0.5 · log10(accesses + 1); confirmed 1.2.
"""

from __future__ import annotations

import threading
import time
from math import log10

import numpy as np
import pytest

from graphrag_core import Cache, Document, Fact, GraphRetriever, KnowledgeIndex
from graphrag_core.designs import MEMORY
from graphrag_core.errors import DocumentError, ExtractionError, InputError, ReadOnlyIndex
from graphrag_core.query.strategies.activation import WEEK
from graphrag_core.strategies import Relevance, SpreadingActivation
from graphrag_core.testing import CountingEmbedder, FixedExtractor, HashEmbedder

ADA, BOB = {"user": "ada"}, {"user": "bob"}

# The facts of the design's output example, with confidences that give its order: a user's edit weighs 2.0 · 1.2 = 2.4,
# so the user's facts score 2.4, 2.376, 2.352; those of the project 2.28, 2.256, 2.232; those of DuckDB 2.16, 2.136.
EXAMPLE = [
    ("User", "prefers", "dark mode", True, 1.0),
    ("User", "prefers", "TypeScript over JavaScript", True, 0.99),
    ("User", "works_on", "JACQ Project", False, 0.98),
    ("JACQ Project", "uses", "DuckDB", False, 0.95),
    ("JACQ Project", "uses", "Next.js 16", False, 0.94),
    ("JACQ Project", "status", "active development", True, 0.93),
    ("DuckDB", "type", "embedded OLAP database", True, 0.9),
    ("DuckDB", "supports", "vector search via VSS extension", True, 0.89),
]
NARRATIVE = """\
### 👤 USER CONTEXT
- prefers: dark mode
- prefers: TypeScript over JavaScript
- works_on: JACQ Project

### 💡 CONTEXT: JACQ Project
- uses: DuckDB
- uses: Next.js 16
- status: active development

### 💡 CONTEXT: DuckDB
- type: embedded OLAP database
- supports: vector search via VSS extension"""


def tell_example(index: KnowledgeIndex) -> None:
    for subject, relation, target, literal, confidence in reversed(EXAMPLE):
        index.memory.remember(subject, relation, target, literal=literal, confidence=confidence, metadata=ADA)


@pytest.fixture
def index():
    with KnowledgeIndex(HashEmbedder(), embed_names=True) as index:
        tell_example(index)
        yield index


def retriever_of(index: KnowledgeIndex, **settings) -> GraphRetriever:
    settings = {"graph": MEMORY.graph, "method": "graph", **settings}
    return GraphRetriever(index, **settings)


def texts(result) -> list[str]:
    return [hit.chunk.text for hit in result.hits]


def counts(index: KnowledgeIndex, name: str) -> dict[str, int]:
    return {fact.text: fact.access_count for fact in index.graph.facts(name)}


# -- the document's own example


def test_the_output_example_is_the_narrative(index):
    result = retriever_of(index).retrieve("What is the JACQ Project of the User? DuckDB?", where=ADA)
    assert result.context(1_000, style="narrative") == NARRATIVE


def test_what_is_jacq_surfaces_technologies_and_not_the_project_alone(index):
    result = retriever_of(index, graph=SpreadingActivation(anchors=1)).retrieve("JACQ Project", k=10)
    # One anchor: three facts of the project; over DuckDB, a second hop, its two. Nothing points back to the user.
    assert {fact.text for fact in result.facts[:5]} == {
        "JACQ Project uses DuckDB", "JACQ Project uses Next.js 16", "JACQ Project status active development",
        "DuckDB type embedded OLAP database", "DuckDB supports vector search via VSS extension",
    }  # fmt: skip
    assert [fact.confidence for fact in result.facts[:5]] == [0.95, 0.94, 0.93, 0.9, 0.89]


def test_the_published_settings_are_the_defaults():
    assert MEMORY.graph == SpreadingActivation()
    assert SpreadingActivation() == SpreadingActivation(anchors=3, hops=2, max_facts=30, facts_per_entity=10)
    weights = dict(Relevance().sources)
    assert weights == {"user_edit": 2.0, "file": 1.5, "system": 1.2, "conversation": 1.0}
    assert Cache().seconds == 60


# -- narrative


def test_the_narrative_is_in_order_of_relevance_whatever_the_question_names(index):
    # A conversation's fact weighs 1.0 · 1.0 (staged) = 0.5, below all others: its subject comes last.
    index.memory.remember(
        "JACQ Team", "meets", "Mondays", literal=True, source="conversation", confidence=0.5, metadata=ADA
    )
    asked = retriever_of(index, graph=SpreadingActivation(anchors=9)).retrieve("JACQ Team User")
    headings = [line for line in asked.context(1_000, style="narrative").splitlines() if line.startswith("#")]
    assert headings == [
        "### 👤 USER CONTEXT", "### 💡 CONTEXT: JACQ Project", "### 💡 CONTEXT: DuckDB", "### 💡 CONTEXT: JACQ Team"
    ]  # fmt: skip


def test_cutting_drops_the_least_relevant_whatever_its_subject(index):
    # The user's third fact now has 0.5 · 2.4 = 1.2: the least of all nine, though it stands in the first section.
    index.memory.remember("User", "works_on", "JACQ Project", confidence=0.5, metadata=ADA)
    result = retriever_of(index).retrieve("What is the JACQ Project of the User? DuckDB?", where=ADA)
    lines = [f"- {relation}: {target}" for _, relation, target, _, _ in EXAMPLE]
    least_last = [*lines[:2], *lines[3:], lines[2]]
    whole = len(result.context(10_000, style="narrative", tokenizer=len))
    for budget in range(20, whole + 1, 7):
        context = result.context(budget, style="narrative", tokenizer=len)
        kept = [line for line in context.splitlines() if line[:1] == "-"]
        assert sorted(kept) == sorted(least_last[: len(kept)]), budget


# -- telling facts


def test_a_told_fact_is_found_by_every_method_and_is_exact(index):
    fact = index.memory.remember(
        "Mara Lindqvist", "leads", "Identity Team", confidence=0.7, source="system", metadata=ADA
    )
    assert (fact.entities, fact.relation, fact.status) == (("Mara Lindqvist", "Identity Team"), "leads", "staged")
    assert index.verify()
    for method in ("hybrid", "vector", "keyword", "graph"):
        assert texts(GraphRetriever(index).retrieve("Who leads the Identity Team?", method=method))[0] == fact.text
    (stored,) = index.graph.facts("Mara Lindqvist")
    assert (stored.id, stored.confidence, stored.source) == (fact.id, 0.7, "system")
    # 0.7 · 1.2 (system) · 1.0 (staged) = 0.84; confirmed 0.84 · 1.2 = 1.008
    assert Relevance().score(stored, stored.created) == pytest.approx(0.84)
    assert Relevance().score(index.memory.confirm(stored), stored.created) == pytest.approx(1.008)


def test_the_user_is_believed_and_others_are_staged(index):
    assert index.memory.remember("User", "likes", "tea").status == "confirmed"
    for source in ("file", "system", "conversation"):
        assert index.memory.remember("User", "likes", source, source=source).status == "staged"


def test_telling_again_updates_the_fact_and_keeps_its_status_and_accesses(index):
    first = index.memory.remember("User", "likes", "Green Tea", source="conversation", metadata=ADA)
    retriever_of(index, cache=None).retrieve("User", where=ADA)
    index.memory.confirm(first)
    again = index.memory.remember("user", "Likes", "green tea", source="conversation", confidence=0.4, metadata=ADA)
    assert (again.id, again.status, again.confidence, again.created) == (first.id, "confirmed", 0.4, first.created)
    assert [fact.access_count for fact in index.graph.facts("Green Tea")] == [1]
    size, generation = len(index), index.engine.generation
    index.memory.remember("user", "Likes", "green tea", source="conversation", confidence=0.4, metadata=ADA)
    assert (len(index), index.engine.generation) == (size, generation), "the same again writes nothing"


def test_scopes_do_not_meet(index):
    mine = index.memory.remember("User", "lives_in", "Malmö", metadata=ADA)
    theirs = index.memory.remember("User", "lives_in", "Malmö", metadata=BOB)
    assert mine.id != theirs.id
    for change in (index.memory.confirm, index.memory.reject):
        with pytest.raises(InputError, match="no fact"):
            change(theirs.id, where=ADA)
    assert index.memory.forget(theirs.id, where=ADA) == 0
    index.add([Document("diary", "Bob met Ada Lovelace.", metadata=BOB)])
    for hidden in ("diary", "diary/0"):  # an error must not tell that another user has such a document
        for change in (index.memory.confirm, index.memory.reject):
            with pytest.raises(InputError, match="there is no fact"):
                change(hidden, where=ADA)
    index.delete("diary")
    index.memory.reject(mine, where=ADA)
    assert "User lives in Malmö" in texts(GraphRetriever(index).retrieve("lives in Malmö", where=BOB))
    assert "User lives in Malmö" not in texts(GraphRetriever(index).retrieve("lives in Malmö", where=ADA, k=20))
    assert index.memory.forget(where=ADA) == len(EXAMPLE) + 1
    assert [fact.id for fact in index.memory.facts()] == [theirs.id]


def test_deletion_leaves_what_the_other_facts_alone_would_make(tmp_path):
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(), embed_names=True) as index:
        tell_example(index)
        for number in range(3):
            index.memory.remember("User", "likes", f"Thing {number}", metadata=ADA)
        assert index.memory.forget(subject="User", relation="likes", where=ADA) == 3
    with KnowledgeIndex.open(tmp_path / "kb", read_only=True) as index:
        assert index.verify()
        assert index.graph.entity("Thing 1") is None
        assert len(index.memory.facts()) == len(EXAMPLE)
        with pytest.raises(ReadOnlyIndex):
            index.memory.remember("User", "likes", "Thing 1")


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (("", "likes", "tea"), {}, "subject"),
        (("User", " ", "tea"), {}, "relation"),
        (("User", "likes", None), {}, "object"),
        (("User", "likes", "!!!"), {}, "literal=True"),
        (("User", "likes", "x" * 301), {}, "literal=True"),
        (("User", "likes", "tea"), {"status": "maybe"}, "staged, confirmed, rejected"),
        (("User", "likes", "tea"), {"source": "user-edit"}, "user_edit, file, system, conversation"),
        (("User", "likes", "tea"), {"confidence": 1.5}, "0 to 1"),
        (("User", "likes", "tea"), {"valid_from": "yesterday"}, "2024-05-01"),
        (("User", "likes", "tea"), {"valid_from": "2024-01-02", "valid_to": "2024-01-01"}, "begins.*'2024-01-02'"),
        (("User", "likes", "tea"), {"metadata": {"graphrag_fact": 1}}, "reserved"),
        (("User", "likes", "tea"), {"metadata": {"x": object()}}, "not JSON"),
        (("User", "likes", "tea"), {"supersedes": "fact:0"}, "True or False"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_nothing_changes(index, arguments, settings, message):
    generation = index.engine.generation
    with pytest.raises(InputError, match=message):
        index.memory.remember(*arguments, **settings)
    assert index.engine.generation == generation


def test_extracted_facts_are_changed_with_their_document():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document("a", "Ada Lovelace met Charles Babbage.")])
        (fact,) = index.graph.facts("Ada Lovelace")
        with pytest.raises(InputError, match="extracted from a document"):
            index.memory.reject(fact)
        assert index.memory.forget(fact) == 0
        with pytest.raises(InputError, match="forget needs"):
            index.memory.forget()
        with pytest.raises(DocumentError, match="remember"):
            index.add([Document("b", "x", metadata={"graphrag_fact": {"subject": "User"}})])


# -- status


@pytest.mark.parametrize("strategy", [None, SpreadingActivation()])
def test_a_rejected_fact_reaches_no_result(index, strategy):
    fact = index.memory.remember("User", "works_on", "Apollo Project", metadata=ADA)
    index.memory.remember("Apollo Project", "uses", "Saturn Rocket", metadata=ADA)
    question = "Which rocket does the User use for the Apollo Project?"
    assert fact.text in texts(GraphRetriever(index, graph=strategy).retrieve(question, k=20))
    index.memory.reject(fact)
    for method in ("hybrid", "vector", "keyword", "graph"):
        result = GraphRetriever(index, graph=strategy).retrieve(question, method=method, k=50)
        assert fact.text not in texts(result)
        assert fact.id not in [one.id for one in result.facts]
        assert all(step.id != fact.id for hit in result.hits for step in hit.path)
        assert all(fact.text not in result.context(5_000, style=s) for s in ("graph", "passages", "narrative"))
    assert "apollo project" not in {other.id for other, _ in index.graph.neighbours("User")}
    with index.engine.snapshot() as everything:  # no edge is left, not even in a snapshot that hides nothing
        keys = everything.find_entities(["user", "apollo project"])
        edges = everything.neighbours(np.array([keys["user"]]), to="entities")
        assert keys["apollo project"] not in edges.targets
    assert index.verify()
    assert (
        index.memory.remember("User", "works_on", "Apollo Project", source="conversation", metadata=ADA).status
        == "rejected"
    )
    index.memory.confirm(fact)
    assert fact.text in texts(GraphRetriever(index, graph=strategy).retrieve(question, k=20))


def test_the_status_of_extracted_facts_is_validated_and_rejected_ones_are_not_stored():
    def fact(status):
        return Fact(("User", "Rain"), "User hates Rain", "hates", status=status)

    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor({"a": [fact("rejected")]})) as index:
        index.add([Document("a", "A note.")])
        assert (index.stats().facts, index.graph.neighbours("User")) == (0, [])
    for broken in (fact("maybe"), Fact(("User", "Rain"), "x", "hates", valid_to=1.0)):
        with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor({"a": [broken]})) as index:
            with pytest.raises(ExtractionError, match=r"staged, confirmed, rejected|remember"):
                index.add([Document("a", "A note.")])
            assert len(index) == 0


# -- contradiction and time


def test_a_fact_supersedes_another_when_told_so(index):
    acme = index.memory.remember("Ada", "works_at", "Acme", valid_from="2019-01-01")
    globex = index.memory.remember("Ada", "works_at", "Globex", valid_from="2022-01-01", supersedes=True)
    index.memory.remember("Ada", "knows", "Acme")
    retriever = GraphRetriever(index)

    def employer(as_of):
        found = texts(retriever.retrieve("Where does Ada work?", k=20, as_of=as_of))
        return [text.split()[-1] for text in found if "works at" in text]

    assert employer("2018-12-31") == []
    assert employer("2019-01-01") == ["Acme"]
    assert employer("2021-12-31T23:59:59") == ["Acme"]
    assert employer("2022-01-01") == ["Globex"]
    assert employer(None) == ["Globex"]
    by_id = {fact.id: (fact.valid_from, fact.valid_to) for fact in index.memory.facts(relation="works at")}
    # 2019-01-01 and 2022-01-01, UTC
    assert by_id == {acme.id: (1_546_300_800.0, 1_640_995_200.0), globex.id: (1_640_995_200.0, None)}
    assert [fact.id for fact in index.memory.facts(relation="works_at", as_of="2020-01-01")] == [acme.id]
    assert index.verify()


def test_without_being_told_so_contradicting_facts_stay_beside_each_other(index):
    for town in ("Lund", "Malmö"):
        index.memory.remember("Ada", "lives_in", town)
    assert {"Ada lives in Lund", "Ada lives in Malmö"} <= set(texts(GraphRetriever(index).retrieve("Ada", k=20)))
    ystad = index.memory.remember("Ada", "lives_in", "Ystad", supersedes=True)
    found = texts(GraphRetriever(index).retrieve("Ada lives in", k=20))
    assert "Ada lives in Ystad" in found
    assert {"Ada lives in Lund", "Ada lives in Malmö"}.isdisjoint(found)
    assert ystad.valid_from == pytest.approx(time.time(), abs=60), "where nothing is said it begins now"
    again = index.memory.remember("Ada", "lives_in", "Ystad", supersedes=True)
    assert (again.id, again.valid_from) == (ystad.id, ystad.valid_from), "told twice it is one fact"
    back = index.memory.remember("Ada", "lives_in", "Lund", supersedes=True)
    now = [fact.entities[1] for fact in index.memory.facts(subject="Ada", relation="lives_in", as_of=time.time())]
    assert now == ["Lund"]
    assert len(index.memory.facts(subject="Ada", relation="lives_in")) == 4, "the first time in Lund is kept"
    assert back.valid_from > ystad.valid_from


def test_a_rejected_fact_supersedes_nothing(index):
    index.memory.remember("Ada", "works_at", "Acme")
    wrong = index.memory.remember("Ada", "works_at", "Globex")
    index.memory.reject(wrong)
    index.memory.remember("Ada", "works_at", "Globex", source="conversation", supersedes=True)
    assert "Ada works at Acme" in texts(GraphRetriever(index).retrieve("Ada works at", k=20))


def test_a_cached_answer_ends_with_the_facts_in_it(index, monkeypatch):
    now = time.time()
    index.memory.remember("Ada", "is_at", "Lunch", valid_to=now + 30)
    retriever = GraphRetriever(index)
    assert "Ada is at Lunch" in texts(retriever.retrieve("Ada"))
    assert list(retriever.retrieve("Ada").trace.stages) == ["cache"]
    monkeypatch.setattr("graphrag_core.retriever.time.time", lambda: now + 31)
    assert "Ada is at Lunch" not in texts(retriever.retrieve("Ada"))


# -- accesses


def test_warming_and_answers_from_the_cache_count_no_access(index):
    retriever = retriever_of(index)
    assert retriever.warm(["User"], where=ADA) == 1
    assert set(counts(index, "User").values()) == {0}
    assert list(retriever.retrieve("User", where=ADA).trace.stages) == ["cache"]
    assert set(counts(index, "User").values()) == {0}, "an answer from the cache is not read again"
    assert retriever.warm(2) == 2
    with pytest.raises(InputError, match="iterable"):
        retriever.warm("User")


def test_warming_runs_in_the_background(index, monkeypatch):
    retriever = retriever_of(index)
    embed, go = index.embedding.embedder.embed_query, threading.Event()
    monkeypatch.setattr(index.embedding.embedder, "embed_query", lambda text: go.wait(120) and embed(text))
    running = retriever.warm(["User"], background=True)
    assert not running.done()
    go.set()
    assert running.result(120) == 1
    assert list(retriever.retrieve("User").trace.stages) == ["cache"]
    assert isinstance(retriever.warm([7], background=True).exception(120), InputError)


def test_an_edit_keeps_the_accesses_of_the_facts_that_stayed():
    with KnowledgeIndex(HashEmbedder(), embed_names=True) as index:
        index.add([Document("a", "Ada Lovelace met Charles Babbage. Ada Lovelace lived in London.")])
        for _ in range(9):
            retriever_of(index, cache=None).retrieve("Ada Lovelace")
        index.add([Document("a", "Ada Lovelace lived in London. Ada Lovelace wrote to Mary Somerville.")])
        assert counts(index, "Ada Lovelace") == {
            "Ada Lovelace lived in London.": 9, "Ada Lovelace wrote to Mary Somerville.": 0
        }  # fmt: skip
        kept, fresh = sorted(index.graph.facts("Ada Lovelace"), key=lambda fact: -fact.access_count)
        # Nine accesses: 1 + 0.5 · log10(10) = 1.5 times the relevance of a fact that was never read.
        ratio = Relevance().score(kept, kept.last_accessed) / Relevance().score(fresh, kept.last_accessed)
        assert ratio == pytest.approx(1 + 0.5 * log10(10))
        assert index.verify()


def test_relevance_of_the_design_by_hand():
    # Three weeks: two of decay. 0.8 · 2.0 · 0.95² · (1 + 0.5 · log10(100)) · 1.2 = 1.6 · 0.9025 · 2 · 1.2 = 3.4656
    fact = Fact(
        ("User",), "x", confidence=0.8, source="user_edit", status="confirmed", last_accessed=0.0, access_count=99
    )
    assert Relevance().score(fact, 3 * WEEK) == pytest.approx(3.4656)


# -- the cache


def test_the_same_question_is_answered_by_the_cache_and_another_spelling_is_another_question(index):
    retriever = GraphRetriever(index)
    first = retriever.retrieve("What does the JACQ Project use?")
    again = retriever.retrieve("What does the JACQ Project use?")
    assert list(again.trace.stages) == ["cache"]
    assert again.hits == first.hits
    assert "cache" not in retriever.retrieve("what does the jacq project use?").trace.stages


# -- anchors


def test_without_name_embeddings_the_graph_is_entered_through_the_nearest_passages():
    facts = {
        "apollo": [Fact(("Apollo Project", "Saturn Rocket"), "x", "uses")],
        "saturn": [Fact(("Saturn Rocket", "Florida"), "x", "starts_in")],
        "other": [Fact(("Baking", "Flour"), "x", "needs")],
    }
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(facts), embed_names=False) as index:
        index.add([Document("apollo", "flying people to the moon"), Document("saturn", "a loud engine"),
                   Document("other", "bread and cake")])  # fmt: skip
        result = retriever_of(index, graph=SpreadingActivation(anchors=2)).retrieve("who went flying to the moon?")
        # The nearest passage mentions the project and the rocket: its fact, and over the rocket that of Florida.
        assert {hit.chunk.id for hit in result.hits} == {"apollo", "saturn"}
        assert "through the passages nearest to the question" in result.fallback
        named = retriever_of(index).retrieve("What of the Saturn Rocket?")
        assert not named.fallback
        assert {hit.chunk.id for hit in named.hits} == {"saturn"}


def test_if_embedding_fails_names_are_found_by_keyword(monkeypatch):
    facts = {
        "apollo": [Fact(("Apollo Project", "Saturn Rocket"), "x", "uses")],
        "other": [Fact(("Baking", "Flour"), "x", "needs")],
    }
    with KnowledgeIndex(CountingEmbedder(), extractor=FixedExtractor(facts), embed_names=True) as index:
        index.add([Document("apollo", "Of Apollo."), Document("other", "another text")])
        monkeypatch.setattr(index.embedding.embedder, "embed_query", lambda text: 1 / 0)
        result = retriever_of(index, on_embedder_error="keyword").retrieve("anything about apollo?")
        assert [hit.chunk.id for hit in result.hits] == ["apollo"]
        assert "keyword search only" in result.fallback
