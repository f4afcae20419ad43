"""What an index in memory and one in PostgreSQL have in common: both fulfil the same promises."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from support import snapshot

from graphrag_core import Chunker, Document, Fact, GraphRetriever, KnowledgeIndex
from graphrag_core.strategies import SpreadingActivation
from graphrag_core.testing import CHAIN, CHAIN_QUESTION, FixedExtractor, HashEmbedder

DOCUMENTS = (
    Document("a", "Alpha text about tokens.", metadata={"tenant": "acme"}),
    Document("b", "Bravo text, issuing a token.", metadata={"tenant": "acme"}),
    Document("c", "东京大学是日本的大学。", metadata={"tenant": "umbrella"}),
)
FACTS = {
    "a": [Fact(("Alpha", "Bravo"), "Alpha owns Bravo", "owns", weight=8, confidence=0.9)],
    "b": [Fact(("Bravo", "Carol"), "Bravo, Carol", weight=3), Fact(("Alpha", "Bravo"), "Alpha, Bravo", weight=3)],
    "c": [Fact(("Alpha", "Dora"), "Alpha knows Dora", "knows", weight=5)],
}


def filled(open_index, documents=DOCUMENTS) -> KnowledgeIndex:
    extractor = FixedExtractor(FACTS, {"a": "Alpha", "b": "Bravo"})
    index = open_index(HashEmbedder(), extractor=extractor, chunker=None)
    index.add(documents)
    return index


def keyword_ids(index, text, where=None):
    return {hit.chunk.id for hit in GraphRetriever(index, method="keyword", cache=None).retrieve(text, where=where)}


def test_documents_come_back_as_they_were_added(open_index):
    with filled(open_index) as index:
        assert list(index.documents()) == list(DOCUMENTS)
        assert index.get("none") is None
        assert index.document_ids({"tenant": "umbrella"}) == ["c"]
        assert [chunk.text for chunk in index.chunks("a")] == [DOCUMENTS[0].text]


def test_deletion_removes_exactly_what_was_added(open_index):
    with filled(open_index) as index, filled(open_index, DOCUMENTS[1:]) as fresh:
        index.delete("a")
        assert index.verify()
        assert snapshot(index) == snapshot(fresh)


def test_keywords_are_found_by_stem_in_chinese_and_by_parts_of_identifiers(open_index):
    with filled(open_index) as index:
        index.add([Document("d", "Set CELERY_BROKER_URL."), Document("e", "A broker has a url; celery, too.")])
        assert keyword_ids(index, "TOKEN") == {"a", "b"}
        assert keyword_ids(index, "大学") == {"c"}
        for text in ("CELERY_BROKER_URL", "celery.broker.url", "celeryBrokerUrl", "celery-broker-url"):
            assert keyword_ids(index, text) == {"d", "e"}
        for text in ('"', "AND OR NOT", "text:fox^9 (", "\\", "😀"):
            keyword_ids(index, text)


def test_a_replaced_document_keeps_the_accesses_of_facts_that_stayed(open_index):
    with filled(open_index) as index:
        GraphRetriever(index, graph=SpreadingActivation(), method="graph", cache=None).retrieve("Alpha")
        before = {fact.text: fact.access_count for fact in index.graph.facts("Alpha")}
        assert set(before.values()) == {1}
        index.add([Document("a", "Alpha text, edited.", metadata={"tenant": "acme"})])
        assert {fact.text: fact.access_count for fact in index.graph.facts("Alpha")} == before


def test_told_facts_are_stored_hidden_and_deleted_exactly(open_index):
    with filled(open_index) as index:
        before = snapshot(index)
        index.memory.remember("Alpha", "owns", "Echo", valid_from=100.0, valid_to=200.0, confidence=0.5)
        wrong = index.memory.remember("Alpha", "hates", "Foxtrot")
        index.memory.reject(wrong)
        assert index.graph.entity("Foxtrot") is None
        assert {other.id for other, _ in index.graph.neighbours("Alpha")} == {"bravo", "dora"}
        found = [
            {hit.chunk.text for hit in GraphRetriever(index).retrieve("Alpha Echo Foxtrot", k=9, as_of=at).hits}
            for at in (99.0, 100.0, 199.0, 200.0)
        ]
        assert [any("Echo" in text for text in texts) for texts in found] == [False, True, True, False]
        assert not any("Foxtrot" in text for texts in found for text in texts)
        assert index.verify()
        assert index.memory.forget(subject="alpha") == 2
        assert snapshot(index) == before


def test_stats_count_what_is_listed(open_index):
    with open_index(HashEmbedder()) as index:
        index.add(
            [
                Document("a.md", "# Alpha\n\nCarol Reed met Bravo Works in 1998. See [Bravo](b.md)."),
                Document("b.md", "# Bravo\n\nBravo Works met Dora Finch, says [Alpha](a.md)."),
            ]
        )
        index.memory.remember("Carol Reed", "likes", "Bravo Works")
        index.memory.remember("Carol Reed", "hates", "Dora Finch")
        index.graph.delete_relation(("Carol Reed", "hates", "Dora Finch"))
        stats = index.stats()
        assert stats.entities == len(index.graph.entities(limit=None))
        assert stats.relations == {"likes": 1}
        assert [fact.relation for fact in index.graph.relations(limit=None)] == ["likes"]
        links = [fact for fact in index.graph.iter_facts() if fact.relation == "refers_to"]
        assert stats.references == len(index.graph.relations(relation="refers_to")) == len(links) > 0
        assert stats.facts == len(list(index.graph.iter_facts()))


def test_entities_are_found_by_parts_of_their_names(open_index):
    names = ["The Auth-Service", "Authority Board", "Café Müller", "北京大学", "Old Auth"]
    facts = {str(at): [Fact((name, "Hub"), f"{name}, Hub")] for at, name in enumerate(names)}
    facts["0"].append(Fact(("Auth-Service", "1999"), "Auth-Service, 1999"))
    documents = [Document(str(at), f"{name}.", "", {"team": at}) for at, name in enumerate(names)]
    extractor = FixedExtractor(facts, {})
    with open_index(HashEmbedder(), extractor=extractor) as index:
        index.add(documents)
        for asked, expected in {
            ("the AUTH", ""): {"auth service", "authority board"},
            ("", "auth"): {"auth service", "authority board", "old auth"},
            ("auth s", ""): {"auth service"},
            ("CAFÉ", "mü"): {"café müller"},
            ("北京", ""): {"北京大学"},
            ("19", ""): set(),
            ("nothing", ""): set(),
        }.items():
            assert {entity.id for entity in index.graph.entities(asked[0], contains=asked[1])} == expected
        assert [entity.id for entity in index.graph.entities("auth", where={"team": 1})] == ["authority board"]
        assert index.graph.entities(contains="u")[0].id == "hub", "the most mentioned first"
        index.graph.rename("Old Auth", "Zeppelin")
        assert [entity.id for entity in index.graph.entities("zep")] == ["zeppelin"]
        assert [entity.id for entity in index.graph.entities("old")] == ["zeppelin"]


def test_a_key_that_no_document_has_matches_nothing(open_index):
    cases = [
        ({"tenent": "x"}, ""),
        ({"tenent": {"ne": "x"}}, ""),
        ({"tenent": {"nin": ["x"]}}, ""),
        ({"tenent": {"nin": []}}, ""),
        ({"tenent": {"exists": True}}, ""),
        ({"tenent": {"exists": False}}, ""),
        ({"not": {"tenent": "x"}}, ""),
        ({"not": {"not": {"tenent": "x"}}}, ""),
        ({"not": {"tenent": {"ne": "x"}}}, ""),
        ({"tenant": "x", "not": {"tenent": "y"}}, ""),
        ({"or": [{"tenent": {"ne": "x"}}, {"tenant": "x"}]}, "a"),
        ({"not": {"or": [{"tenent": "x"}, {"tenant": "x"}]}}, ""),
        ({"not": {"tenent": "x", "tenant": "x"}}, "bc"),
        ({"tenant": {"ne": "x"}}, "bc"),
        ({"tenant": {"exists": False}}, "c"),
    ]
    metadata = {"a": {"tenant": "x"}, "b": {"tenant": "y"}, "c": {}}
    with open_index(HashEmbedder()) as index:
        for where, _ in cases:
            assert not index.document_ids(where), f"{where} in an empty index"
        index.add([Document(name, f"Text {name}.", metadata=own) for name, own in metadata.items()])
        for where, expected in cases:
            assert "".join(index.document_ids(where)) == expected, where
            result = GraphRetriever(index).retrieve("text", where=where)
            assert sorted(hit.chunk.id for hit in result.hits) == [*expected], where
            assert ("'tenent'" in result.advice) is ("tenent" in str(where)), where
        index.delete(["a", "b"])
        assert not index.document_ids({"tenant": {"ne": "x"}})


def test_rebuilding_and_erasing_change_no_answer(open_index):
    with filled(open_index) as index:
        index.delete("b")
        before = snapshot(index)
        index.rebuild()
        assert snapshot(index) == before
        assert index.erase()
        assert snapshot(index) == before
        assert index.verify()


def test_a_retriever_answers_over_two_hops(open_index):
    with open_index(HashEmbedder()) as index:
        index.add(CHAIN)
        hits = GraphRetriever(index).retrieve(CHAIN_QUESTION, k=3, where={"tenant": "acme"}).hits
        assert "keyring" in {hit.chunk.id for hit in hits}
        stats = index.stats()
        assert (stats.documents, stats.chunks) == (5, 5)


def test_the_passages_around_a_hit_are_read_within_the_scope(open_index):
    sections = "\n\n".join(f"## Part {n}\n\n" + f"Words of topic{n}. " * 12 for n in range(3))
    texts = {300: "Carol is third.", 0: "Alpha is first.", 100: "Bravo is second."}
    cut = [
        Document(f"p{start}", text, metadata={"source": "x.txt", "start_index": start, "page": start})
        for start, text in texts.items()
    ]
    chunker = Chunker(max_tokens=32, overlap=8, whole_until=32)
    with open_index(HashEmbedder(), chunker=chunker) as index:
        index.add([Document("book", f"# Book\n\n{sections}"), *cut])
        retriever = GraphRetriever(index)
        hit = retriever.retrieve("topic1", k=1, expand="section").hits[0]
        assert hit.expanded is not None
        assert hit.expanded.text.strip() == sections[sections.index("## Part 1") : sections.index("## Part 2")].strip()
        around = retriever.retrieve("Bravo second", k=1, expand="neighbours").hits[0].expanded
        assert around is not None
        assert around.ids == ("p0", "p100", "p300")
        narrow = retriever.retrieve("Bravo second", k=1, where={"page": {"gt": 0}}, expand="neighbours").hits[0]
        assert narrow.expanded is not None
        assert narrow.expanded.ids == ("p100", "p300")


def test_a_generator_may_end_in_another_thread_than_it_began():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(CHAIN)
        entities = index.graph.iter_entities()
        next(entities)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(entities.close).result()
            assert pool.submit(index.add, [Document("new", "Keyring keeps secrets.")]).result(timeout=60).added == 1
