"""An explanation names no unrelated path: every step follows from the one before, and the end says something."""

from __future__ import annotations

import pytest

from graphrag_apps.demo import sample_documents
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.testing import HashEmbedder
from graphrag_core.text import normalise

QUESTIONS = (
    "Who is the boss of the man who called every port after INC-2103?",
    "What is the background of the author of ADR-019?",
    "Which team owns the service that writes to the Ledger?",
    "What did Tomas Vael and Mara Lindqvist argue about?",
    "Where does Rosa Millán work?",
    "who is on call at night",
    "What happens if Keyring is down?",
    "What is Harbourlight?",
)


@pytest.fixture(scope="module")
def index():
    with KnowledgeIndex(HashEmbedder(), progress=False) as index:
        index.add(sample_documents())
        yield index


@pytest.mark.parametrize("method", ["hybrid", "graph"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_step_follows_from_the_one_before(index, question, method):
    result = GraphRetriever(index, method=method, k=10).retrieve(question)
    facts = {fact.id: fact for fact in result.facts}
    named = {entity.id for entity in result.entities}
    for place, hit in enumerate(result.hits):
        if not hit.path:
            continue
        first, *between, last = hit.path
        assert (first.kind, last.kind, last.id) == ("question", "chunk", hit.chunk.id)
        if between[0].kind == "chunk":
            better = [other for other in result.hits[:place] if other.chunk.id == between[0].id]
            assert better, "a path starts at a better hit"
            assert facts[between[1].id].chunk_id == between[0].id
        else:
            assert between[0].id in named
        for at, step in enumerate(between):
            if step.kind == "fact":
                held = {normalise(name) for name in facts[step.id].entities}
                for end in (between[at - 1], between[at + 1]):
                    in_words = end.text.casefold() in step.text.casefold()  # in lower case, as "the auth service"
                    assert end.kind == "chunk" or end.id in held or in_words
        end = between[-1]
        assert end.kind == "entity"
        assert end.text.casefold() in f"{hit.chunk.title}\n{hit.chunk.text}".casefold()


def test_a_year_that_two_passages_share_is_no_path():
    with KnowledgeIndex(HashEmbedder(), progress=False) as index:
        index.add(
            [
                Document("works", "Alpha Works was founded in 1999 by Ada Stone.", "Alpha Works"),
                Document("hall", "Beta Hall burned down in 1999.", "Beta Hall"),
                Document("ada", "Ada Stone was born in Kiel.", "Ada Stone"),
            ]
        )
        result = GraphRetriever(index, method="graph").retrieve("Who founded Alpha Works?", explain=True)
    paths = {hit.chunk.id: [step.text for step in hit.path[1:-1]] for hit in result.hits}
    assert paths["works"] == ["Alpha Works"]
    assert paths["ada"] == ["Alpha Works", "Alpha Works was founded in 1999 by Ada Stone.", "Ada Stone"]
    assert not paths.get("hall")


def test_an_entity_that_everything_mentions_leads_only_to_the_passage_about_it():
    others = [Document(f"d{n}", f"Harbour {n} belongs to Gamma Union.", f"Harbour {n}") for n in range(200)]
    with KnowledgeIndex(HashEmbedder(), progress=False) as index:
        index.add(
            [
                *others,
                Document("works", "Alpha Works is a member of Gamma Union.", "Alpha Works"),
                Document("union", "Gamma Union has its seat in Oslo.", "Gamma Union"),
            ]
        )
        result = GraphRetriever(index, method="graph", k=20).retrieve("What is Alpha Works?", explain=True)
    paths = {hit.chunk.id: hit.path for hit in result.hits}
    assert [step.text for step in paths["union"][1:-1]][-1] == "Gamma Union"
    assert not any(path for document, path in paths.items() if document.startswith("d"))


def test_a_hit_without_a_path_says_how_it_was_found(index):
    result = GraphRetriever(index, method="keyword", k=2).retrieve("oceanography")
    assert "found by plain search: keyword rank 1" in result.explain()
    assert "studied oceanography" in result.explain()


# -- explanations are computed when they are read

CHAIN = [
    Document("works", "Alpha Works was founded by Ada Stone.", "Alpha Works"),
    Document("ada", "Ada Stone was born in Kiel.", "Ada Stone"),
]


@pytest.fixture
def small():
    with KnowledgeIndex(HashEmbedder(), progress=False) as index:
        index.add(CHAIN)
        yield index


def test_after_a_write_hits_are_found_again_by_id(small):
    result = GraphRetriever(small).retrieve("Who founded Alpha Works?")
    small.delete(["ada"])
    small.add([Document("first", "Zeta Hall stands in Oslo.", "Zeta Hall")])
    paths = {hit.chunk.id: hit.path for hit in result.hits}
    assert [step.text for step in paths["works"][1:]] == ["Alpha Works", "Alpha Works"]
    assert paths["ada"] == ()
    assert "Alpha Works" in result.explain()
