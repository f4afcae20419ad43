"""The compliance suite of engines."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from graphrag_core.embedders import WordLlama
from graphrag_core.engine.engine import IndexEngine
from graphrag_core.engine.snapshot import Snapshot
from graphrag_core.errors import ChangedMeanwhile, DocumentError
from graphrag_core.filters import Where, parse
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.chunker import Chunker
from graphrag_core.model import Document, Fact
from graphrag_core.retriever import GraphRetriever
from graphrag_core.testing import CHAIN, CHAIN_QUESTION, FixedExtractor, HashEmbedder

_DOCUMENTS = (
    Document("a", "Alpha text about tokens.", metadata={"tenant": "acme"}),
    Document("b", "Bravo text, issuing a token.", metadata={"tenant": "acme"}),
    Document("c", "东京大学是日本的大学。", metadata={"tenant": "umbrella"}),
)
_FACTS = {
    "a": [Fact(("Alpha", "Bravo"), "Alpha owns Bravo", "owns", weight=8, confidence=0.9)],
    "b": [Fact(("Bravo", "Carol"), "Bravo, Carol", weight=3), Fact(("Alpha", "Bravo"), "Alpha, Bravo", weight=3)],
    "c": [Fact(("Alpha", "Dora"), "Alpha knows Dora", "knows", weight=5)],
}
_SUBJECTS = {"a": "Alpha", "b": "Bravo"}


class EngineSuite:
    """What every engine must fulfil.

    Documents ``a`` (about Alpha), ``b`` (about Bravo) and ``c`` (of another tenant) state four facts.
    """

    def make(self) -> IndexEngine:
        """Return a new, empty engine."""
        raise NotImplementedError

    @contextmanager
    def _filled(self) -> Iterator[KnowledgeIndex]:
        extractor = FixedExtractor(_FACTS, _SUBJECTS)
        with KnowledgeIndex(HashEmbedder(), engine=self.make(), extractor=extractor, chunker=None) as index:
            index.add(_DOCUMENTS)
            yield index

    # -- records

    def test_a_new_engine_is_empty(self) -> None:
        """No documents, no hits, no error."""
        engine = self.make()
        assert len(engine) == 0
        assert list(engine.document_ids()) == []
        assert engine.settings().get("embedder", "") == ""
        with engine.snapshot() as snapshot:
            assert not snapshot.has("chunks")
            assert not snapshot.has("entities")
            assert len(snapshot.search_keywords("tokens", 5)[0]) == 0
            assert snapshot.find_entities(["alpha"]) == {}
        assert engine.verify()
        engine.close()

    def test_documents_come_back_as_they_were_added(self) -> None:
        """Text, title, metadata and marks; ids in order; filters select."""
        with self._filled() as index:
            engine = index.engine
            assert [engine.document(document.id) for document in _DOCUMENTS] == list(_DOCUMENTS)
            assert engine.document("none") is None
            assert list(engine.document_ids()) == ["a", "b", "c"]
            assert list(engine.document_ids(parse({"tenant": "umbrella"}))) == ["c"]
            assert [chunk.text for chunk in engine.chunks_of("a")] == [_DOCUMENTS[0].text]
            assert engine.stored(["a", "none"]).keys() == {"a"}

    def test_chunks_know_their_headings_and_page(self) -> None:
        """Read by document and through a snapshot."""
        with self._filled() as index:
            (parsed,) = index.pipeline.parse([Document("d", "Delta text.", "Manual")])
            chunk = replace(parsed.chunks[0], headings=("Settings", "broker_url"), page=12)
            vector = HashEmbedder().embed_query("Delta text.")[None, :]
            index.engine.write([replace(parsed, chunks=[chunk], chunk_vectors=vector)])
            assert index.engine.chunks_of("d") == [chunk]
            with index.engine.snapshot() as snapshot:
                assert snapshot.chunks(snapshot.search_keywords("broker_url", 1)[0]) == [chunk]

    def test_every_write_is_a_new_generation(self) -> None:
        """Adding, replacing and deleting count; reading does not."""
        with self._filled() as index:
            first = index.engine.generation
            with index.engine.snapshot() as snapshot:
                assert snapshot.generation == first
            index.delete("c")
            assert index.engine.generation > first

    def test_a_failed_write_changes_nothing(self) -> None:
        """A stored document that is added without being removed is refused, and its batch with it."""
        with self._filled() as index:
            engine, before = index.engine, index.engine.generation
            batch = index.pipeline.parse([Document("d", "New."), _DOCUMENTS[0]])
            try:
                engine.write(batch)
                engine.flush()
            except DocumentError:
                assert engine.generation == before
                assert "d" not in index
                assert index.verify()
            else:
                raise AssertionError("a stored document was added a second time")

    def test_deletion_removes_exactly_what_was_added(self) -> None:
        """Edges, counts and search results equal those of an index without the document."""
        with self._filled() as index:
            index.delete("a")
            assert index.verify()
            remaining = _description(index)
        extractor = FixedExtractor(_FACTS, _SUBJECTS)
        with KnowledgeIndex(HashEmbedder(), engine=self.make(), extractor=extractor, chunker=None) as fresh:
            fresh.add(_DOCUMENTS[1:])
            assert remaining == _description(fresh)

    def test_documents_are_read_as_they_were_written(self) -> None:
        """With chunks, facts, names and vectors, in the order asked for; rounded vectors stay close."""
        with self._filled() as index:
            written = index.pipeline.parse(_DOCUMENTS)
            found = index.engine.parsed(["b", "none", "a"])
            for one, expected in zip(found, (written[1], written[0]), strict=True):
                assert one.document == expected.document
                assert (one.metadata, one.digest) == (expected.metadata, expected.digest)
                assert [*one.chunks] == [*expected.chunks]
                assert [*map(list, one.names)] == [*map(list, expected.names)]
                assert [e.facts for e in one.extractions] == [e.facts for e in expected.extractions]
                assert one.chunk_vectors is not None
                vector = HashEmbedder().embed_query(one.document.text)
                assert np.allclose(one.chunk_vectors[0], vector, atol=1e-3)
            assert index.engine.new_names(["Alpha", "Zulu", "Zulu"]) == ["Zulu"]
            assert index.engine.name_vectors(["Zulu"]) == {}

    def test_a_replaced_document_keeps_the_accesses_of_its_facts(self) -> None:
        """Of those that it still states; also if they were counted just before."""
        with self._filled() as index:
            engine = index.engine
            with engine.snapshot() as snapshot:
                snapshot.record_access(snapshot.facts_of(_entities(snapshot, "alpha", "bravo"), joint=True), 50.0)
            for replaced in ("a", "b"):
                (parsed,) = engine.parsed([replaced])
                engine.write([parsed], [replaced])
            engine.flush()
            facts = [fact for one in engine.parsed(["a", "b"], accesses=True) for fact in one.extractions[0].facts]
            assert [(fact.access_count, fact.last_accessed) for fact in facts] == [(1, 50.0), (0, None), (1, 50.0)]
            assert [fact.access_count for one in engine.parsed(["a"]) for fact in one.extractions[0].facts] == [0]

    def test_a_setting_is_changed_only_if_it_has_the_expected_value(self) -> None:
        """Else nothing is written."""
        with self._filled() as index:
            engine = index.engine
            engine.write(settings={"colour": "red"}, expected={"colour": ""})
            try:
                engine.write(removed=["a"], settings={"colour": "blue"}, expected={"colour": "green"})
                engine.flush()
            except ChangedMeanwhile:
                assert engine.settings()["colour"] == "red"
                assert "a" in index
            else:
                raise AssertionError("a setting was changed that had another value")

    # -- search

    def test_vectors_are_found_by_similarity(self) -> None:
        """Best first, with the cosine similarity; the same numbers for given keys."""
        with self._filled() as index, index.engine.snapshot() as snapshot:
            query = HashEmbedder().embed_query("issuing a token")
            ((keys, scores),) = snapshot.search_vectors("chunks", query[None, :], 2)
            assert snapshot.chunks(keys)[0].id == "b"
            assert (np.diff(scores) <= 0).all()
            expected = [float(HashEmbedder().embed_query(chunk.text) @ query) for chunk in snapshot.chunks(keys)]
            assert np.allclose(scores, expected, atol=1e-2)
            assert np.allclose(snapshot.similarities("chunks", keys, query), expected, atol=1e-2)
            assert snapshot.similarities("chunks", keys, None).tolist() == [0] * len(keys)

    def test_keywords_are_found_by_stem_and_in_chinese(self) -> None:
        """Positive scores only, best first."""
        with self._filled() as index, index.engine.snapshot() as snapshot:
            keys, scores = snapshot.search_keywords("TOKEN", 5)
            assert {chunk.id for chunk in snapshot.chunks(keys)} == {"a", "b"}
            assert (scores > 0).all()
            assert [chunk.id for chunk in snapshot.chunks(snapshot.search_keywords("大学", 5)[0])] == ["c"]
            for text in ("", "  ", '"', "AND OR NOT", "text:fox^9 (", "\\", "😀"):
                snapshot.search_keywords(text, 5)

    def test_identifiers_are_found_whole_and_by_their_parts(self) -> None:
        """Whatever joins the parts."""
        with self._filled() as index:
            index.add([Document("d", "Set CELERY_BROKER_URL."), Document("e", "A broker has a url; celery, too.")])
            with index.engine.snapshot() as snapshot:
                for text in ("CELERY_BROKER_URL", "celery.broker.url", "celeryBrokerUrl", "celery-broker-url"):
                    keys, _ = snapshot.search_keywords(text, 5)
                    assert [chunk.id for chunk in snapshot.chunks(keys)] == ["d", "e"]
                assert len(snapshot.search_keywords("broker", 5)[0]) == 2

    def test_terms_are_counted_and_located(self) -> None:
        """As keyword search sees them; counts are those of all documents, but 0 for a term that none in scope has."""
        with self._filled() as index, index.engine.snapshot() as snapshot:
            terms = snapshot.terms("the tokens of a Token, Bravo and nothing")
            assert len(terms) == len(set(terms)) == 3  # token, bravo, nothing
            assert snapshot.term_counts(terms).tolist() == [2, 1, 0]
            (university,) = snapshot.terms("大学")
            assert snapshot.term_counts([university]).tolist() == [1]
            assert snapshot.terms("of the") == []
            ((keys, _),) = snapshot.search_vectors("chunks", HashEmbedder().embed_query("text")[None, :], 3)
            keys = keys[np.argsort(snapshot.id_order("chunks", keys))]
            found = snapshot.terms_in("chunks", keys, [*terms, university])
            assert found.tolist() == [[True, False, False, False], [True, True, False, False], [False] * 3 + [True]]
            facts = snapshot.facts_of(_entities(snapshot, "bravo"))
            facts = facts[np.argsort(snapshot.id_order("facts", facts))]
            sentences = snapshot.sentences(keys, snapshot.terms("Carol owning"))
            of_facts = dict(zip(sentences.facts.tolist(), sentences.of_facts.tolist(), strict=True))
            assert [of_facts[fact] for fact in facts.tolist()] == [[False, True], [True, False], [False, False]]
            assert snapshot.terms_in("chunks", keys[:0], terms).shape == (0, 3)
        with self._filled() as index, index.engine.snapshot(parse({"tenant": "acme"})) as snapshot:
            assert snapshot.term_counts([*terms, university]).tolist() == [2, 1, 0, 0]
        with self._filled() as index, index.engine.snapshot(parse({"__id__": "a"})) as snapshot:
            assert snapshot.term_counts([*terms, university]).tolist() == [2, 0, 0, 0]

    def test_token_ids_of_chunks_are_stored(self) -> None:
        """Also in a scope, after edits, other edges and a rebuild, which adds those that are missing."""
        embedder, documents = WordLlama(), [*_DOCUMENTS, Document("d", "**Delta** text.", "Manual")]
        texts = [*(document.text for document in _DOCUMENTS), "Manual Delta text."]
        expected = dict(zip("abcd", ({*own.tolist()} for own in embedder.token_ids(texts)), strict=True))
        extractor = FixedExtractor(_FACTS, _SUBJECTS)

        def tokens(where: Where | None = None) -> dict[str, set[int]]:
            found = {name: {*own} for name, own in _tokens(index, where).items()}
            assert all(own >= expected[name] for name, own in found.items()), "facts that were given have their own"
            return found

        with KnowledgeIndex(embedder, engine=self.make(), extractor=extractor, chunker=None, progress=False) as index:
            index.add(documents)
            before = tokens()
            assert before["d"] == expected["d"]
            assert tokens({"tenant": "acme"}).keys() == {"a", "b"}
            with index.engine.snapshot() as snapshot:
                keys = np.array([snapshot.find_chunks(["a", "b"])[name] for name in "bab"], np.int64)
                counts, ids = snapshot.tokens(keys)
                assert counts[0] == counts[2]
                assert (len(ids), ids.dtype) == (counts.sum(), np.uint16)
                assert [len(column) for column in snapshot.tokens(keys[:0])] == [0, 0]
            (parsed,) = index.engine.parsed(["d"])
            index.engine.write([replace(parsed, chunk_tokens=None, token_counts=None)], ["d"])
            assert _tokens(index)["d"] == []
            index.rebuild()
            assert tokens() == before
            index.graph.rename("Alpha", "Omega")
            index.pipeline.derive_edges([("tenant", "tenant")])
            assert tokens().keys() == before.keys()
            index.delete("a")
            assert index.verify()

    def test_an_embedder_without_token_ids_stores_none(self) -> None:
        """No chunk has any, and documents are read as they were written."""
        with self._filled() as index:
            assert _tokens(index) == {"a": [], "b": [], "c": []}
            assert [one.chunk_tokens for one in index.engine.parsed(["a", "b"])] == [None, None]
            assert index.verify()

    def test_chunks_of_a_document_share_a_number(self) -> None:
        """Also in a scope, and after a deletion."""
        chunker = Chunker(max_tokens=32, overlap=0, whole_until=32)
        with KnowledgeIndex(HashEmbedder(), engine=self.make(), chunker=chunker, progress=False) as index:
            index.add([Document(name, f"Alpha is {name}. " * 40, metadata={"name": name}) for name in "abc"])
            for where in (None, {"name": {"in": ["a", "c"]}}, {"name": "b"}):
                assert _share_numbers(index, where), where
            index.delete("a")
            assert _share_numbers(index, None)

    def test_ids_order_ties(self) -> None:
        """``id_order`` sorts chunks by id and facts by chunk id and position."""
        with self._filled() as index, index.engine.snapshot() as snapshot:
            ((keys, _),) = snapshot.search_vectors("chunks", HashEmbedder().embed_query("text")[None, :], 3)
            ordered = keys[np.argsort(snapshot.id_order("chunks", keys))]
            assert [chunk.id for chunk in snapshot.chunks(ordered)] == ["a", "b", "c"]
            facts = snapshot.facts_of(_entities(snapshot, "bravo"))
            ordered = facts[np.argsort(snapshot.id_order("facts", facts))]
            assert [fact.id for fact in snapshot.facts(ordered)] == ["a/0", "b/0", "b/1"]

    def test_facts_that_say_the_same_are_found_once(self) -> None:
        """The first of them by id; after its document is deleted the next one."""
        fact = Fact(("Echo", "Foxtrot"), "Echo met Foxtrot in Malmö.", weight=3)
        extractor = FixedExtractor({"p": [fact], "q": [fact]})
        with KnowledgeIndex(engine=self.make(), extractor=extractor, chunker=None) as index:
            index.add([Document("q", "One."), Document("p", "Two.")])
            with index.engine.snapshot() as snapshot:
                chunks = snapshot.find_chunks(["p", "q"])
                facts = snapshot.facts_in(np.array([chunks["q"], chunks["p"]]))
                assert _fact_ids(snapshot, facts) == ["p/0"]
            index.delete("p")
            with index.engine.snapshot() as snapshot:
                facts = snapshot.facts_in(np.array([snapshot.find_chunks(["q"])["q"]]))
                assert _fact_ids(snapshot, facts) == ["q/0"]

    # -- the graph

    def test_edges_have_their_weights(self) -> None:
        """1 for a mention, 5 more for a subject; weight / 10 for each fact that joins two entities."""
        with self._filled() as index, index.engine.snapshot() as snapshot:
            assert _edges(snapshot, "alpha", "entities") == {"bravo": 1.1, "dora": 0.5}  # 8/10 + 3/10, and 5/10
            assert _edges(snapshot, "bravo", "entities") == {"alpha": 1.1, "carol": 0.3}
            assert _edges(snapshot, "alpha", "chunks") == {"a": 6.0, "b": 1.0, "c": 1.0}
            edges = snapshot.neighbours(_entities(snapshot, "alpha"))
            assert np.allclose(edges.totals, [6 + 1 + 1 + 1.1 + 0.5])
            walk = snapshot.walk(_entities(snapshot, "alpha"))
            assert sorted(walk.weights.tolist()) == [1, 1, 6]
            assert walk.totals.tolist() == [8]
            assert snapshot.degrees(_entities(snapshot, "alpha")).tolist() == [3]
            assert (walk.targets < snapshot.first_entity).all()
            strongest = snapshot.neighbours(_entities(snapshot, "alpha", "bravo"), to="entities", limit=1)
            assert strongest.counts.tolist() == [1, 1]
            assert np.allclose(strongest.totals, [1.1, 1.1])
            assert [entity.id for entity in snapshot.entities(strongest.targets)] == ["bravo", "alpha"]
            assert (edges.targets < snapshot.node_limit).all()

    def test_entities_are_counted(self) -> None:
        """How many chunks mention each, and whether one is about it."""
        with self._filled() as index, index.engine.snapshot() as snapshot:
            entities = _entities(snapshot, "alpha", "bravo", "carol")
            assert snapshot.entity_counts(entities).tolist() == [3, 2, 1]
            assert snapshot.are_subjects(entities).tolist() == [True, True, False]
            assert snapshot.find_entities(["alpha", "nobody"]).keys() == {"alpha"}
            assert [entity.id for entity in snapshot.entities(snapshot.top_entities(2))] == ["alpha", "bravo"]

    def test_facts_are_found_by_entity(self) -> None:
        """Of any, of all, of a relation; those that start at an entity."""
        with self._filled() as index, index.engine.snapshot() as snapshot:
            alpha, bravo = _entities(snapshot, "alpha"), _entities(snapshot, "alpha", "bravo")
            assert _fact_ids(snapshot, snapshot.facts_of(alpha)) == ["a/0", "b/1", "c/0"]
            assert _fact_ids(snapshot, snapshot.facts_of(bravo, joint=True)) == ["a/0", "b/1"]
            assert _fact_ids(snapshot, snapshot.facts_of(alpha, relations=["knows"])) == ["c/0"]
            keys, confidence, _ = snapshot.outgoing_facts(int(bravo[1]), snapshot.facts_of(bravo[1:]))
            assert _fact_ids(snapshot, keys) == ["b/0", "b/1"]  # not a/0, whose subject is Alpha
            assert confidence.tolist() == [1.0, 1.0]
            assert snapshot.are_triples(snapshot.facts_of(alpha)).tolist() == [True, False, True]
            rows = snapshot.fact_rows(snapshot.facts_of(alpha, relations=["knows"]))
            assert rows.weights.tolist() == [5.0]
            assert [entity.id for entity in snapshot.entities(rows.entities)] in (["alpha", "dora"], ["dora", "alpha"])
            assert snapshot.chunks(rows.chunks)[0].id == "c"

    def test_a_scope_hides_everything_outside(self) -> None:
        """Chunks, facts, edges and counts of other documents do not exist."""
        with self._filled() as index, index.engine.snapshot(parse({"tenant": "acme"})) as snapshot:
            assert _edges(snapshot, "alpha", "entities") == {"bravo": 1.1}
            assert snapshot.find_entities(["dora"]) == {}
            assert snapshot.entity_counts(_entities(snapshot, "alpha")).tolist() == [2]
            assert len(snapshot.search_keywords("大学", 5)[0]) == 0
            ((keys, _),) = snapshot.search_vectors("chunks", HashEmbedder().embed_query("x")[None, :], 9)
            assert {chunk.id for chunk in snapshot.chunks(keys)} == {"a", "b"}

    def test_accesses_of_facts_are_counted(self) -> None:
        """At once for readers of this engine."""
        with self._filled() as index, index.engine.snapshot() as snapshot:
            facts = snapshot.facts_of(_entities(snapshot, "dora"))
            snapshot.record_access(facts, 123.0)
            (fact,) = snapshot.facts(facts)
            assert (fact.access_count, fact.last_accessed) == (1, 123.0)

    def test_a_replaced_document_keeps_the_accesses_of_facts_that_stayed(self) -> None:
        """Of sentences by their text, of triples by names, relation and value; new facts start at 0."""
        with self._filled() as index:
            with index.engine.snapshot() as snapshot:
                for now in (123.0, 124.0):
                    snapshot.record_access(snapshot.facts_of(_entities(snapshot, "alpha", "bravo")), now)
            added = Fact(("Bravo", "Erin"), "Bravo, Erin", weight=3)
            index.pipeline.extractor = FixedExtractor({"b": [added, *_FACTS["b"][1:]]}, _SUBJECTS)
            index.add([replace(_DOCUMENTS[1], text="Bravo text, edited.")])
            counts = {fact.text: (fact.access_count, fact.last_accessed) for fact in index.graph.facts("Bravo")}
            assert counts == {"Alpha owns Bravo": (2, 124.0), "Bravo, Erin": (0, None), "Alpha, Bravo": (2, 124.0)}
            assert index.verify()

    def test_the_graph_is_the_same_igraph_in_every_engine(self) -> None:
        """Vertices and edges in the same order; keys are the engine's."""
        with self._filled() as index:
            graph = index.graph.to_igraph()
            names = graph.vs["name"]
            assert list(zip(graph.vs["kind"], names, strict=True)) == sorted(zip(graph.vs["kind"], names, strict=True))
            edges = [(names[edge.source], names[edge.target], *edge.attributes().values()) for edge in graph.es]
            assert ("Alpha", "Bravo") in {edge[:2] for edge in edges}
            with KnowledgeIndex(
                HashEmbedder(), extractor=FixedExtractor(_FACTS, _SUBJECTS), chunker=None
            ) as other:  # in memory
                other.add(_DOCUMENTS)
                same = other.graph.to_igraph()
                assert same.vs["name"] == names
                found = [(names[edge.source], names[edge.target], *edge.attributes().values()) for edge in same.es]
                assert found == edges

    def test_told_facts_are_stored_hidden_and_deleted_exactly(self) -> None:
        """A fact that is rejected, or not valid now, is in no search, edge or count."""
        with self._filled() as index:
            before = _description(index)
            index.memory.remember("Alpha", "owns", "Echo", valid_from=100.0, valid_to=200.0, confidence=0.5)
            wrong = index.memory.remember("Alpha", "hates", "Foxtrot")
            with index.engine.snapshot() as snapshot:
                (owned,) = snapshot.facts(snapshot.facts_of(_entities(snapshot, "echo")))
            assert (owned.valid_from, owned.valid_to, owned.confidence) == (100.0, 200.0, 0.5)
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
            assert _description(index) == before

    def test_stats_count_what_is_listed(self) -> None:
        """Names but no numbers, relations but no links between sections, and nothing that was deleted."""
        with KnowledgeIndex(HashEmbedder(), engine=self.make()) as index:
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
            assert stats.links == len(index.graph.relations(relation="refers_to")) == len(links) > 0
            assert stats.facts == len(list(index.graph.iter_facts()))

    def test_entities_are_found_by_parts_of_their_names(self) -> None:
        """In any case and spelling, also by an alias and by a new name, and within the scope alone."""
        names = ["The Auth-Service", "Authority Board", "Café Müller", "北京大学", "Old Auth"]
        facts = {str(at): [Fact((name, "Hub"), f"{name}, Hub")] for at, name in enumerate(names)}
        facts["0"].append(Fact(("Auth-Service", "1999"), "Auth-Service, 1999"))
        documents = [Document(str(at), f"{name}.", "", {"team": at}) for at, name in enumerate(names)]
        extractor = FixedExtractor(facts, {})
        with KnowledgeIndex(HashEmbedder(), engine=self.make(), extractor=extractor) as index:
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

    def test_filters_select_documents(self) -> None:
        """By values of the same kind; lists match by any of their items."""
        values = {"a": (1, ["x", "w"]), "b": (2, 3), "c": (1.0, None), "d": (0.5, True)}
        cases: list[tuple[Where, str]] = [
            ({"n": 1}, "ac"),
            ({"n": 0.5}, "d"),
            ({"n": {"gt": 1}}, "b"),
            ({"tag": {"in": ["x", 3, True]}}, "abd"),
            ({"tag": True}, "d"),
            ({"tag": 1}, ""),
            ({"tag": None}, "c"),
            ({"tag": {"exists": False}}, ""),
            ({"tag": {"gte": "x"}}, "a"),
            ({"not": {"n": 1}}, "bd"),
            ({"or": [{"n": 2}, {"tag": "x"}]}, "ab"),
            ({"__id__": {"in": ["a", "z"]}}, "a"),
        ]
        with KnowledgeIndex(HashEmbedder(), engine=self.make()) as index:
            index.add([Document(name, f"Text {name}.", "", {"n": n, "tag": tag}) for name, (n, tag) in values.items()])
            for where, expected in cases:
                assert "".join(index.document_ids(where)) == expected, where
                with index.engine.snapshot(parse(where)) as snapshot:
                    keys, _ = snapshot.search_keywords("text", 9)
                    assert sorted(chunk.id for chunk in snapshot.chunks(keys)) == [*expected], where

    def test_a_key_that_no_document_has_matches_nothing(self) -> None:
        """Also if it is negated, so that a typing mistake cannot open a scope."""
        cases: list[tuple[Where, str]] = [
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
        metadata: dict[str, dict[str, str]] = {"a": {"tenant": "x"}, "b": {"tenant": "y"}, "c": {}}
        with KnowledgeIndex(HashEmbedder(), engine=self.make()) as index:
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

    def test_rebuilding_and_erasing_change_no_answer(self) -> None:
        """Also after deletions."""
        with self._filled() as index:
            index.delete("b")
            before = _description(index)
            index.rebuild()
            assert _description(index) == before
            assert index.erase()
            assert _description(index) == before
            assert index.verify()

    def test_a_retriever_answers_over_two_hops(self) -> None:
        """The whole pipeline on this engine."""
        with KnowledgeIndex(HashEmbedder(), engine=self.make()) as index:
            index.add(CHAIN)
            hits = GraphRetriever(index).retrieve(CHAIN_QUESTION, k=3, where={"tenant": "acme"}).hits
            assert "keyring" in {hit.chunk.id for hit in hits}
            stats = index.stats()
            assert (stats.documents, stats.chunks) == (5, 5)

    def test_the_passages_around_a_hit_are_read_within_the_scope(self) -> None:
        """Sections of a document, and pieces that an application cut, in the order of their positions."""
        sections = "\n\n".join(f"## Part {n}\n\n" + f"Words of topic{n}. " * 12 for n in range(3))
        texts = {300: "Carol is third.", 0: "Alpha is first.", 100: "Bravo is second."}
        cut = [
            Document(f"p{start}", text, metadata={"source": "x.txt", "start_index": start, "page": start})
            for start, text in texts.items()
        ]
        chunker = Chunker(max_tokens=32, overlap=8, whole_until=32)
        with KnowledgeIndex(HashEmbedder(), engine=self.make(), chunker=chunker) as index:
            index.add([Document("book", f"# Book\n\n{sections}"), *cut])
            retriever = GraphRetriever(index)
            hit = retriever.retrieve("topic1", k=1, expand="section").hits[0]
            assert hit.expanded is not None
            assert (
                hit.expanded.text.strip() == sections[sections.index("## Part 1") : sections.index("## Part 2")].strip()
            )
            bravo = retriever.retrieve("Bravo second", k=1)
            around = bravo.expand("neighbours").hits[0].expanded
            assert around is not None
            assert around.ids == ("p0", "p100", "p300")
            narrow = retriever.retrieve("Bravo second", k=1, where={"page": {"gt": 0}}, expand="neighbours").hits[0]
            assert narrow.expanded is not None
            assert narrow.expanded.ids == ("p100", "p300")
            index.delete(["p100", "p300"])
            gone = bravo.expand("section").hits[0].expanded
            assert gone is not None
            assert gone.ids == ("p100",)


def _entities(snapshot: Snapshot, *names: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    found = snapshot.find_entities(names)
    return np.array([found[name] for name in names], np.int64)


def _edges(snapshot: Snapshot, name: str, to: str) -> dict[str, float]:
    edges = snapshot.neighbours(_entities(snapshot, name), to=to)  # type: ignore[arg-type]
    if to == "chunks":
        ids = [chunk.id for chunk in snapshot.chunks(edges.targets)]
    else:
        ids = [entity.id for entity in snapshot.entities(edges.targets)]
    return {node: round(weight, 4) for node, weight in zip(ids, edges.weights.tolist(), strict=True)}


def _tokens(index: KnowledgeIndex, where: Where | None = None) -> dict[str, list[int]]:
    with index.engine.snapshot(None if where is None else parse(where)) as snapshot:
        found = snapshot.find_chunks(["a", "b", "c", "d"])
        counts, ids = snapshot.tokens(np.array([*found.values()], np.int64))
        own = np.split(ids, counts.cumsum())
        return {name: tokens.tolist() for name, tokens in sorted(zip(found, own, strict=False))}


def _share_numbers(index: KnowledgeIndex, where: Where | None) -> bool:
    """Return whether chunks in a scope have the same number if they are of the same document."""
    with index.engine.snapshot(None if where is None else parse(where)) as snapshot:
        keys, _ = snapshot.search_keywords("Alpha", 100)
        documents = [chunk.document_id for chunk in snapshot.chunks(keys)]
        assert len(documents) > 2 * len(set(documents)) > 0
        numbers = snapshot.documents_of(keys).tolist()
        return len({*zip(numbers, documents, strict=True)}) == len({*numbers}) == len({*documents})


def _fact_ids(snapshot: Snapshot, keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    return sorted(fact.id for fact in snapshot.facts(keys))


def _description(index: KnowledgeIndex) -> dict[str, object]:
    """Everything that queries can see, in ids."""
    with index.engine.snapshot() as snapshot:
        entities = snapshot.entities(snapshot.top_entities(100))
        return {
            "entities": sorted((entity.id, entity.name, entity.mentions) for entity in entities),
            "edges": {entity.id: _edges(snapshot, entity.id, "entities") for entity in entities},
            "chunks": {entity.id: _edges(snapshot, entity.id, "chunks") for entity in entities},
            "documents": list(index.engine.document_ids()),
        }
