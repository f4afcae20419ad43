"""hybrid-graphrag.toml: where it is found, what it sets, what wins, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphrag_apps import config
from graphrag_core import Cache, Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import ConfigError
from graphrag_core.strategies import Gate, Neighbourhood, Weighted
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
    write('kb = "notes"\nembedder = "hash"\n[retriever]\nk = 1\n')
    assert run("stats").exit_code == 0
    assert run("graph", "edit", "list").exit_code == 0
    assert len(json.loads(run("query", "Tide Feed", "--json").stdout)["hits"]) == 1
    assert len(json.loads(run("query", "Tide Feed", "--json", "-k", 2).stdout)["hits"]) == 2
    monkeypatch.setenv("HYBRID_GRAPHRAG_KB", "other")
    assert "no index in other" in run("stats").stderr
    assert run("stats", "--kb", "notes").exit_code == 0
    found = settings(run)
    assert found["kb"] == {"value": "other", "source": "environment HYBRID_GRAPHRAG_KB"}
    assert found["retriever.k"] == {"value": 1, "source": config.NAME}
    assert "max-size" not in found


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


def test_a_file_above_that_sets_an_address_is_named(run, kb, write, tmp_path, monkeypatch):
    write('kb = "notes"\nembedder-url = "http://elsewhere.example/v1"\n')
    (tmp_path / "a").mkdir()
    assert "sets embedder-url" not in run("stats").stderr
    monkeypatch.chdir(tmp_path / "a")
    assert f"{tmp_path / config.NAME} sets embedder-url" in "".join(run("stats").stderr.split("\n"))


def test_the_search_ends_at_the_home_folder_and_at_folders_of_others(tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    (tmp_path / config.NAME).write_text("")
    monkeypatch.chdir(home / "project")
    assert config.find() == tmp_path / config.NAME
    monkeypatch.setattr(Path, "home", lambda: home)
    assert config.find() is None
    (home / config.NAME).write_text("")
    assert config.find() == home / config.NAME
    monkeypatch.setattr(config, "_owner", lambda folder: len(folder.parts))
    assert config.find() is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kbb = 'x'", "unknown key 'kbb': did you mean 'kb'?"),
        ("[index]\nchunk_sise = 300", "[index]: unknown key 'chunk_sise': did you mean 'chunk-size'?"),
        ("[serve]\nport = 'many'", "serve.port is 'many': input should be a valid integer"),
        ("[index]\nchunk-size = 3", "index.chunk-size is 3: input should be greater than or equal to 16"),
        ("[index]\ngraph = 'yes'", "index.graph is 'yes': input should be a valid boolean"),
        ("index = 3", "index is 3: input should be"),
        ("[retriever]\nvector_wight = 1", "[retriever]: unknown search setting 'vector_wight': did you mean"),
        ("[retriever]\nk = 0", "[retriever]: k is 0: use an integer of at least 1"),
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


def test_how_files_are_indexed(run, docs, write):
    write('kb = "notes"\nembedder = "hash"\n[index]\nmetadata = {team = "harbour", year = 2021}\nchunk_size = 64\n')
    assert run("index", docs / "planner.txt", "--metadata", "year=2022").exit_code == 0
    hits = json.loads(run("query", "Tide Feed", "--json").stdout)["hits"]
    assert (hits[0]["metadata"]["team"], hits[0]["metadata"]["year"]) == ("harbour", 2022)


def test_limits_of_the_servers_are_checked(run, kb, write):
    write('kb = "notes"\nembedder = "hash"\n[serve.limits]\nworker = 3\n')
    assert "[serve.limits]: unknown key 'worker': did you mean 'workers'?" in run("serve").stderr


def test_config_shows_what_is_not_a_default(run, write):
    write('kb = "notes"\n[index]\nmax-size = 5\n[retriever]\nk = 3\ngraph = "neighbourhood"\n')
    lines = [line.split() for line in run("config").stdout.splitlines()]
    assert lines[0][0] == "file"
    assert lines[1:] == [
        ["kb", "notes", "(hybrid-graphrag.toml)"],
        ["index.max-size", "5", "(hybrid-graphrag.toml)"],
        ["retriever.k", "3", "(hybrid-graphrag.toml)"],
        ["retriever.graph", "neighbourhood", "(hybrid-graphrag.toml)"],
    ]


def test_the_retriever_of_a_query_has_the_settings_of_the_file(run, kb, write):
    write('kb = "notes"\nembedder = "hash"\n[retriever]\nk = 1\nuse_graph = false\nscore_threshold = 0.0\n')
    answer = json.loads(run("query", "Tide Feed", "--json").stdout)
    assert len(answer["hits"]) == 1
    assert answer["expansion_skipped"] == "the graph was not used"
    write('kb = "notes"\nembedder = "hash"\n[retriever]\ngraph = {name = "neighbourhood", hops = 2}\n')
    assert run("query", "Tide Feed").exit_code == 0
    assert run("query", "Tide Feed", "--strategy", "pagerank").exit_code == 0


# -- in Python


def test_load_returns_arguments_of_a_retriever(write):
    file = write(
        "[retriever]\nk = 2\nvector_weight = 1\nreranker = false\ncache = {seconds = 5}\n"
        "context = {max_tokens = 700}\n"
        "gate = {min_confidence = 0.2}\nfusion = {name = 'weighted', alpha = 0.5}\n"
        "[retriever.graph]\nname = 'neighbourhood'\nrelation_types = ['owns']\n"
        "fusion = {name = 'additive', max_chunks = 2}\n"
    )
    found = config.load(file).retriever_arguments()
    assert found["fusion"] == Weighted(alpha=0.5)
    assert isinstance(found["graph"], Neighbourhood)
    assert found["graph"].relation_types == ("owns",)
    assert found["graph"].fusion.max_chunks == 2
    assert isinstance(found["cache"], Cache)
    index = KnowledgeIndex(HashEmbedder())
    index.add([Document("1", "The Auth Service uses Keyring.")])
    retriever = GraphRetriever(index, **found)
    assert (retriever.settings.k, retriever.settings.vector_weight) == (2, 1.0)
    assert retriever.settings.gate == Gate(min_confidence=0.2)
    assert retriever.settings.context.max_tokens == 700
    assert len(retriever.retrieve("Auth Service")) == 1


def test_without_a_file_the_configuration_is_empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config.load() == config.Config()
    assert config.load().retriever_arguments() == {}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"graph": "pagerang"}, "did you mean 'pagerank'"),
        ({"graph": {"name": "pagerank", "dampin": 1}}, "did you mean 'damping'"),
        ({"graph": {"name": "pagerank", "damping": "high"}}, "graph.damping is 'high': input should be a valid number"),
        ({"graph": {"name": "neighbourhood", "hops": 9}}, "use an integer from 1 to 3"),
        ({"graph": {"name": "neighbourhood", "hops": True}}, "graph.hops is True: input should be a valid integer"),
        ({"graph": 3}, "a table with a name"),
        ({"method": "magic"}, "unknown method 'magic'"),
        ({"k": 0}, "at least 1"),
        ({"k": 1.5}, "k is 1.5: use an integer"),
        ({"reranker": "onyx:x"}, "use linear"),
        ({"vector_weight": 2}, "vector_weight is 2"),
        ({"gate": {"min_score": "x"}}, "gate.min_score is 'x': use a number"),
        ({"gate": {"min_scor": 1}}, "did you mean 'gate.min_score'"),
        ({"cache": {"secs": 1}}, "unknown key 'secs'"),
        ({"clock": 1}, "unknown search setting 'clock'"),
    ],
)
def test_settings_are_checked(settings, said):
    with pytest.raises(ConfigError, match=said):
        config.retriever_arguments(settings)
