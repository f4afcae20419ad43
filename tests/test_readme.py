"""The Python blocks of the README and of every page in docs run, from the first to the last."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")  # LlamaIndex's workflows
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks(page):
        exec(compile(block, str(page), "exec", dont_inherit=True), names)  # noqa: S102 - our own pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)|(?:src|srcset)=\"(?!https?:)([^\"]+)", page.read_text("utf-8"))
    for target in filter(None, (one or other for one, other in targets)):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("name", ["graphrag_core", "graphrag_apps"])
def test_the_list_of_modules_is_complete(name):
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    listed = page.split(f"core/{name}/\n", 1)[1].split("```", 1)[0].split("\n\n", 1)[0]
    package = ROOT / "core" / name
    own = [f"{path.name}/" for path in package.iterdir() if (path / "__init__.py").is_file() and path.name != "engine"]
    own += [path.name for path in package.glob("*.py") if not path.name.startswith("__")]
    assert [module for module in own if module not in listed.split()] == []


def test_the_two_pages_are_in_the_source():
    pages = re.findall(r"```py\n# (\S+)\n(.*?)```", (ROOT / "docs" / "architecture.md").read_text("utf-8"), re.DOTALL)
    assert [path for path, _ in pages] == [
        "core/graphrag_core/query/search.py",
        "core/graphrag_core/ingest/pipeline.py",
    ]
    for path, code in pages:
        assert code in dedent_methods((ROOT / path).read_text("utf-8")), f"docs/architecture.md differs from {path}"


def dedent_methods(source: str) -> str:
    return re.sub(r"^    ", "", source, flags=re.MULTILINE) + source


def test_the_modules_of_the_architecture_exist():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = {*re.findall(r"[\w/]+\.py\b", page)}
    assert [name for name in sorted(named) if not [*(ROOT / "core").rglob(name)] and not (ROOT / name).exists()] == []
