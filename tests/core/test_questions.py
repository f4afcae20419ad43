"""Questions from files, and what counts as their answer in an index."""

from __future__ import annotations

import json

import pytest

from graphrag_apps.compare import Measure, Question, compare, contains, load_questions
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import FileError
from graphrag_core.testing import HashEmbedder


def write(path, *rows):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), "utf-8")
    return path


# -- reading


def test_text_has_one_question_per_line(tmp_path):
    path = write(tmp_path / "q.txt", "\ufeffWho?", "", "  Why?\r")
    assert load_questions(path) == [Question("Who?"), Question("Why?")]


def test_json_lines(tmp_path):
    path = write(
        tmp_path / "q.jsonl",
        {"id": 7, "question": "Who?", "gold": ["a", "b", "a"], "type": "bridge"},
        {"question": "Why?", "evidence": [{"file": "x.rst", "quote": "because of it"}, "and that"]},
    )
    assert load_questions(str(path)) == [
        Question("Who?", ("a", "b"), type="bridge", id="7"),
        Question("Why?", evidence=("because of it", "and that")),
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv(tmp_path, separator):
    rows = [["Question", "gold", "type", "evidence"], ["Who?", "a | b", "x", ""], ["Why?", "c", "", "a quote here"]]
    cells = [separator.join('"{}"'.format(cell.replace('"', '""')) for cell in row) for row in rows]
    expected = [Question("Who?", ("a", "b"), type="x"), Question("Why?", ("c",), ("a quote here",))]
    assert load_questions(write(tmp_path / "q.csv", *cells)) == expected


@pytest.mark.parametrize(
    ("name", "rows", "problem"),
    [
        ("q.jsonl", ['{"question": "Who?"}', '{"question": 1}'], r"q\.jsonl, line 2: needs 'question'"),
        ("q.jsonl", ['{"question": "Who?"', ""], r"q\.jsonl, line 1: invalid JSON"),
        ("q.jsonl", ["Who?"], r"q\.jsonl, line 1: needs a JSON object"),
        ("q.jsonl", [{"question": "Who?", "gold": 1.5}], "line 1: 'gold' must be a list of document ids"),
        ("q.jsonl", [{"question": "Who?", "evidence": ["..."]}], "line 1: 'evidence' has '...'"),
        ("q.csv", ["text_of_it,gold", "Who?,a"], r"q\.csv, line 1: needs a column 'question'"),
        ("q.csv", ["question,gold", "Who?,a,b"], r"q\.csv, line 2: has more cells than the header"),
        ("q.json", ["[", "]"], r"q\.json, line 1: needs a JSON object"),
        ("q.txt", [" "], "contains no questions"),
    ],
)
def test_errors_name_the_file_and_the_line(tmp_path, name, rows, problem):
    with pytest.raises(FileError, match=problem):
        load_questions(write(tmp_path / name, *rows))


# -- what counts as found


@pytest.mark.parametrize(
    ("quote", "passage", "found"),
    [
        ("the  quick\nbrown fox", "See: The quick brown fox, again.", True),
        ("Set <b>CELERY_RDB_HOST</b> to reach it", "Set CELERY_RDB_HOST to reach it", True),
        ("[the guide](https://x.example) for all", "the guide for all", True),
        ("the quick brown fox", "a fox, brown and quick", False),
        ("黑豹队的防守只丢了", "黑豹队的防守只丢了 308分，在联赛中排名第六", True),
        ("黑豹队的防守只丢了", "联赛中排名第六", False),
        ("Keyring", "It speaks to Keyring.", True),
        ("Keyring", "It speaks to a ring.", False),
        # a reference that is longer than the passage, as of another chunker
        (
            "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen",
            "two three four five six seven eight nine ten eleven twelve thirteen fourteen",
            True,
        ),
        ("one two three four five six seven", "one two", False),
    ],
)
def test_a_passage_contains_a_quote(quote, passage, found):
    assert contains(quote, passage) is found


@pytest.fixture
def index():
    documents = [
        Document("docs/a.md", "The Auth Service trusts the OAuth Provider for every token.", "Auth Service"),
        Document("docs/b.md", "It speaks to Keyring over mutual TLS.", "OAuth Provider"),
        Document("x/c.md", "Soup is served on Monday.", "Menu"),
        Document("y/c.md", "Cake is served on Sunday.", "Menu"),
        Document("rows.jsonl#7", "Rosa likes the sea.", "Rosa"),
    ]
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(documents)
        yield index


def judged(index, question):
    (answer,) = compare(GraphRetriever(index), [question], k=3).answered
    return answer


def test_gold_that_is_not_in_the_index_is_reported_and_not_measured(index):
    answer = judged(index, Question("Whom does the Auth Service trust?", ("docs/a.md", "nowhere.md")))
    assert (answer.items, answer.missing) == (("docs/a.md",), ("nowhere.md",))
    report = compare(GraphRetriever(index), [Question("Who?", ("nowhere.md",))], k=3)
    assert not report.judged
    assert report.missing == ("nowhere.md",)
    assert "is not in the index" in report.verdict


def test_quotes_are_found_in_passages(index):
    answer = judged(
        index, Question("What is behind it?", evidence=("speaks to  KEYRING over mutual", "not in any text"))
    )
    assert answer.items == ("speaks to  KEYRING over mutual",)
    assert answer.missing == ("not in any text",)
    assert answer.value("hybrid", Measure("recall", 5)) == 1
    assert all(one in {"docs/a.md", "docs/b.md", "x/c.md", "y/c.md", "rows.jsonl#7"} for one in answer.found["hybrid"])
