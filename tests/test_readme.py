"""The README's Python blocks run, from the first to the last."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)  # noqa: S102 - our own README


def test_the_values_it_states_hold():
    names: dict[str, object] = {}
    block = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)[0]
    exec(compile(block.split("index.delete")[0], str(README), "exec"), names)  # noqa: S102 - our own README
    index = names["index"]
    assert index.entity("auth service").mentions == 2
    assert [other.name for other, _ in index.related("OAuth Provider")] == ["Auth Service", "Keyring"]
