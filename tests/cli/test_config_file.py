"""hybrid-graphrag.toml: where it is found, what it sets, what wins, and what it refuses."""

from __future__ import annotations

import json

import pytest

from graphrag_core import Cache, Document, Gate, GraphRetriever, KnowledgeIndex, Neighbourhood, Weighted, config
from graphrag_core.errors import ConfigError
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


def settings(run, command, *before):
    return json.loads(run(*before, "config", command, "--json").stdout)["commands"][command]


def test_the_command_line_wins_over_the_environment_over_the_file_over_the_default(run, kb, write, monkeypatch):
    assert run("stats").exit_code == 1
    write('kb = "notes"\nembedder = "hash"\n[query]\nk = 1\n')
    assert run("stats").exit_code == 0
    assert len(json.loads(run("query", "Tide Feed", "--json").stdout)["hits"]) == 1
    assert len(json.loads(run("query", "Tide Feed", "--json", "-k", 2).stdout)["hits"]) == 2
    monkeypatch.setenv("HYBRID_GRAPHRAG_KB", "other")
    assert "no index in other" in run("stats").stderr
    assert run("stats", "--kb", "notes").exit_code == 0
    found = settings(run, "query")
    assert found["kb"] == {"value": "other", "source": "environment HYBRID_GRAPHRAG_KB"}
    assert found["k"] == {"value": 1, "source": config.NAME}
    assert found["max-tokens"] == {"value": 500, "source": "default"}


def test_the_nearest_file_above_the_working_directory_is_used_and_its_paths_are_its_own(
    run, kb, write, tmp_path, monkeypatch
):
    write('kb = "notes"\nembedder = "hash"\n')
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert run("stats").exit_code == 0
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
        ("[query]\nmax_token = 3", "unknown key 'max_token': did you mean 'max-tokens'?"),
        ("[querry]\nk = 3", "unknown section 'querry': did you mean 'query'?"),
        ("[query]\nk = 'many'", "[query] k cannot be 'many'"),
        ("[query]\nk = 0", "[query] k cannot be 0"),
        ("[query]\nk = [1, 2]", "use one value"),
        ("[query]\njson = 'yes'", "use true or false"),
        ("[query]\nmethod = 'magic'", "[query] method cannot be 'magic'"),
        ("[db]\nsize = 1", "unknown section 'size'"),
        ("[retriever]\nvector_wight = 1", "did you mean 'vector_weight'?"),
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


def test_lists_tables_flags_and_underscores(run, kb, write):
    write('kb = "notes"\n[query]\nwhere = {team = "harbour"}\nno_graph = true\nmax_tokens = 9\nno-sources = true\n')
    found = settings(run, "query")
    assert found["where"]["value"] == ["team=harbour"]
    assert (found["no-graph"]["value"], found["max-tokens"]["value"], found["sources"]["value"]) == (True, 9, False)
    hits = json.loads(run("query", "Tide Feed", "--embedder", "hash", "--json").stdout)["hits"]
    assert [hit["document"] for hit in hits] == ["tide.md"]


def test_config_shows_what_is_not_a_default(run, write):
    write('kb = "notes"\n[index]\nmetadata = ["team=harbour"]\n[retriever]\nk = 3\ngraph = "neighbourhood"\n')
    shown = run("config").stdout
    for line in (
        "kb                  notes",
        "[index]\nmetadata            team=harbour",
        "graph               neighbourhood",
    ):
        assert line in shown
    assert "max-tokens" not in shown
    assert "max-tokens          500" in run("config", "query").stdout
    assert "did you mean 'query'?" in run("config", "querry").output


def test_the_retriever_of_a_query_has_the_settings_of_the_file(run, kb, write):
    write('kb = "notes"\nembedder = "hash"\n[retriever]\nk = 1\nuse_graph = false\nscore_threshold = 0.0\n')
    answer = json.loads(run("query", "Tide Feed", "--json").stdout)
    assert len(answer["hits"]) == 1
    assert answer["expansion_skipped"] == "the graph was not used"
    assert settings(run, "explain")["k"]["value"] == 1
    write('kb = "notes"\nembedder = "hash"\n[retriever]\ngraph = {name = "neighbourhood", hops = 2}\n')
    assert run("query", "Tide Feed").exit_code == 0
    assert run("query", "Tide Feed", "--strategy", "pagerank").exit_code == 0


# -- in Python


def test_load_returns_arguments_of_a_retriever(write):
    file = write(
        "[retriever]\nk = 2\nvector_weight = 1\nreranker = false\ncache = {seconds = 5}\n"
        "inverses = {owns = 'owned_by'}\n"
        "gate = {min_confidence = 0.2}\nfusion = {name = 'weighted', alpha = 0.5}\n"
        "[retriever.graph]\nname = 'neighbourhood'\nrelation_types = ['owns']\n"
        "fusion = {name = 'additive', max_chunks = 2}\n"
    )
    found = config.load(file).retriever
    assert found["gate"] == Gate(min_confidence=0.2)
    assert found["fusion"] == Weighted(alpha=0.5)
    assert isinstance(found["graph"], Neighbourhood)
    assert found["graph"].relation_types == ("owns",)
    assert found["graph"].fusion.max_chunks == 2
    assert isinstance(found["cache"], Cache)
    index = KnowledgeIndex(HashEmbedder())
    index.add([Document("1", "The Auth Service uses Keyring.")])
    retriever = GraphRetriever(index, **found)
    assert (retriever.settings.k, retriever.settings.vector_weight) == (2, 1.0)
    assert len(retriever.retrieve("Auth Service")) == 1


def test_without_a_file_the_configuration_is_empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config.load() == config.Config()
    assert config.load().retriever == {}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"graph": "pagerang"}, "did you mean 'pagerank'"),
        ({"graph": {"name": "pagerank", "dampin": 1}}, "did you mean 'damping'"),
        ({"graph": {"name": "pagerank", "damping": "high"}}, "graph.damping is 'high': use a number"),
        ({"graph": {"name": "neighbourhood", "hops": 9}}, "use 1, 2 or 3"),
        ({"graph": {"name": "neighbourhood", "hops": True}}, "use a whole number"),
        ({"graph": 3}, "a table with a name"),
        ({"method": "magic"}, "method is 'magic'"),
        ({"k": 0}, "at least 1"),
        ({"k": 1.5}, "a whole number"),
        ({"reranker": "onyx:x"}, "'onnx:FOLDER'"),
        ({"vector_weight": 0, "text_weight": 0}, "both 0"),
        ({"inverses": {"owns": 1}}, "use a text"),
        ({"cache": {"secs": 1}}, "did you mean 'seconds'|unknown field"),
        ({"clock": 1}, "unknown setting"),
    ],
)
def test_settings_are_checked(settings, said):
    with pytest.raises(ConfigError, match=said):
        config.retriever_arguments(settings)


def test_settings_of_the_retriever_are_shown_once_with_the_commands_that_use_them(run, tmp_path):
    (tmp_path / "hybrid-graphrag.toml").write_text("[retriever]\nk = 3\ngraph = 'neighbourhood'\n[ask]\nk = 4\n")
    lines = [line.split() for line in run("config").stdout.splitlines()]
    assert [line[1] for line in lines if line[0] == "k"] == ["4", "3"], "of ask, and of the retriever"
    used = " ".join(next(line for line in lines if line[0] == "[retriever]"))
    assert used == "[retriever] used by query, explain, ask, serve, mcp, explore, compare"
    rows = json.loads(run("config", "serve", "--json").stdout)["commands"]["serve"]
    assert rows["k"] == {"value": 3, "source": "hybrid-graphrag.toml [retriever]"}
    rows = json.loads(run("config", "ask", "--json").stdout)["commands"]["ask"]
    assert rows["k"] == {"value": 4, "source": "hybrid-graphrag.toml"}
    for command in ("explore", "compare", "ask"):
        assert "neighbourhood" in run("config", command).stdout
    assert "neighbourhood" not in run("config", "stats").stdout
