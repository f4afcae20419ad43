"""Export of the graph, read back by other libraries, and the commands."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import igraph
import pytest

from graphrag_apps.export import export_graph
from graphrag_core import Document, KnowledgeIndex

FORMATS = ("graph.graphml", "graph.jsonl")


@pytest.fixture
def index():
    with KnowledgeIndex() as made:
        made.add(
            [
                Document("auth", "The Auth Service trusts the Keyring.", "Auth Service", {"tenant": "a"}),
                Document("key", "The Keyring is sold by Solheim Systems. Nobody knows.", "Keyring", {"tenant": "b"}),
            ]
        )
        made.memory.remember(
            "Harbour Team", "owns", "Keyring", confidence=0.5, valid_from="2024-05-01", metadata={"tenant": "a"}
        )
        made.memory.remember("Harbour Team", "prefers", "dark mode", literal=True, metadata={"tenant": "b"})
        yield made


def test_igraph_reads_graphml(index, tmp_path):
    done = export_graph(index, tmp_path / "g.graphml")
    graph = igraph.Graph.Read_GraphML(str(tmp_path / "g.graphml"))
    assert (graph.vcount(), graph.ecount()) == (done.entities + 1, done.edges)  # and the value "dark mode"
    names = {vertex["name"]: vertex for vertex in graph.vs}
    assert names["dark mode"]["kind"] == "value"
    (owns,) = [edge for edge in graph.es if edge["relation"] == "owns"]
    assert (graph.vs[owns.source]["name"], graph.vs[owns.target]["name"]) == ("Harbour Team", "Keyring")
    assert (owns["weight"], owns["confidence"], owns["text"]) == (10.0, 0.5, "Harbour Team owns Keyring")


def test_graphml_has_an_edge_between_each_two_names_of_a_sentence(tmp_path):
    with KnowledgeIndex() as made:
        made.add([Document("a", "The Auth Service, the OAuth Provider and Keyring share one Session Store.")])
        done = export_graph(made, tmp_path / "g.graphml")
    text = (tmp_path / "g.graphml").read_text("utf-8")
    assert done.edges == text.count("<edge ") == text.count("share one Session Store") == 6
    graph = igraph.Graph.Read_GraphML(str(tmp_path / "g.graphml"))
    assert graph.es["weight"] == [3.0] * 6
    assert set(graph.es["status"]) == {"staged"}


def test_json_lines_have_a_row_for_each_entity_and_fact(index, tmp_path):
    done = export_graph(index, tmp_path / "g.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "g.jsonl").read_text("utf-8").splitlines()]
    assert [row["kind"] for row in rows].count("fact") == done.facts == done.edges
    facts = {row["relation"]: row for row in rows if row["kind"] == "fact"}
    assert facts["owns"]["entities"] == ["harbour team", "keyring"]
    assert facts["prefers"]["value"] == "dark mode"
    assert {row["name"] for row in rows if row["kind"] == "entity"} >= {"Keyring", "Harbour Team", "Auth Service"}


@pytest.mark.parametrize("name", FORMATS)
def test_a_filter_restricts_what_is_exported(index, tmp_path, name):
    export_graph(index, tmp_path / name, where={"tenant": "a"})
    text = (tmp_path / name).read_text("utf-8")
    assert "Keyring" in text
    assert not any(word in text for word in ("Solheim", "dark mode"))


def test_hostile_text_is_valid_xml_and_one_line(tmp_path):
    name = "=cmd|' /C calc'!A0 \x1b[31m\ufffe\u2028 <b>&\"' Corp"
    with KnowledgeIndex() as index:
        index.memory.remember("Keyring", "note", "=1+1\x0b\x01 </data>\r\n", literal=True)
        index.add([Document("x", f"Keyring depends on {name}.", metadata={})])
        index.memory.remember("@SUM Corp", "owns", "Keyring")
        export_graph(index, tmp_path / "g.graphml")
        done = export_graph(index, tmp_path / "g.jsonl")
    assert len(ET.parse(tmp_path / "g.graphml").getroot().findall(".//{*}edge")) >= 2  # noqa: S314 - our own file
    lines = (tmp_path / "g.jsonl").read_text("utf-8").splitlines()
    assert len([json.loads(line) for line in lines]) == done.entities + done.other_nodes + done.facts


def test_the_commands_export_and_list(run, tmp_path):
    (tmp_path / "a.md").write_text("# Auth Service\n\nThe Auth Service trusts the Keyring.", "utf-8")
    run("index", "a.md", "--embedder", "none", "--metadata", "tenant=a")
    run("graph", "edit", "add", "Harbour Team", "owns", "Keyring")
    exported = run("export", "graph.graphml")
    assert exported.exit_code == 0
    assert exported.stdout.endswith("exported to graph.graphml\n")
    assert run("export", "out").exit_code == 1
    assert run("export", "graph.jsonl", "--no-sentences").exit_code == 0
    assert "Harbour Team owns Keyring" in run("graph", "relations").stdout
    assert run("graph", "relations", "--subject", "Keyring").stdout == ""
    assert run("graph", "entities", "harbour").stdout.startswith("Harbour Team")
    assert run("graph", "entities", "harbour", "--filter", "tenant=a").stdout == ""
    assert len(json.loads(run("graph", "entities", "--json", "-n", 0).stdout)) >= 2
