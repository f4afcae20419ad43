"""Export and import of the graph, read back by other libraries, and the commands."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET

import igraph
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.errors import FileError, InputError
from graphrag_core.export import export_graph, import_graph

FORMATS = {"graphml": "graph.graphml", "jsonld": "graph.jsonld", "csv": "csv", "parquet": "parquet"}


@pytest.fixture
def index():
    with KnowledgeIndex() as made:
        made.add(
            [
                Document("auth", "The Auth Service trusts the Keyring.", "Auth Service", {"tenant": "a"}),
                Document("key", "The Keyring is sold by Solheim Systems. Nobody knows.", "Keyring", {"tenant": "b"}),
            ]
        )
        made.remember(
            "Harbour Team", "owns", "Keyring", confidence=0.5, valid_from="2024-05-01", metadata={"tenant": "a"}
        )
        made.remember("Harbour Team", "prefers", "dark mode", literal=True, metadata={"tenant": "b"})
        made.describe_entity("Keyring", type="product", description="A vault.")
        yield made


def relations(index, where=None):
    found = index.iter_facts(where=where)
    return sorted((f.entities, f.relation, f.value, f.confidence, f.valid_from) for f in found if f.relation)


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_exported_can_be_imported(index, tmp_path, kind):
    done = export_graph(index, tmp_path / FORMATS[kind], kind)
    assert done.entities == len(index.entities(limit=None)) == index.stats().entities
    with KnowledgeIndex() as other:
        first = import_graph(other, tmp_path / FORMATS[kind])
        assert (first.skipped, first.problems) == (0, ())
        assert first.sentences
        told = [row for row in relations(other) if row[1] in ("owns", "prefers")]
        assert told == relations(index)
        assert other.entity("keyring").type == "product"
        assert other.entity("keyring").description == "A vault."
        again = import_graph(other, tmp_path / FORMATS[kind])
        assert (again.facts, again.unchanged) == (0, first.facts)
        scoped = import_graph(other, tmp_path / FORMATS[kind], metadata={"tenant": "c"})
        assert scoped.facts == first.facts
        assert len(other.relations("harbour team", where={"tenant": "c"})) == 2
        assert other.verify()


def test_igraph_reads_graphml(index, tmp_path):
    done = export_graph(index, tmp_path / "g.graphml")
    graph = igraph.Graph.Read_GraphML(str(tmp_path / "g.graphml"))
    assert (graph.vcount(), graph.ecount()) == (done.entities + 1, done.edges)  # and the value "dark mode"
    names = {vertex["name"]: vertex for vertex in graph.vs}
    assert names["Keyring"]["type"] == "product"
    assert names["dark mode"]["kind"] == "value"
    (owns,) = [edge for edge in graph.es if edge["relation"] == "owns"]
    assert (graph.vs[owns.source]["name"], graph.vs[owns.target]["name"]) == ("Harbour Team", "Keyring")
    assert (owns["weight"], owns["confidence"], owns["text"]) == (10.0, 0.5, "Harbour Team owns Keyring")


def test_csv_has_the_headers_of_neo4j_and_no_edge_without_nodes(index, tmp_path):
    export_graph(index, tmp_path / "out", "csv")
    with (tmp_path / "out" / "entities.csv").open(newline="") as file:
        nodes = list(csv.DictReader(file))
    with (tmp_path / "out" / "facts.csv").open(newline="") as file:
        edges = list(csv.DictReader(file))
    ids = {node[":ID"] for node in nodes}
    assert len(ids) == len(nodes)
    assert {edge[end] for edge in edges for end in (":START_ID", ":END_ID")} <= ids
    assert {node["name"]: node[":LABEL"] for node in nodes}["Keyring"] == "Entity;product"
    assert {edge[":TYPE"] for edge in edges} == {"owns", "prefers", "MENTIONED_WITH"}


def test_jsonld_has_absolute_ids_and_a_context_for_every_key(index, tmp_path):
    export_graph(index, tmp_path / "g.jsonld")
    content = json.loads((tmp_path / "g.jsonld").read_text("utf-8"))
    context = content["@context"]
    for entry in content["@graph"]:
        assert entry["@id"].startswith("urn:hybrid-graphrag:")
        assert " " not in entry["@id"]
        assert entry["@type"] in ("Entity", "Fact")
        assert all(key.startswith("@") or key in context or context["@vocab"] for key in entry)
    (owns,) = [entry for entry in content["@graph"] if entry.get("relation") == "owns"]
    assert owns["object"] == "urn:hybrid-graphrag:entity:keyring"


def test_parquet_has_typed_columns(index, tmp_path):
    done = export_graph(index, tmp_path / "out", "parquet")
    facts = pq.read_table(tmp_path / "out" / "facts.parquet")
    assert facts.num_rows == done.facts
    assert facts.schema.field("weight").type == "double"
    assert pq.read_table(tmp_path / "out" / "entities.parquet").num_rows == done.entities


@pytest.mark.parametrize("kind", FORMATS)
def test_a_filter_restricts_what_is_exported(index, tmp_path, kind):
    export_graph(index, tmp_path / FORMATS[kind], kind, where={"tenant": "a"})
    with KnowledgeIndex() as other:
        import_graph(other, tmp_path / FORMATS[kind])
        assert other.entity("Solheim Systems") is None
        assert other.relations("Harbour Team", "prefers") == []
    everything = tmp_path / FORMATS[kind]
    files = everything.rglob("*") if everything.is_dir() else [everything]
    assert not any(word in file.read_bytes() for file in files for word in (b"Solheim", b"dark mode"))


def test_without_sentences_only_relations_are_exported(index, tmp_path):
    assert export_graph(index, tmp_path / "g.graphml", sentences=False).facts == 2


def test_hostile_text_is_valid_xml_and_no_formula(tmp_path):
    name = "=cmd|' /C calc'!A0 \x1b[31m\ufffe <b>&\"' Corp"
    with KnowledgeIndex() as index:
        index.remember("Keyring", "note", "=1+1\x0b\x01 </data>", literal=True)
        index.add([Document("x", f"Keyring depends on {name}.", metadata={})])
        index.remember("@SUM Corp", "owns", "Keyring")
        export_graph(index, tmp_path / "g.graphml")
        export_graph(index, tmp_path / "g.jsonld")
        export_graph(index, tmp_path / "plain", "csv")
        export_graph(index, tmp_path / "safe", "csv", spreadsheet=True)
    assert len(ET.parse(tmp_path / "g.graphml").getroot().findall(".//{*}edge")) >= 2  # noqa: S314 - our own file
    json.loads((tmp_path / "g.jsonld").read_text("utf-8"))
    for folder, expected in (("plain", True), ("safe", False)):
        with (tmp_path / folder / "entities.csv").open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert any(cell.startswith(("=", "@")) for cell in cells) is expected
    with KnowledgeIndex() as other:
        assert import_graph(other, tmp_path / "g.graphml").skipped == 0


def test_graphs_of_other_programs_are_imported(tmp_path):
    graph = igraph.Graph(directed=True)
    graph.add_vertices(3, {"name": ["Ada Lovelace", "Charles Babbage", "Alone"], "type": ["person", "person", ""]})
    graph.add_edges([(0, 1)], {"label": ["wrote to"]})
    graph.write_graphml(str(tmp_path / "g.graphml"))
    (tmp_path / "neo").mkdir()
    (tmp_path / "neo" / "people.csv").write_text(
        "personId:ID(P),name,:LABEL\n1,Ada Lovelace,Person\n2,Charles Babbage,Person\n"
    )
    (tmp_path / "neo" / "edges.csv").write_text(":START_ID(P),:END_ID(P),:TYPE\n1,2,WROTE_TO\n1,9,LOST\n")
    with KnowledgeIndex() as index:
        assert import_graph(index, tmp_path / "g.graphml").skipped == 0
        assert index.entity("ada lovelace").type == "person"
        assert index.relations("Ada Lovelace", "wrote to", "Charles Babbage")
        assert index.entity("alone") is not None
        done = import_graph(index, tmp_path / "neo")
        assert (done.skipped, len(done.problems)) == (1, 1)
        assert index.relations("Ada Lovelace", "WROTE_TO", "Charles Babbage")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.graphml", "<graphml><node", "is not GraphML"),
        ("x.graphml", '<!DOCTYPE x [<!ENTITY a "b">]><graphml/>', "DOCTYPE"),
        ("x.jsonld", "{", "is not JSON"),
        ("x.jsonld", '{"a": 1}', "has no list @graph"),
        ("x/edges.csv", "a,b\n1,2\n", "has a column :ID"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path, name, text, said):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    with KnowledgeIndex() as index, pytest.raises(FileError, match=said):
        import_graph(index, path if "/" not in name else path.parent)


def test_unknown_formats_and_missing_files_are_refused(index, tmp_path):
    with pytest.raises(InputError, match="its ending names no format"):
        export_graph(index, tmp_path / "graph")
    with pytest.raises(InputError, match="unknown format"):
        export_graph(index, tmp_path / "graph", "gexf")
    with pytest.raises(FileError, match="no such file"):
        import_graph(index, tmp_path / "graph.graphml")
    with pytest.raises(FileError, match="cannot be written"):
        export_graph(index, tmp_path / "no" / "graph.graphml")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_export_leaves_the_old_file(index, tmp_path, monkeypatch):
    file = tmp_path / "g.graphml"
    export_graph(index, file)
    before = file.read_bytes()
    monkeypatch.setattr(KnowledgeIndex, "iter_facts", lambda *_, **__: iter([1]))
    with pytest.raises(AttributeError):
        export_graph(index, file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["g.graphml"]


def test_listings_have_filters(index):
    assert [entity.name for entity in index.entities(contains="service")] == ["Auth Service"]
    assert [entity.name for entity in index.entities(type="Product")] == ["Keyring"]
    connected = {entity.name for entity in index.entities(min_degree=2)}
    assert "Keyring" in connected
    assert "Solheim Systems" not in connected
    assert [fact.relation for fact in index.relations(contains="DARK")] == ["prefers"]


def test_the_commands_export_import_and_list(run, tmp_path):
    (tmp_path / "a.md").write_text("# Auth Service\n\nThe Auth Service trusts the Keyring.", "utf-8")
    run("index", "a.md", "--embedder", "none", "--metadata", "tenant=a")
    run("add-relation", "Harbour Team", "owns", "Keyring")
    exported = run("export", "graph.graphml")
    assert exported.exit_code == 0
    assert exported.stdout.endswith("exported to graph.graphml\n")
    assert "import" in run("--help").stdout
    assert run("export", "out").exit_code == 1
    assert run("export", "out", "--format", "csv", "--no-sentences", "-q").stdout == ""
    imported = run("import", "graph.graphml", "--kb", "other", "--embedder", "none", "--metadata", "tenant=b")
    assert imported.exit_code == 0
    assert "1 facts imported" in imported.stdout or "facts imported" in imported.stdout
    assert "Harbour Team owns Keyring" in run("relations", "--kb", "other", "--where", "tenant=b").stdout
    assert run("relations", "--kb", "other", "--contains", "nothing").stdout == ""
    assert run("entities", "--contains", "team").stdout.startswith("Harbour Team")
    assert run("entities", "--where", "tenant=a", "--contains", "team").stdout == ""
    assert len(json.loads(run("entities", "--min-degree", 1, "--json", "-n", 0).stdout)) >= 2


@pytest.mark.parametrize("kind", FORMATS)
def test_a_value_that_is_also_the_name_of_an_entity_is_kept(tmp_path, kind):
    with KnowledgeIndex() as index, KnowledgeIndex() as other:
        index.remember("keyring", "is_called", "keyring", literal=True)
        index.remember("Auth Service", "status", "auth service", literal=True)
        export_graph(index, tmp_path / FORMATS[kind], kind)
        found = import_graph(other, tmp_path / FORMATS[kind], kind)
        assert (found.facts, found.skipped, found.problems) == (2, 0, ())
        assert {fact.value for fact in other.remembered()} == {"keyring", "auth service"}


@pytest.mark.parametrize("encoding", ["utf-7", "xyz", "utf-32", "idna", "rot13"])
def test_a_graphml_file_of_an_unknown_encoding_is_refused(tmp_path, encoding):
    file = tmp_path / "graph.graphml"
    file.write_text(f'<?xml version="1.0" encoding="{encoding}"?><graphml/>')
    with KnowledgeIndex() as index, pytest.raises(FileError, match="is not GraphML"):
        import_graph(index, file)


def test_entries_with_characters_that_cannot_be_stored_are_skipped(tmp_path):
    file = tmp_path / "graph.jsonld"
    entities = [{"@type": "Entity", "@id": one, "name": f"{one} Corp"} for one in ("a", "b", "\ud800")]
    facts = [
        {"@type": "Fact", "subject": "a", "object": "b", "relation": relation}
        for relation in ("owns", "b\0d", "x\ud800")
    ]
    facts.append({"@type": "Fact", "subject": "a", "object": "\ud800", "relation": "knows"})
    file.write_text(json.dumps({"@graph": [*entities, *facts]}))
    with KnowledgeIndex() as index:
        found = import_graph(index, file)
        assert (found.facts, found.skipped) == (1, 4)  # three facts, and the entity that none of the others holds


def test_parquet_files_of_other_forms_are_refused_or_skipped(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "entities.parquet")
    pq.write_table(pa.table({"entities": [[1, 3], None, []], "relation": [5, 6, None]}), tmp_path / "facts.parquet")
    with KnowledgeIndex() as index:
        with pytest.raises(FileError, match="has no column id"):
            import_graph(index, tmp_path)
        pq.write_table(pa.table({"id": [1, 3], "name": [7, 8], "aliases": [5, 6]}), tmp_path / "entities.parquet")
        found = import_graph(index, tmp_path)
        assert (found.facts, found.skipped, found.sentences) == (1, 1, 1)


@pytest.mark.parametrize("kind", FORMATS)
def test_the_import_counts_the_entities_that_only_sentences_name(tmp_path, kind):
    with KnowledgeIndex() as source:
        source.add([Document("1", "Mara Lindqvist met Ivo Kask in 1998. Ivo Kask left.")])
        source.remember("Harbour Team", "owns", "Keyring")
        done = export_graph(source, tmp_path / FORMATS[kind], kind)
    assert (done.entities, done.other_nodes) == (4, 1)  # a year is a node, and no entity
    with KnowledgeIndex() as other:
        read = import_graph(other, tmp_path / FORMATS[kind])
        assert (read.entities, read.left_out) == (2, 3)
        assert {entity.name for entity in other.entities()} == {"Harbour Team", "Keyring"}


def test_the_commands_say_what_they_count(run, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("# Alpha\n\nMara Lindqvist met Ivo Kask in 1998.\n")
    run("index", "docs", "--out", "kb", "--embedder", "none")
    exported = run("export", "graph.graphml", "--kb", "kb").stdout
    assert exported.startswith("3 entities (and 1 numbers and documents that facts name) and 1 facts")
    imported = " ".join(run("import", "graph.graphml", "--kb", "other", "--embedder", "none").stdout.split())
    assert "0 entities and 0 facts imported" in imported
    assert "Left out: 6 links of sentences and 4 entities that nothing else names" in imported
