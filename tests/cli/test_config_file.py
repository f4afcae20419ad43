"""hybrid-graphrag.toml: where it is found, what it sets, what wins, and what it refuses."""

from __future__ import annotations

import json

import pytest

from graphrag_apps import config
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.designs import KG2RAG
from graphrag_core.testing import HashEmbedder


@pytest.fixture
def write(tmp_path):
    def write(text, folder=""):
        file = tmp_path / folder / config.NAME
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    return write


@pytest.fixture
def kb(run, docs):
    assert run("index", docs / "tide.md", docs / "planner.txt", "--kb", "notes", "--embedder", "hash").exit_code == 0
    return "notes"


def settings(run):
    return json.loads(run("config", "--json").stdout)["settings"]


def test_the_command_line_wins_over_the_environment_over_the_file_over_the_default(run, kb, write, monkeypatch):
    assert run("stats").exit_code == 1
    assert settings(run) == {"kb": {"value": "kb", "source": "default"}}
    write('kb = "notes"\nembedder = "hash"\n[set]\nk = 1\n')
    assert run("stats").exit_code == 0
    assert run("graph", "edit", "list").exit_code == 0
    assert len(json.loads(run("query", "Tide Feed", "--json").stdout)["hits"]) == 1
    assert len(json.loads(run("query", "Tide Feed", "--json", "-k", 2).stdout)["hits"]) == 2
    monkeypatch.setenv("HYBRID_GRAPHRAG_KB", "other")
    assert "no index in other" in run("stats").stderr
    for arguments in (("stats", "--kb", "notes"), ("--kb", "notes", "stats"), ("--kb", "x", "stats", "--kb", "notes")):
        assert run(*arguments).exit_code == 0
    found = settings(run)
    assert found["kb"] == {"value": "other", "source": "environment HYBRID_GRAPHRAG_KB"}
    assert found["set.k"] == {"value": 1, "source": config.NAME}
    assert "llm" not in found


def test_the_nearest_file_above_the_working_directory_is_used_and_its_paths_are_its_own(
    run, kb, write, tmp_path, monkeypatch
):
    write('kb = "notes"\nembedder = "hash"\n')
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert run("query", "Tide Feed").exit_code == 0
    write('kb = "elsewhere"\n', "a")
    assert "no index in ../elsewhere" in run("stats").stderr
    assert run("--config", tmp_path / config.NAME, "stats").exit_code == 0
    assert "no index in kb" in run("--config", "none", "stats").stderr
    monkeypatch.setenv("HYBRID_GRAPHRAG_CONFIG", str(tmp_path / config.NAME))
    assert run("stats").exit_code == 0
    assert "no such file" in run("--config", "nothing.toml", "stats").stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kbb = 'x'", "unknown key 'kbb': did you mean 'kb'?"),
        ("llm = 3", "llm is 3: use a text"),
        ("set = 3", "set is 3: write a table [set]"),
        ("design = 'kg3rag'", "unknown design 'kg3rag': did you mean 'kg2rag'?"),
        ("[set]\nvector_wight = 1", "unknown search setting 'vector_wight': did you mean"),
        ("[set]\nk = 0", "k is 0: use an integer of at least 1"),
        ("[set]\nmethod = 'magic'", "unknown method 'magic'"),
        ("[set]\ngate.min_scor = 1", "did you mean 'gate.min_score'"),
        ("[set]\ngate.min_score = nan", "gate.min_score is nan"),
        ("[set]\nscore_threshold = nan", "score_threshold is nan"),
        ("k = ", "is not TOML"),
    ],
)
def test_what_cannot_be_used_is_one_line(run, write, text, said):
    file = write(text)
    result = run("stats")
    assert result.exit_code == 1
    assert said in result.stderr
    assert file.name in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_question_has_the_settings_of_the_file(run, kb, write):
    write('kb = "notes"\nembedder = "hash"\n[set]\nk = 1\nuse_graph = false\nscore_threshold = 0.0\n')
    answer = json.loads(run("query", "Tide Feed", "--json").stdout)
    assert len(answer["hits"]) == 1
    assert answer["expansion_skipped"] == "the graph was not used"
    write('kb = "notes"\nembedder = "hash"\ndesign = "kg2rag"\n')
    assert any(
        hit["graph_expansion"] for hit in json.loads(run("query", "What reads the Tide Feed?", "--json").stdout)["hits"]
    )


# -- in Python


def test_load_returns_settings_of_a_retriever(write):
    file = write("[set]\nk = 2\nvector_weight = 1\ncontext = {max_tokens = 700}\ngate.min_confidence = 0.2\n")
    found = config.load(file).settings()
    assert (found.k, found.vector_weight, found.context.max_tokens) == (2, 1.0, 700)
    assert found.resolved.gate.min_confidence == 0.2
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document("1", "The Auth Service uses Keyring.")])
        assert len(GraphRetriever(index, found).retrieve("Auth Service")) == 1
    assert config.load(write('design = "kg2rag"\n[set]\nk = 8\n')).settings() == KG2RAG.replace(k=8)


def test_a_file_above_that_sets_an_address_is_named(run, kb, write, tmp_path, monkeypatch):
    write('kb = "notes"\nembedder-url = "http://elsewhere.example/v1"\n')
    (tmp_path / "a").mkdir()
    assert "sets embedder-url" not in run("stats").stderr
    monkeypatch.chdir(tmp_path / "a")
    assert f"{tmp_path / config.NAME} sets embedder-url" in run("stats").stderr
