"""``make bench-quality`` and ``make bench-calibration``: how sets are read, indexed and judged."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import quality

from graphrag_core.testing import HashEmbedder

PARAGRAPHS = [f"The Keyring of harbour {number} was built by Oda Moe. " * 12 for number in range(30)]
TEXT = "\n\n".join(PARAGRAPHS)
SPAN = (len(PARAGRAPHS[0]) + 2, len(PARAGRAPHS[0]) + 2 + len(PARAGRAPHS[1]))


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(quality, "SHARED", tmp_path)
    monkeypatch.setattr(quality, "model_of", lambda _: HashEmbedder())
    question = {"question": "Who built it?", "evidence": [{"file": "a.txt", "span": SPAN, "quote": PARAGRAPHS[1]}]}
    write(tmp_path / "data" / "tiny", "docs", [{"file": "a.txt", "text": TEXT}])
    write(tmp_path / "data" / "tiny", "questions", [{**question, "id": str(number)} for number in range(4)])
    return tmp_path


def write(folder: Path, name: str, rows: Sequence[object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")


def pairs(numbers: range) -> quality.Pairs:
    return frozenset((str(number), str(number + 1)) for number in numbers)


@pytest.mark.parametrize(("held", "share"), [(29, 0.0), (30, 1.0)])
def test_a_quote_counts_if_one_passage_holds_three_quarters_of_it(held: int, share: float) -> None:
    quote = pairs(range(40))
    assert quality.share_of_quote(quote, [pairs(range(5)), pairs(range(held))]) == share
    assert quality.share_of_quote(quote, [pairs(range(20)), pairs(range(20, 40))]) == 0


def test_a_group_has_the_mean_of_the_sets_that_were_measured(capsys: pytest.CaptureFixture[str]) -> None:
    def recalls(value: float) -> dict[str, quality.Recalls]:
        return {label: np.full((3, 4), value) for label in quality.METHODS}

    quality.show_groups("wordllama", {"docs_dev": recalls(0.5), "privacy_qa": recalls(0.25), "xquad_en": recalls(1)})
    printed = capsys.readouterr().out
    assert "documents (2 of 5)          37.5 / 37.5" in printed
    assert "passages (1 of 9)           100.0 / 100.0" in printed
    assert "cut" not in printed
