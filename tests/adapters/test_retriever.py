"""What the retrievers of both adapters do alike: answers, edges, scopes, prompts, recall, names."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hostile_text import NAME, TEXT, check_prompt

from graphrag_core import Document

QUESTIONS, DISTRACTORS = 60, 700
SERVICES = [
    Document("auth", "The Auth Service calls the Keyring.", "", {"owner": "Harbour Team", "tenant": "a"}),
    Document("key", "The Keyring is sold by Solheim.", "", {"owner": "Harbour Team", "tenant": "a"}),
    Document("secret", "The Auth Service of B is secret.", "", {"tenant": "b"}),
]


@pytest.fixture
def services(framework):
    with framework.build(SERVICES, k=3, edges=["owner"], add_metadata=["graphrag"]) as retriever:
        retriever.index.graph.add_relation("Keyring", "replaces", "Old Vault", metadata={"scope": "told"})
        yield retriever


# -- follow-up questions

HARBOUR = [
    Document("tariff", "The Tariff Engine is owned by Tomas Vael.", "Tariff Engine"),
    Document("quay", "The Quay Planner is owned by Rosa Millan.", "Quay Planner"),
    *(Document(f"owner-{at}", f"An owner of things, number {at}, owns what it owns.") for at in range(12)),
]


@pytest.fixture
def harbour(framework):
    with framework.build(HARBOUR, k=3) as retriever:
        yield retriever


async def test_a_follow_up_question_starts_from_what_the_conversation_names(framework, harbour):
    messages = framework.conversation("What computes the prices?", "The Tariff Engine does.", "The Quay Planner.")
    assert "tariff" not in framework.ids(framework.retrieve(harbour, "Who owns it?"))
    for history in (messages, ["What is the Tariff Engine?"], [harbour.search("What is the Tariff Engine?")]):
        assert framework.ids(framework.retrieve(harbour, "Who owns it?", history=history))[0] == "tariff"
        assert framework.ids(await framework.aretrieve(harbour, "Who owns it?", history=history))[0] == "tariff"
        result = harbour.search("Who owns it?", history=history)
        assert "Quay Planner" not in [entity.name for entity in result.entities], "the system and tools do not count"
        assert result.decided.startswith("the conversation names Tariff Engine")


# -- prompts


def test_what_an_agent_reads_is_neutral(framework):
    text = f"Keyring depends on {NAME}. Gateway {{}} calls Keyring. {TEXT}"
    documents = [Document(f"{number}", text.replace("{}", str(number))) for number in range(3)]
    with framework.build(documents) as retriever:
        check_prompt(framework.tool(retriever).call(query="Keyring")[0])


# -- packages


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_public_names_are_these(framework):
    assert sorted(framework.package.__all__) == framework.NAMES
    assert all(hasattr(framework.package, name) for name in framework.NAMES)


def test_without_the_framework_the_import_says_what_to_install(framework):
    code = f"""
import sys
sys.modules[{framework.library!r}] = None
from graphrag_core.errors import MissingDependency
try:
    import {framework.package_name}
except MissingDependency as error:
    print(error)
"""
    assert f"pip install 'hybrid-graphrag[{framework.extra}]'" in python(code)


ASKS = {
    "langchain": """
from langchain_core.documents import Document
langchain_graphrag.GraphRAGRetriever.from_documents([Document("A fox.")], None).invoke("fox")
""",
    "llama": """
from llama_index.core.schema import TextNode
llama_graphrag.GraphRAGRetriever.from_nodes([TextNode(text="A fox.")], False).retrieve("fox")
""",
}
OTHERS = {
    "langchain": {
        "langchain",
        "langchain_classic",
        "langchain_community",
        "langgraph",
        "llama_index",
        "llama_graphrag",
    },
    "llama": {"langchain", "langchain_core", "langchain_graphrag", "langgraph"},
}


def test_what_is_imported_and_when(framework):
    """The retriever when it is used, an index's libraries with the first one, and other frameworks never."""
    code = f"""
import sys, warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of the framework's dependencies
    import {"llama_index.core" if framework.extra == "llama" else "langchain_core"}
before = set(sys.modules)
import {framework.package_name}
assert "{framework.package_name}.retriever" not in sys.modules
{framework.package_name}.GraphRAGRetriever
heavy = {{"faiss", "igraph", "jinja2", "json_repair", "psycopg", "scipy", "tantivy"}}
heavy |= {{"graphrag_core.extract.sentences", "graphrag_core.strategies"}}
print(heavy & (sys.modules.keys() - before))
{ASKS[framework.extra]}
print({{name.partition(".")[0] for name in sys.modules.keys() - before}} & {OTHERS[framework.extra]})
"""
    assert python(code).split() == ["set()", "set()"]


def test_warming_asks_as_the_retriever_does(framework, services):
    retriever = framework.changed(services, method="agentic")
    assert retriever.warm(["What does OAuth do versus Keyring?"]) == 1
    assert list(retriever.search("What does OAuth do versus Keyring?").trace.stages) == ["cache"]
