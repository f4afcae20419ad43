"""Export of the graph, read back by other libraries, and the commands."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ET

import igraph
import pandas as pd
import pyarrow.parquet as pq
import pytest

from graphrag_apps.export import _csv_text, export_graph
from graphrag_core import Document, KnowledgeIndex
from graphrag_core.errors import FileError, InputError
from graphrag_core.graph import KnowledgeGraph

FORMATS = {"graphml": "graph.graphml", "csv": "csv", "parquet": "parquet"}


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


def test_graphml_has_the_text_of_a_sentence_once(tmp_path):
    with KnowledgeIndex() as made:
        made.add([Document("a", "The Auth Service, the OAuth Provider and Keyring share one Session Store.")])
        done = export_graph(made, tmp_path / "g.graphml")
    text = (tmp_path / "g.graphml").read_text("utf-8")
    assert done.edges == text.count("<edge ") == 6
    assert text.count("share one Session Store") == 1
    graph = igraph.Graph.Read_GraphML(str(tmp_path / "g.graphml"))
    assert graph.es["weight"] == [3.0] * 6
    assert set(graph.es["status"]) == {"confirmed"}


def test_csv_has_the_headers_of_neo4j_and_no_edge_without_nodes(index, tmp_path):
    export_graph(index, tmp_path / "out", "csv")
    with (tmp_path / "out" / "entities.csv").open(newline="") as file:
        nodes = list(csv.DictReader(file))
    with (tmp_path / "out" / "facts.csv").open(newline="") as file:
        edges = list(csv.DictReader(file))
    ids = {node[":ID"] for node in nodes}
    assert len(ids) == len(nodes)
    assert {edge[end] for edge in edges for end in (":START_ID", ":END_ID")} <= ids
    assert {node["name"]: node[":LABEL"] for node in nodes}["Keyring"] == "Entity"
    assert {edge[":TYPE"] for edge in edges} == {"owns", "prefers", "MENTIONED_WITH"}


def test_parquet_has_typed_columns(index, tmp_path):
    done = export_graph(index, tmp_path / "out", "parquet")
    facts = pq.read_table(tmp_path / "out" / "facts.parquet")
    assert facts.num_rows == done.facts
    assert facts.schema.field("weight").type == "double"
    assert pq.read_table(tmp_path / "out" / "entities.parquet").num_rows == done.entities


@pytest.mark.parametrize("kind", FORMATS)
def test_a_filter_restricts_what_is_exported(index, tmp_path, kind):
    export_graph(index, tmp_path / FORMATS[kind], kind, where={"tenant": "a"})
    everything = tmp_path / FORMATS[kind]
    files = everything.rglob("*") if everything.is_dir() else [everything]
    assert not any(word in file.read_bytes() for file in files for word in (b"Solheim", b"dark mode"))


def test_without_sentences_only_relations_are_exported(index, tmp_path):
    assert export_graph(index, tmp_path / "g.graphml", sentences=False).facts == 2


def test_hostile_text_is_valid_xml_and_no_formula(tmp_path):
    name = "=cmd|' /C calc'!A0 \x1b[31m\ufffe <b>&\"' Corp"
    with KnowledgeIndex() as index:
        index.memory.remember("Keyring", "note", "=1+1\x0b\x01 </data>", literal=True)
        index.add([Document("x", f"Keyring depends on {name}.", metadata={})])
        index.memory.remember("@SUM Corp", "owns", "Keyring")
        export_graph(index, tmp_path / "g.graphml")
        export_graph(index, tmp_path / "plain", "csv")
        export_graph(index, tmp_path / "safe", "csv", spreadsheet=True)
    assert len(ET.parse(tmp_path / "g.graphml").getroot().findall(".//{*}edge")) >= 2  # noqa: S314 - our own file
    for folder, expected in (("plain", True), ("safe", False)):
        with (tmp_path / folder / "entities.csv").open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert any(cell.startswith(("=", "@")) for cell in cells) is expected


BREAKS = [*"\r\n\v\f\x1a\x1c\x1d\x1e\x85\u2028\u2029\t;", '"', "\r\n", ';"']


@pytest.mark.parametrize("spreadsheet", [False, True])
def test_a_fact_is_one_row_of_csv_and_one_line_whatever_its_text_is(tmp_path, spreadsheet):
    with KnowledgeIndex() as index:
        for at, mark in enumerate(BREAKS):
            attack = f"{mark}=cmd|' /C calc'!A0{mark}"
            index.add([Document(f"d{at}{attack}", f"Ada Lovelace met{attack}the Keyring.", f"Note {at}{attack}")])
            index.memory.remember(f"{mark}=Corp {at}", f"{mark}=owns", f"{mark}=value {at}", literal=True)
        done = export_graph(index, tmp_path, "csv", spreadsheet=spreadsheet)
    rows = {"entities": done.entities + done.other_nodes + len(BREAKS), "facts": done.edges}
    for name, count in rows.items():
        path = tmp_path / f"{name}.csv"
        text = path.read_bytes().decode()
        assert len(text.splitlines()) == count + 1, "also for a reader that knows no quotes"
        for newline in ("", None):
            with path.open(newline=newline, encoding="utf-8") as file:
                found = list(csv.reader(file, strict=True))
            assert len(found) == count + 1
            assert {len(row) for row in found} == {len(found[0])}
        for engine in ("c", "python"):
            frame = pd.read_csv(path, engine=engine, dtype=str, keep_default_na=False, encoding="utf-8")
            assert frame.shape == (count, len(found[0]))
        # A spreadsheet whose separator is a semicolon or a tab divides a cell.
        cells = [cell for row in found for cell in row] + re.split("[,;\t\n]", text)
        formulas = [cell for cell in cells if cell.strip(' "').startswith("=")]
        assert bool(formulas) is not spreadsheet, formulas[:3]


def test_a_cell_that_would_be_a_formula_begins_with_an_apostrophe():
    for before in ("", " ", "\t", "\r", "\n", "\u00a0", "\u3000", "\u200b", "\ufeff", "\x01", "\x00"):
        for start in "=+-@\uff1d\uff0b\uff0d\uff20":
            assert _csv_text(f"{before}{start}cmd", spreadsheet=True).startswith("'"), ascii(before + start)
            assert "'" not in _csv_text(f"Team{before}{start}cmd", spreadsheet=True)


def test_unknown_formats_and_folders_are_refused(index, tmp_path):
    with pytest.raises(InputError, match="its ending names no format"):
        export_graph(index, tmp_path / "graph")
    with pytest.raises(InputError, match="unknown format"):
        export_graph(index, tmp_path / "graph", "gexf")
    with pytest.raises(FileError, match="cannot be written"):
        export_graph(index, tmp_path / "no" / "graph.graphml")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_export_leaves_the_old_file(index, tmp_path, monkeypatch):
    file = tmp_path / "g.graphml"
    export_graph(index, file)
    before = file.read_bytes()
    monkeypatch.setattr(KnowledgeGraph, "iter_facts", lambda *_, **__: iter([1]))
    with pytest.raises(AttributeError):
        export_graph(index, file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["g.graphml"]


def test_listings_have_filters(index):
    assert [entity.name for entity in index.graph.entities(contains="service")] == ["Auth Service"]
    connected = {entity.name for entity in index.graph.entities(min_degree=2)}
    assert "Keyring" in connected
    assert "Solheim Systems" not in connected
    assert [fact.relation for fact in index.graph.relations(contains="DARK")] == ["prefers"]


def test_the_commands_export_and_list(run, tmp_path):
    (tmp_path / "a.md").write_text("# Auth Service\n\nThe Auth Service trusts the Keyring.", "utf-8")
    run("index", "a.md", "--embedder", "none", "--metadata", "tenant=a")
    run("graph", "add-relation", "Harbour Team", "owns", "Keyring")
    exported = run("graph", "export", "graph.graphml")
    assert exported.exit_code == 0
    assert exported.stdout.endswith("exported to graph.graphml\n")
    assert run("graph", "export", "out").exit_code == 1
    assert run("graph", "export", "out", "--format", "csv", "--no-sentences", "-q").stdout == ""
    assert "Harbour Team owns Keyring" in run("graph", "relations").stdout
    assert run("graph", "relations", "--contains", "nothing").stdout == ""
    assert run("graph", "entities", "--contains", "team").stdout.startswith("Harbour Team")
    assert run("graph", "entities", "--where", "tenant=a", "--contains", "team").stdout == ""
    assert len(json.loads(run("graph", "entities", "--min-degree", 1, "--json", "-n", 0).stdout)) >= 2


def test_the_commands_say_what_they_count(run, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("# Alpha\n\nMara Lindqvist met Ivo Kask in 1998.\n")
    run("index", "docs", "--kb", "kb", "--embedder", "none")
    exported = run("graph", "export", "graph.graphml", "--kb", "kb").stdout
    assert exported.startswith("3 entities (and 1 numbers and documents that facts name) and 1 facts")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_value_that_is_also_the_name_of_an_entity_is_kept(tmp_path, kind):
    with KnowledgeIndex() as index:
        index.memory.remember("keyring", "is_called", "keyring", literal=True)
        done = export_graph(index, tmp_path / FORMATS[kind], kind)
    assert (done.entities, done.facts) == (1, 1)
    if kind == "graphml":
        graph = igraph.Graph.Read_GraphML(str(tmp_path / FORMATS[kind]))
        assert sorted(graph.vs["kind"]) == ["entity", "value"]
