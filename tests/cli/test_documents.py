"""Loading documents from files: every format, broken files, and very large folders."""

from __future__ import annotations

import builtins
import os
import sys
from itertools import islice

import pytest
from files import DOCUMENTS, pdf

from graphrag_apps.documents import FileSource, load_documents, sync_files, walk_files
from graphrag_apps.documents import load as load_module
from graphrag_apps.documents.load import file_documents
from graphrag_apps.documents.walk import File
from graphrag_core import KnowledgeIndex
from graphrag_core.errors import InputError
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


def test_markup_and_page_furniture_are_removed(docs):
    found, _ = load(docs)
    page = found["ledger.html"].text
    assert page == "# Ledger\n\nThe Ledger is a book.\nAuditors from Porto read it.\n\n- one\n- two"
    assert "proposes berths from [Lisbon](lisbon.html)." in found["berth.rst"].text
    assert ".. _berth" not in found["berth.rst"].text
    assert "Owner | Joaquim Prates" in found["billing.docx"].text
    assert found["app.pdf"].text == "<!-- page 1 -->\n\nThe Mobile App signs people in through the Login Flow."
    assert "title:" not in found["tide.md"].text


def test_a_column_of_the_file_is_not_overwritten_by_the_loader(tmp_path):
    (tmp_path / "x.csv").write_text("name,format\nAda,A4\n")
    (document,) = load(tmp_path)[0].values()
    assert document.metadata["format"] == "A4"
    assert document.metadata["source"] == "x.csv"


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


@pytest.mark.parametrize(
    "page",
    [
        "<h2>3.{0}. Berth {0}</h2><p>Text.</p><h2>Notes</h2><p>More.</p>",
        "<h1>Berth {0}</h1><p>Text.</p><h1>Notes</h1><p>More.</p>",
        "<h1>Berth {0}</h1><h2>Notes</h2><p>More.</p>",
        "<h1>The Harbour Manual</h1><h3>Berth {0}</h3><p>Text.</p><h3>Notes</h3><p>More.</p>",
    ],
)
def test_pages_that_share_a_title_are_called_by_their_headings(tmp_path, page):
    for number in range(4):
        title = "<html><head><title>The  Harbour Manual</title></head>"
        (tmp_path / f"{number}.html").write_text(f"{title}<body>{page.format(number)}")
    (tmp_path / "cover.html").write_text("<title>The Harbour Manual</title><p>Welcome.</p>")
    (tmp_path / "own.html").write_text("<title>Tides</title><h2>High</h2><p>Text.</p><h2>Low</h2><p>Text.</p>")
    found, problems = load(tmp_path)
    titles = {document_id: document.title for document_id, document in found.items()}
    assert titles == {f"{number}.html": f"Berth {number}" for number in range(4)} | {
        "cover.html": "The Harbour Manual",
        "own.html": "Tides",
    }
    assert not problems


@pytest.mark.parametrize("name", [".hidden.md", "node_modules/x.md", ".git/x.md", "__pycache__/x.md", "~$x.docx"])
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
    found = list(walk_files([docs]))
    links = sorted(one.path for one in found if not isinstance(one, File))
    assert links == [str(docs / "file.md"), str(docs / "folder")]
    followed = [one.path.name for one in walk_files([docs], follow_links=True)]
    assert {"file.md", "secret.md"} <= set(followed)


def test_a_link_to_a_file_of_the_folder_is_no_second_document(tmp_path):
    folder = tmp_path / "docs"
    (folder / "v2").mkdir(parents=True)
    (folder / ".data").mkdir()
    (folder / "v2" / "tide.md").write_text("# Tide")
    (folder / ".data" / "berth.md").write_text("# Berth")
    (folder / "NOTES").write_text("# Notes")
    (folder / "current").symlink_to("v2", target_is_directory=True)
    (folder / "a.md").symlink_to("current/tide.md")
    (folder / "b.md").symlink_to("a.md")
    (folder / "berth.md").symlink_to(".data/berth.md")  # itself hidden
    (folder / "notes.md").symlink_to("NOTES")  # itself of no known format
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "c.md").symlink_to(folder / "v2" / "tide.md")
    expected = ["berth.md", "notes.md", "v2/tide.md"]
    for follow_links in (False, True):
        found = load_documents([tmp_path / "more", folder], follow_links=follow_links)
        assert sorted(one.id for one in found) == expected
    assert [one.id for one in load_documents(folder / "a.md")] == ["a.md"]
    assert [one.id for one in load_documents(f"{tmp_path}/*/current/*.md")] == ["docs/current/tide.md"]


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


def test_link_cycles_end_and_overlapping_paths_count_once(docs):
    (docs / "sub").mkdir()
    (docs / "sub" / "loop").symlink_to(docs, target_is_directory=True)
    (docs / "sub" / "x.md").write_text("# X\n\nX.")
    files = [found.path.name for found in walk_files([docs, docs / "sub", docs / "tide.md", docs / "*.md"])]
    assert sorted(files) == sorted(set(files))
    assert len(files) == 10


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8-sig", "Łódź lies in Poland."),
        ("utf-16", "Zürich lies in Switzerland."),
        ("utf-16-le", "Zürich lies in Switzerland."),
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


def test_a_folder_of_very_many_files_is_streamed(tmp_path, monkeypatch):
    for number in range(20_000):
        (tmp_path / f"{number}.md").touch()
    seen = []
    scandir = os.scandir

    class Counted:
        def __init__(self, path):
            self.entries = scandir(path)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.entries.close()

        def __iter__(self):
            for entry in self.entries:
                seen.append(None)
                yield entry

    monkeypatch.setattr(os, "scandir", Counted)
    files = walk_files([tmp_path])
    assert len(list(islice(files, 10))) == 10
    assert len(seen) == 10, "no more entries were read than needed"
    assert sum(1 for _ in files) == 19_990


def test_rows_are_streamed(tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_text('{"text": "One."}\n' * 3 + "{broken\n")
    (file,) = walk_files([path])
    rows = file_documents(file, {})
    assert [next(rows).id for _ in range(3)] == ["long.jsonl#1", "long.jsonl#2", "long.jsonl#3"]


def test_a_row_may_have_a_field_without_a_name(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"": "Rosa", "team": "Harbour"}\n')
    (document,) = load_documents(tmp_path)
    assert document.text == ": Rosa.\nteam: Harbour."


def test_given_metadata_is_on_every_document(docs):
    found, _ = load(docs, metadata={"tenant": "acme"})
    assert {d.metadata["tenant"] for d in found.values()} == {"acme"}


def test_one_path_is_a_str_or_a_path(tmp_path):
    (tmp_path / "a.md").write_text("Alpha is here.")
    for given in (str(tmp_path), tmp_path, [tmp_path], str(tmp_path / "*.md")):
        assert [document.id for document in load_documents(given)] == ["a.md"]
        assert [file.name for file in walk_files(given)] == ["a.md"]
    assert FileSource(str(tmp_path)).paths == (str(tmp_path),)


@pytest.mark.parametrize("given", [None, 3, [None], b"docs", [""], ""])
def test_what_is_no_path_is_an_error_that_says_what_to_pass(given):
    with pytest.raises(InputError, match="pass a str or a Path"):
        list(load_documents(given))


def test_a_link_to_itself_hides_no_other_file(tmp_path):
    for name in "abcdefgh":
        (tmp_path / f"{name}.md").write_text("Alpha is here.")
        (tmp_path / f"{name}-link.md").symlink_to(f"{name}-link.md")
    found, problems = load(tmp_path)
    assert sorted(found) == [f"{name}.md" for name in "abcdefgh"]
    assert len(problems) == 8
    assert all("levels of symbolic links" in problem.reason for problem in problems)


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


def test_a_reader_that_fails_ends_no_run(tmp_path, monkeypatch):
    (tmp_path / "a.md").write_text("Alpha is here.")
    (tmp_path / "b.docx").write_bytes(b"PK")
    monkeypatch.setitem(load_module._READERS, "docx", (lambda data: data.index(b"x"), ".docx"))
    found, problems = load(tmp_path)
    assert list(found) == ["a.md"]
    assert [p.reason for p in problems] == [
        "its reader failed (ValueError: subsection not found): the file may be damaged"
    ]


def test_a_number_of_very_many_digits_is_a_problem_of_its_file(tmp_path):
    (tmp_path / "a.json").write_text('[{"id": ' + "9" * 5_000 + ', "text": "Alpha is here."}]')
    (tmp_path / "b.jsonl").write_text('{"id": ' + "9" * 5_000 + ', "text": "Alpha"}\n{"text": "Beta is here."}\n')
    found, problems = load(tmp_path)
    assert [document.text for document in found.values()] == ["Beta is here."]
    assert len(problems) == 2
    assert all("invalid JSON" in problem.reason for problem in problems)


def test_the_documents_of_missing_files_are_deleted_together(tmp_path, monkeypatch):
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.md").write_text(f"Service {number} is here.")
    (folder / "kept.csv").write_text("name,city\nAda,Rome\nBo,Oslo\nCy,Bern\n")
    deleted = []
    delete = KnowledgeIndex.delete
    monkeypatch.setattr(KnowledgeIndex, "delete", lambda self, ids: deleted.append(list(ids)) or delete(self, ids))
    index = KnowledgeIndex(HashEmbedder(16), progress=False)

    def run():
        return sync_files(index, FileSource(str(folder)))

    assert run().added == 33
    for file in folder.glob("*.md"):
        file.unlink()
    (folder / "kept.csv").write_text("name,city\nAda,Rome\n")
    assert run().removed == 32
    assert run().removed == 0
    assert [len(ids) for ids in deleted if ids] == [2, 30]
    assert len(index) == 1
    assert index.verify()
