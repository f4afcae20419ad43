"""Loading documents from files: every format, broken files, and very large folders."""

from __future__ import annotations

import builtins
import os
import sys

import pytest
from files import DOCUMENTS, pdf

from graphrag_apps.documents import FileSource, load_documents, sync_files, walk_files
from graphrag_apps.documents.walk import File
from graphrag_core import KnowledgeIndex
from graphrag_core.testing import HashEmbedder


def load(*paths, **settings):
    problems = []
    documents = {d.id: d for d in load_documents(paths, on_problem=problems.append, **settings)}
    return documents, problems


def test_nine_formats_become_documents_with_titles_and_metadata(docs):
    found, problems = load(docs)
    assert problems == []
    assert len(found) == DOCUMENTS
    assert {d.id: d.title for d in found.values()} == {
        "planner.txt": "planner",
        "tide.md": "Tide Feed",
        "berth.rst": "Berth Optimiser",
        "ledger.html": "Ledger",
        "app.pdf": "app",
        "billing.docx": "Billing Service",
        "people.csv#7": "Rosa Millán",
        "people.csv#9": "Mara Lindqvist",
        "notes.jsonl#n1": "Sea",
        "notes.jsonl#n2": "Bank",
        "gateway.json#1": "Gateway",
    }
    assert found["tide.md"].metadata == {
        "team": "harbour",
        "year": 2021,
        "source": "tide.md",
        "file_name": "tide.md",
        "folder": "",
        "format": "markdown",
    }
    assert found["people.csv#7"].metadata["since"] == 2018
    assert found["people.csv#7"].text == "id: 7.\nname: Rosa Millán.\nteam: Harbour Team.\nsince: 2018."
    assert found["gateway.json#1"].text == "The Gateway is the one door."


def test_ids_are_paths_relative_to_the_given_folder(docs):
    (docs / "team" / "north").mkdir(parents=True)
    (docs / "team" / "north" / "x.md").write_text("# X\n\nX is north.")
    assert "team/north/x.md" in load(docs)[0]
    assert load(docs)[0]["team/north/x.md"].metadata["folder"] == "team/north"
    assert list(load(docs / "team" / "north" / "x.md")[0]) == ["x.md"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.md", {"tide.md"}),
        ("**/*.md", {"tide.md", "deep/er/x.md"}),
        ("[bp]*.?s[tv]", {"berth.rst", "people.csv#7", "people.csv#9"}),
        ("deep/*/x.md", {"er/x.md"}),
    ],
)
def test_patterns_match(docs, pattern, expected):
    (docs / "deep" / "er").mkdir(parents=True)
    (docs / "deep" / "er" / "x.md").write_text("# X\n\nX is deep.")
    assert set(load(docs / pattern)[0]) == expected


def test_a_pattern_or_path_without_a_file_is_reported(docs):
    _, problems = load(docs / "*.nothing", docs / "gone.md")
    assert [p.reason for p in problems] == ["no file matches this pattern", "no such file or folder"]


@pytest.mark.parametrize("name", [".hidden.md", "node_modules/x.md", ".git/x.md", "_sources/x.md", "~$x.docx"])
def test_hidden_files_and_caches_are_skipped(docs, name):
    path = docs / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("# Junk")
    found, problems = load(docs)
    assert (len(found), problems) == (DOCUMENTS, [])


def test_links_out_of_the_folder_are_followed_only_if_asked(docs, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("# Secret\n\nHidden.")
    (docs / "file.md").symlink_to(outside / "secret.md")
    (docs / "folder").symlink_to(outside, target_is_directory=True)
    (docs / "font.woff").symlink_to(outside / "secret.md")
    assert [one.path.rpartition("/")[2] for one in load(docs)[1]].count("font.woff") == 0, "it is not read anyway"
    (docs / "font.woff").unlink()
    found = list(walk_files([docs]))
    links = sorted(one.path for one in found if not isinstance(one, File))
    assert links == [str(docs / "file.md"), str(docs / "folder")]
    followed = [one.path.name for one in walk_files([docs], follow_links=True)]
    assert {"file.md", "secret.md"} <= set(followed)


def test_a_file_that_becomes_a_link_to_another_one_is_removed(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text("# Tide\n\nThe tide is high.")
    index = KnowledgeIndex(HashEmbedder(16), progress=False)

    def run():
        return sync_files(index, FileSource(str(folder)))

    assert run().added == 2
    (folder / "b.md").unlink()
    (folder / "b.md").symlink_to("a.md")
    assert run().removed == 1
    assert [document.id for document in index.documents()] == ["a.md"]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8-sig", "Łódź lies in Poland."),
        ("utf-16", "Zürich lies in Switzerland."),
        ("cp1252", "Das Café in Zürich gehört Jürgen Müller. Es öffnet um acht."),
        ("cp1251", "Москва является столицей России и крупнейшим городом страны."),
        ("shift_jis", "東京都は日本の首都です。人口は約1400万人です。"),
        ("gb18030", "北京是中华人民共和国的首都。人口超过两千万。"),
    ],
)
def test_encodings_are_detected(tmp_path, encoding, text):
    (tmp_path / "x.txt").write_bytes(text.encode(encoding))
    found, problems = load(tmp_path)
    assert problems == []
    assert found["x.txt"].text == text


BROKEN = {
    "binary.txt": (bytes(range(256)) * 20, "binary file, not text"),
    "zeros.md": (b"ab\x00cd" * 50, "binary file, not text"),
    "empty.txt": (b"", "empty file"),
    "blank.md": (b" \n\n ", "contains no text"),
    "broken.pdf": (b"%PDF-1.4\nnothing of a PDF", "damaged PDF"),
    "scan.pdf": (pdf(""), "no text, only images: run OCR first"),
    "broken.docx": (b"PK\x03\x04 no zip", "not a Word file, or damaged"),
    "broken.json": (b'{"a": ', "invalid JSON"),
    "wide.csv": (b"a,b\n1,2,3\n", "3 fields in the row, 2 in the header"),
    "line.jsonl": (b'{"text": "Good."}\n{broken\n{"text": "Good too."}\n', "invalid JSON"),
    "twice.jsonl": (b'{"id": 1, "text": "One."}\n{"id": 1, "text": "Two."}\n', "duplicate id in this file"),
    "number.json": (b"[1, 2]", "expected an object or a string, got int"),
    "spaces.html": (b"<html><body><script>x</script></body></html>", "contains no text"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_read_is_one_line_and_the_others_are_loaded(docs, name):
    data, reason = BROKEN[name]
    (docs / name).write_bytes(data)
    found, problems = load(docs)
    assert problems
    assert all(problem.path.startswith(str(docs / name)) for problem in problems)
    assert problems[0].reason.startswith(reason)
    assert "\n" not in str(problems[0])
    good = {"line.jsonl": 2, "twice.jsonl": 1}.get(name, 0)
    assert len(found) == DOCUMENTS + good


def test_a_file_without_permission_is_reported(docs):
    secret = docs / "tide.md"
    secret.chmod(0)
    if os.access(secret, os.R_OK):
        pytest.skip("this user may read everything")
    _, (problem,) = load(docs)
    assert "Permission denied" in problem.reason


def test_files_over_the_size_limit_are_reported_but_tables_are_streamed(docs):
    found, problems = load(docs, max_bytes=30)
    assert {p.path.rpartition(".")[2] for p in problems} == {"txt", "md", "rst", "html", "pdf", "docx", "json"}
    assert set(found) == {"people.csv#7", "people.csv#9", "notes.jsonl#n1", "notes.jsonl#n2"}


@pytest.mark.parametrize(
    ("package", "name"), [("pypdfium2", "app.pdf"), ("docx", "billing.docx"), ("selectolax", "ledger.html")]
)
def test_a_missing_library_is_one_line_with_the_command_that_installs_it(docs, monkeypatch, package, name):
    real = builtins.__import__

    def without(module, *rest):
        if module.split(".")[0] == package:
            raise ImportError(module)
        return real(module, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    found, problems = load(docs)
    assert any(problem.path.endswith(name) for problem in problems)
    assert all("pip install 'hybrid-graphrag[files]'" in problem.reason for problem in problems)
    assert len(found) == DOCUMENTS - len(problems)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere file names are Unicode")
def test_a_file_or_folder_whose_name_is_no_text_is_reported(tmp_path):
    (tmp_path / "a.md").write_text("Alpha is here.")
    (tmp_path / os.fsdecode(b"bad\xff.md")).write_text("Beta is here.")
    (tmp_path / os.fsdecode(b"folder\xfe")).mkdir()
    (tmp_path / os.fsdecode(b"folder\xfe/c.md")).write_text("Gamma is here.")
    for given, names, count in ((tmp_path, ["a.md"], 2), (tmp_path / os.fsdecode(b"folder\xfe"), [], 1)):
        found, problems = load(given)
        assert list(found) == names
        assert [problem.reason for problem in problems] == ["its name is not valid UTF-8: rename it"] * count
        assert all(problem.path.isprintable() for problem in problems)
