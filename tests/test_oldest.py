"""``make test-oldest`` installs what ``pyproject.toml`` names, at the lower bounds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("extra", "file"),
    [(None, "oldest"), ("files", "oldest"), ("openai", "oldest"), ("llama", "oldest-llama"),
     ("langchain", "oldest-langchain")],
)  # fmt: skip
def test_every_dependency_is_installed_at_its_lower_bound(extra, file):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["optional-dependencies"][extra] if extra else project["dependencies"]
    lines = (ROOT / f"tests/{file}.txt").read_text("utf-8").splitlines()
    installed = dict(re.split(r"(?=[=<>])", line, maxsplit=1) for line in lines if re.search("[=<>]", line))
    for name, bound in (re.match(r"([\w-]+)>=([^,;]+)", requirement).groups() for requirement in wanted):
        assert re.match(rf"[=>]={re.escape(bound)}", installed.get(name, "")), f"{name}>={bound}"
