"""The five designs as settings: values worked out by hand from their documents, where other settings differ."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest

from graphrag_apps.documents.sync import FileSource, sync_files
from graphrag_core import Document, Fact, GraphRetriever, KnowledgeExtractor, KnowledgeIndex, SearchSettings
from graphrag_core.designs import CONFIDENT, DESIGNS, HYBRID, KG2RAG, MEMORY, RESEARCH
from graphrag_core.errors import EmbedderError, InputError
from graphrag_core.model import SENTENCE_WEIGHT
from graphrag_core.strategies import Expansion, GraphStrategy
from graphrag_core.testing import CHAIN, FixedExtractor, HashEmbedder

ROUNDING = 0.003  # of stored vectors


class Cosines:
    """Embeds a text as the cosine that is stated for it; a question has the cosine 1 to itself."""

    identity = "cosines"

    def __init__(self, cosines: dict[str, float], *, broken: bool = False) -> None:
        self.cosines, self.broken = cosines, broken

    def _vector(self, cosine: float, number: int) -> list[float]:
        vector = np.zeros(40)
        vector[0], vector[1 + number] = cosine, np.sqrt(1 - cosine**2)
        return vector.tolist()

    def embed_documents(self, texts):
        return [self._vector(self.cosines.get(text, 0.0), 1 + hash(text) % 38) for text in texts]

    def embed_query(self, text):
        if self.broken:
            raise ConnectionError("no server")
        return self._vector(1.0, 0)


def triple(subject: str, relation: str, target: str, weight: float) -> Fact:
    return Fact((subject, target), f"{subject} {relation} {target}", relation, weight)


def names(result) -> list[str]:
    return [entity.name for entity in result.entities]


def test_every_design_has_a_name_and_nothing_of_the_default_pipeline():
    assert list(DESIGNS) == ["hybrid", "confident", "kg2rag", "memory", "research"]
    for design in DESIGNS.values():
        assert isinstance(design, SearchSettings)
        assert (design.reranker, design.context.published) == (False, True)
    assert [design.k for design in DESIGNS.values()] == [5, 5, 5, 30, 10]
    assert (CONFIDENT.context.max_tokens, RESEARCH.method) == (4_000, "agentic")


# -- 1: a call lowers the threshold of relations


def test_a_call_can_lower_min_graph_score():
    strengths = {"v2": 8, "oauth": 6, "jwt": 3, "store": 2}
    facts = {"auth": [triple("Auth Service", "uses", name.upper(), weight) for name, weight in strengths.items()]}
    facts |= {name: [triple(name.upper(), "is", f"Thing {name}", 5)] for name in strengths}
    texts = {name: f"Text of {name}." for name in facts}
    cosines = Cosines({texts["auth"]: 0.9})
    with KnowledgeIndex(cosines, extractor=FixedExtractor(facts), embed_names=False) as index:
        index.add([Document(name, text) for name, text in texts.items()])
        retriever = GraphRetriever(index, CONFIDENT)
        question = "What does the Auth Service use, and for which of the things that it does?"
        assert {hit.chunk.id for hit in retriever.retrieve(question)} == {"auth", "v2", "oauth", "jwt"}
        lowered = retriever.retrieve(question, **{"gate.min_graph_score": 0.1})
        assert {hit.chunk.id for hit in lowered} == {"auth", "v2", "oauth", "jwt", "store"}
        assert "Auth Service uses STORE" in {fact.text for fact in lowered.facts}


# -- 2: what happens if the embedder fails


@pytest.mark.parametrize("design", [CONFIDENT, MEMORY])
def test_without_an_embedding_two_designs_search_by_keyword(design):
    embedder = Cosines({})
    facts = {"a": [triple("Auth Service", "uses", "Session Store", 8)]}
    with KnowledgeIndex(embedder, extractor=FixedExtractor(facts), embed_names=False) as index:
        index.add([Document("a", "The Auth Service uses the Session Store."), Document("b", "Lunch.")])
        embedder.broken = True
        result = GraphRetriever(index, design).retrieve("What does the Auth Service use?")
        assert result.embedder_failed
        assert result.hits[0].chunk.id == "a"
        with pytest.raises(EmbedderError):
            GraphRetriever(index, HYBRID).retrieve("What does the Auth Service use?")


# -- 3: names in the question


def test_every_sequence_of_one_to_three_words_is_looked_up():
    facts = {
        "a": [triple("Auth Service", "uses", "Redis", 8), triple("Auth", "is part of", "Service", 5)],
        "b": [triple("Battery", "powers", "Very Long Name Here", 5)],
    }
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(facts), embed_names=False) as index:
        index.add([Document("a", "One."), Document("b", "Two.")])
        retriever = GraphRetriever(index, HYBRID)
        assert set(names(retriever.retrieve("does redis cache the Auth Service?"))) == {
            "Redis", "Auth Service", "Auth", "Service",
        }  # fmt: skip
        assert "Auth Service" in names(retriever.retrieve("Auth Services"))
        assert names(retriever.retrieve("which batteries")) == ["Battery"]
        assert names(retriever.retrieve("Very Long Name Here")) == [], "four words"


# -- 4, 16: scores of the hybrid retriever


def test_cosines_count_as_they_are():
    facts = {"pB": [triple("Alpha", "needs", "Bravo", 10)], "pC": [triple("Bravo", "is", "Charlie", 1)]}
    texts = {"pA": "first", "pB": "second", "pC": "third"}
    embedder = Cosines({"first": 0.30, "second": 0.05})
    with KnowledgeIndex(embedder, extractor=FixedExtractor(facts), embed_names=False) as index:
        index.add([Document(name, text) for name, text in texts.items()])
        result = GraphRetriever(index, HYBRID, k=1).retrieve("Alpha")
    scores = {hit.chunk.id: hit.score for hit in result}
    # pA: 0.7 · 0.6 · 0.30 = 0.126. pB: Bravo, weight 10, one hop, in two passages:
    # 1 · 1 · (0.7 + 0.3 · log2(3)/5) = 0.795; 0.7 · 0.6 · 0.05 + 0.3 · 0.795 = 0.021 + 0.239 = 0.260.
    assert scores["pA"] == pytest.approx(0.126, abs=ROUNDING)
    assert scores["pB"] == pytest.approx(0.260, abs=ROUNDING)
    assert next(iter(scores)) == "pB"


def test_the_strongest_relation_counts_and_a_sentence_only_without_one():
    facts = {
        "p": [triple("Alpha", "needs", "Bravo", 4), triple("Alpha", "calls", "Bravo", 3)],
        "q": [triple("Delta", "needs", "Echo", 2), Fact(("Delta", "Echo"), "Delta and Echo.", weight=SENTENCE_WEIGHT)],
        "r": [Fact(("Golf", "Hotel"), "Golf and Hotel.", weight=SENTENCE_WEIGHT)],
        "x": [triple("Bravo", "is", "Xray", 1)],
    }
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(facts), embed_names=False) as index:
        index.add([Document(name, f"Text {name}.") for name in facts])
        retriever = GraphRetriever(index, HYBRID.replace(**{"graph.stated": False}))

        def graph_score(question: str, chunk: str) -> float:
            return {hit.chunk.id: hit.channels["graph"].score for hit in retriever.retrieve(question)
                    if "graph" in hit.channels}[chunk]  # fmt: skip

        # Bravo is in two passages: 4/10 · (0.7 + 0.3 · log2(3)/5) = 0.4 · 0.795098 = 0.318, not (4 + 3)/10.
        assert graph_score("Alpha", "p") == pytest.approx(0.318, abs=1e-3)
        # Echo is in one passage: 2/10 · (0.7 + 0.3 · log2(2)/5) = 0.2 · 0.76 = 0.152; the sentence adds nothing.
        assert graph_score("Delta", "q") == pytest.approx(0.152, abs=1e-3)
        # Only a sentence joins Golf and Hotel, of weight 3: 0.3 · 0.76 = 0.228.
        assert graph_score("Golf", "r") == pytest.approx(0.228, abs=1e-3)


# -- 5: vectors of names


def test_names_are_found_by_similarity_at_the_stated_threshold():
    class Names(HashEmbedder):
        """The name of one entity has the cosine 0.80 to the question, in a sparse vector; another one 0.74."""

        def embed_documents(self, texts):
            vectors = {"Auth Service": [0.8, 0.6], "Session Store": [0.74, 0.0, np.sqrt(1 - 0.74**2)]}
            return [[*vectors.get(text, [0.0, 0.0, 0.0, 1.0]), *[0.0] * 64][:64] for text in texts]

        def embed_query(self, text):
            return [1.0, *[0.0] * 63]

    facts = {"a": [triple("Auth Service", "uses", "Session Store", 8)]}
    with KnowledgeIndex(Names(), extractor=FixedExtractor(facts), embed_names=True) as index:
        index.add([Document("a", "One.")])
        result = GraphRetriever(index, HYBRID).retrieve("the login system")
        assert names(result) == ["Auth Service"]
        assert result.fallback == ""
        # 003: the three nearest, whatever their similarity.
        assert GraphRetriever(index, MEMORY).retrieve("the login system").facts[0].relation == "uses"


@pytest.mark.parametrize("design", [HYBRID, MEMORY])
def test_a_design_says_that_it_misses_vectors_of_names(design):
    with KnowledgeIndex(HashEmbedder(), embed_names=False) as index:
        index.add([Document("a", "The Auth Service uses the Session Store.")])
        assert "embed_names=True" in GraphRetriever(index, design).retrieve("Auth Service").fallback
        assert "embed_names" not in GraphRetriever(index, KG2RAG).retrieve("Auth Service").fallback


# -- 7: a part of a name


def test_a_part_of_a_name_is_looked_up_in_names():
    facts = {"a": [triple("Mara Lindqvist", "runs", "Keyring", 8)], "b": [triple("Lindqvist Labs", "sells", "Tea", 8)]}
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(facts), embed_names=False) as index:
        index.add([Document("a", "She runs it."), Document("b", "They sell it."), Document("c", "Others.")])
        found = names(GraphRetriever(index, CONFIDENT).retrieve("Where does Lindqvist work?"))
        assert set(found) == {"Mara Lindqvist", "Lindqvist Labs"}


# -- 10: the scale of scores


def test_scores_have_one_scale_whether_the_graph_adds_or_not():
    embedder = Cosines({"first": 1.0})
    with KnowledgeIndex(embedder, extractor=FixedExtractor({}), embed_names=False) as index:
        index.add([Document("pA", "first"), Document("pB", "second")])
        # 0.7 · 0.6 · 1 = 0.42; reciprocal rank 1 / (60 + 1).
        assert GraphRetriever(index, HYBRID).retrieve("zzz").hits[0].score == pytest.approx(0.42, abs=ROUNDING)
        assert GraphRetriever(index, KG2RAG).retrieve("zzz").hits[0].score == pytest.approx(1 / 61)


# -- 11, 12: contexts


@pytest.mark.parametrize("source", ["user_edit", "file", "system", "conversation"])
def test_what_is_known_of_the_user_has_its_heading_whatever_the_source(source):
    fact = Fact(("User", "Dark Mode"), "User prefers Dark Mode", "prefers", source=source)
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor({"a": [fact]}), embed_names=True) as index:
        index.add([Document("a", "A note.")])
        result = GraphRetriever(index, MEMORY).retrieve("what does the user prefer")
        assert result.context(style="narrative") == "### 👤 USER CONTEXT\n- prefers: Dark Mode"


def test_the_block_is_left_out_if_the_graph_added_nothing():
    knowledge = {"a": {"entities": [{"name": "Auth Service", "type": "concept", "description": "Issues tokens."}]}}
    with KnowledgeIndex(HashEmbedder(), extractor=KnowledgeExtractor(knowledge=knowledge), embed_names=False) as index:
        index.add([Document("a", "Nothing follows from it.")])
        result = GraphRetriever(index, HYBRID).retrieve("Auth Service")
        assert names(result) == ["Auth Service"]
        assert "Knowledge Graph Context" not in result.context(style="both")


# -- 14, 15: expansion queries


def test_a_passage_that_begins_like_another_one_is_of_vector_search():
    start = "The same hundred characters at the beginning of two passages; the second one is only found by vector. "
    texts = {"one": f"{start}Alpha Bravo.", "two": f"{start}zeta."}
    facts = {"one": [triple("Alpha", "needs", "Bravo", 5)]}
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(facts), embed_names=False) as index:
        index.add([Document(name, text) for name, text in texts.items()])
        hits = {hit.chunk.id: hit for hit in GraphRetriever(index, KG2RAG).retrieve("Alpha")}
        assert hits["one"].origin == "graph"
        assert (hits["two"].origin, hits["two"].graph_expansion) == ("plain", "")


def test_there_is_a_query_for_every_neighbour_and_for_the_seed():
    facts = {"a": [triple("Alpha", "needs", f"Neighbour {number}", 5) for number in range(60)]}

    class Counting(HashEmbedder):
        asked: list[str] = []  # noqa: RUF012

        def embed_queries(self, texts):
            self.asked.extend(texts)
            return self.embed_documents(texts)

    with KnowledgeIndex(Counting(), extractor=FixedExtractor(facts), embed_names=False) as index:
        index.add([Document("a", "One.")])
        GraphRetriever(index, KG2RAG).retrieve("Alpha")
    assert len(Counting.asked) == 61
    assert Counting.asked[-1] == "Alpha"


# -- 17: research findings


def test_a_paper_in_two_files_is_one_document(tmp_path):
    paper = {"arxiv_id": "2501.03236", "title": "MAGMA Memory", "abstract": "A memory of four graphs."}
    other = {"arxiv_id": "2502.06864", "title": "KG2RAG", "abstract": "Expansion by a graph."}
    files = tmp_path / "files"
    files.mkdir()
    (files / "first.json").write_text(json.dumps({"academic_papers": [paper]}), "utf-8")
    (files / "second.json").write_text(json.dumps({"academic_papers": [paper, other]}), "utf-8")
    kb = tmp_path / "kb"

    def sync() -> set[str]:
        with KnowledgeIndex.open(kb, HashEmbedder()) as index:
            sync_files(index, FileSource((str(files),)))
            return set(index.document_ids())

    assert sync() == {"arxiv:2501.03236", "arxiv:2502.06864"}
    (files / "first.json").unlink()
    assert sync() == {"arxiv:2501.03236", "arxiv:2502.06864"}, "the second file has the paper"
    (files / "second.json").write_text(json.dumps({"academic_papers": [other]}), "utf-8")
    assert sync() == {"arxiv:2502.06864"}
    (files / "second.json").unlink()
    assert sync() == set()


# -- results, metadata = retrieve(...)


def test_a_result_is_iterated_over_its_hits_and_has_the_pair_of_the_document():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document("a", "Alpha."), Document("b", "Bravo.")])
        result = GraphRetriever(index, RESEARCH).retrieve("Alpha")
        results, metadata = result.hits, result.to_dict()["metadata"]
        assert (len(results), metadata["graph_results"]) == (2, 0)
        first, *others = result
        assert [first, *others] == [*result] == list(result)


# -- 8: the default router


def test_the_default_router_sends_overviews_to_hybrid():
    assert RESEARCH.router.route("overview of agents").method == "hybrid"
    assert SearchSettings().router.route("overview of agents").method == "hybrid"


# -- the graph as an igraph.Graph


def test_the_surroundings_of_a_question_are_an_igraph():
    @dataclass(frozen=True, kw_only=True)
    class Betweenness(GraphStrategy):
        """The passages through which most shortest paths around the question lead."""

        def expand(self, query, plain, k):
            graph = query.surroundings(passages=plain[0][:5], hops=2)
            scores = zip(graph.vs["key"], graph.betweenness(), strict=True)
            first_entity = query.snapshot.first_entity
            return Expansion(*query.best_first({key: 1 + score for key, score in scores if key < first_entity}))

    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(CHAIN)
        result = GraphRetriever(index, graph=Betweenness(), method="graph", k=9).retrieve("Who is behind Auth Service?")
        assert {hit.chunk.id for hit in result} == {document.id for document in CHAIN}


def test_the_graph_of_an_index_is_an_igraph():
    facts = {"a": [triple("Alpha", "needs", "Bravo", 8), triple("Alpha", "knows", "Bravo", 2)],
             "b": [triple("Bravo", "needs", "Charlie", 5)], "c": [triple("Charlie", "needs", "Delta", 5)]}  # fmt: skip
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(facts, {"a": "Alpha"})) as index:
        index.add([Document(name, f"Text {name}.", metadata={"tenant": name}) for name in facts])
        graph = index.graph.to_igraph("alpha", hops=2)
        assert graph.vs.select(kind="entity")["name"] == ["Alpha", "Bravo", "Charlie"]
        assert graph.vs.select(kind="passage")["name"] == ["a", "b"]
        names = graph.vs["name"]
        edges = {(names[e.source], names[e.target]): (e["weight"], e["relation"]) for e in graph.es}
        assert edges == {
            ("Alpha", "Bravo"): (8.0, "needs"), ("Bravo", "Charlie"): (5.0, "needs"), ("Alpha", "a"): (6.0, "about"),
            ("Bravo", "a"): (1.0, "mentions"), ("Bravo", "b"): (1.0, "mentions"), ("Charlie", "b"): (1.0, "mentions"),
        }  # fmt: skip
        assert graph.distances(names.index("Alpha"), names.index("Charlie")) == [[2]]
        assert index.graph.to_igraph(limit=2).ecount() == 2
        assert index.graph.to_igraph().vs.select(kind="passage")["name"] == ["a", "b", "c"]
        assert index.graph.to_igraph(where={"tenant": "b"}).vs["name"] == ["Bravo", "Charlie", "b"]
        with pytest.raises(InputError, match="there is no entity 'Zulu'"):
            index.graph.to_igraph("Zulu")


def numbers_of(part, path=""):
    """Yield the path and the value of each number of settings."""
    if is_dataclass(part):
        part = {one.name: getattr(part, one.name) for one in fields(part) if one.init}
    if isinstance(part, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in part):
        part = dict(part)
    if isinstance(part, Mapping):
        for name, value in part.items():
            yield from numbers_of(value, f"{path}.{name}" if path else name)
    elif isinstance(part, (int, float)):
        yield path, part


@pytest.mark.parametrize("name", DESIGNS)
def test_every_number_of_a_design_is_set_by_its_path(name):
    design = DESIGNS[name]
    numbers = dict(numbers_of(design.resolved))
    assert {"k", "gate.min_score", "context.published"} <= numbers.keys()
    for path, value in numbers.items():
        assert design.replace(**{path: value}).resolved == design.resolved
    weighted = RESEARCH.replace(**{"fusion.weights.vector": 0.7}).fusion.weights
    assert weighted == {"vector": 0.7, "graph": 0.5}
    assert dict(MEMORY.replace(**{"graph.relevance.sources.file": 3}).graph.relevance.sources)["file"] == 3
    with pytest.raises(InputError, match=r"did you mean 'fusion\.weights\.vector'"):
        RESEARCH.replace(**{"fusion.weights.vectr": 0.7})
    with pytest.raises(InputError, match="use a number"):
        RESEARCH.replace(**{"fusion.weights.vector": "much"})


# -- docs/seeds.md


def test_every_row_of_the_page_names_a_test_that_exists_and_is_counted():
    root = Path(__file__).parents[2]
    files = [file for folder in ("core", "adapters", "cli") for file in (root / "tests" / folder).rglob("test_*.py")]
    known = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text("utf-8"))}
    page = (root / "docs" / "seeds.md").read_text("utf-8")
    totals = [0, 0]
    for title, section in re.findall(r"^## (\d+: [^\n]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL):
        rows = re.findall(r"^\| .*? \| (.*) \| `(test_\w+)` \|$", section, re.MULTILINE)
        assert {test for _, test in rows} <= known
        exact = sum("Different: " not in setting for setting, _ in rows)
        assert re.search(rf"\[{title}\].*\| {len(rows)} \| {exact} \| {len(rows) - exact} \|", page)
        totals = [totals[0] + len(rows), totals[1] + exact]
    assert totals[0] - totals[1] <= 25
    assert f"| all | | {totals[0]} | {totals[1]} | {totals[0] - totals[1]} |" in page
