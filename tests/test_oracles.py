"""``make oracles-check``: two recordings of a set are compared, and what differs is reported."""

import json
from pathlib import Path

import oracles
import oracles_record
import pytest
import quality

HARBOURS = ("Aberdeen", "Bergen", "Calais", "Dover", "Esbjerg", "Gdansk", "Hull", "Kiel", "Lisbon", "Malmö")
QUESTIONS = [{"question": f"Who built the harbour of {name}?", "gold": [f"d{at}"]} for at, name in enumerate(HARBOURS)]
NAMES = ("tiny",)


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(quality, "SHARED", tmp_path)
    monkeypatch.setattr(oracles_record, "SHARED", tmp_path)
    return tmp_path


def record(shared: Path, name: str, harbours: tuple[str, ...]) -> Path:
    texts = [f"The harbour of {harbour} was built by Oda Moe in {1900 + at}." for at, harbour in enumerate(harbours)]
    rows = [{"id": f"d{at}", "title": harbours[at], "text": text} for at, text in enumerate(texts)]
    folder = shared / "data" / "tiny"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)), "utf-8")
    oracles_record.record(shared / name, NAMES, limit=5)
    return shared / name


def test_equal_rankings_are_equal_and_others_are_listed(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = (record(shared, name, HARBOURS) for name in ("before", "after"))
    assert oracles.report(NAMES, before, after)
    printed = capsys.readouterr().out
    assert "tiny, hybrid, tenth                                  5   100.0 %   0.0000        0        0\n" in printed
    assert printed.endswith("all rows are equal\n")

    changed = record(shared, "changed", HARBOURS[::-1])
    assert not oracles.report(NAMES, before, changed)
    printed = capsys.readouterr().out
    assert "scores differ by up to" in printed
    assert "context(): [0]: '[1] Aberdeen" in printed
    assert "rows are not equal" in printed


@pytest.mark.parametrize(
    ("hits", "is_equal", "listed"),
    [
        ([("a", 0.5), ("b", 0.4)], True, []),
        ([("b", 0.5008), ("a", 0.4992)], True, []),  # the order of nearly equal scores
        ([("a", 0.5), ("b", 0.4011)], False, ["question 7\n      scores differ by up to 0.0011"]),
        ([("a", 0.5), ("c", 0.4)], False, ["question 7\n      ids: - b (0.4000) + c (0.4000)"]),
    ],
)
def test_a_row_has_the_same_ids_and_scores(hits: list[tuple[str, float]], is_equal: bool, listed: list[str]) -> None:
    before = [("a", 0.5), ("b", 0.5 if hits[0][0] == "b" else 0.4)]
    row = oracles.Row()
    row.add(7, *({"hits": one, "context": "", "to_dict": {}} for one in (before, hits)))
    assert (row.is_equal, row.listed) == (is_equal, listed)


def test_one_question_of_a_hundred_may_have_other_ids() -> None:
    a, b = ({"hits": [(name, 0.5)], "context": name, "to_dict": {"chunks": [{"score": 0.5}]}} for name in "ab")
    row = oracles.Row()
    for question in range(99):
        row.add(question, a, a)
    row.add(99, a, b)
    assert row.is_equal
    assert (row.same_ids, row.contexts, row.values) == (99, 1, 0)
    row.add(100, a, b)
    assert not row.is_equal
