"""The documentation site, the files around a release, and what PyPI gets.

`make docs` builds the site and runs this file with ``SITE``; the tests of built pages skip without it.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import graphrag_core

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = Path(os.environ.get("SITE", "")).resolve() if os.environ.get("SITE") else None
PACKAGES = ["graphrag_core", "graphrag_core.embedders", "graphrag_core.testing", "langchain_graphrag", "llama_graphrag"]
built = pytest.mark.skipif(SITE is None, reason="no site: 'make docs' builds it")


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, whose tags name Python functions."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)
CONFIG = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _Loader)


def _pages(entry) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [page for inner in (entry.values() if isinstance(entry, dict) else entry) for page in _pages(inner)]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_documents_every_public_name(package):
    text = "\n".join(page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md"))
    listed = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    names = {f"{package}.{name}" for name in importlib.import_module(package).__all__ if name != "__version__"}
    assert not names - listed, "add a line '::: NAME' to a page in docs/reference"


def test_the_reference_names_nothing_twice_and_nothing_that_is_not_there():
    text = "\n".join(page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md"))
    listed = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    assert len(listed) == len(set(listed))
    for name in listed:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), name


def test_every_page_is_in_the_navigation():
    pages = _pages(CONFIG["nav"])
    assert len(pages) == len(set(pages))
    generated = {"readme.md", "changelog.md", "contributing.md", "security.md"}
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert set(pages) == written | generated, "put the page into 'nav' of mkdocs.yml"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_of_files_at_the_root_lead_somewhere(page):
    text = (ROOT / page).read_text("utf-8")
    for target in re.findall(r"\]\((?![a-z]+:)([^)#]+)", text):
        assert (ROOT / target).exists(), f"{page} links to {target}"


def test_one_version_and_one_address_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert str(citation["version"]) == graphrag_core.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(r"^## \[(.+?)\]", changelog, re.MULTILINE)[1] == graphrag_core.__version__
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'Documentation = "{CONFIG["site_url"]}"' in project
    assert f'Repository = "{CONFIG["repo_url"]}"' in project
    assert f"version {graphrag_core.__version__}" in (ROOT / "README.md").read_text("utf-8")
    assert citation["repository-code"] == CONFIG["repo_url"]
    assert citation["url"] == CONFIG["site_url"]


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("github-workflows", "workflows/*.yml"),
        ("github-issue-forms", "ISSUE_TEMPLATE/[!c]*.yml"),
        ("github-issue-config", "ISSUE_TEMPLATE/config.yml"),
        ("dependabot", "dependabot.yml"),
        ("citation-file-format", "../CITATION.cff"),
    ],
)
def test_files_for_github_follow_their_schema(schema, pattern):
    pytest.importorskip("check_jsonschema")
    files = sorted((ROOT / ".github").glob(pattern)) if "*" in pattern else [ROOT / ".github" / pattern]
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--default-filetype", "yaml", "--builtin-schema"]
    done = subprocess.run([*command, f"vendor.{schema}", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_is_published_before_the_wheel_was_installed_on_every_system():
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))["jobs"]
    assert {"test", "build", "install", "site"} <= {*jobs["publish"]["needs"]}
    systems = jobs["install"]["strategy"]["matrix"]["os"]
    assert {"ubuntu-latest", "ubuntu-24.04-arm", "macos-latest", "windows-latest"} <= {*systems}
    assert any("wheel_smoke.py dist/*.whl" in step.get("run", "") for step in jobs["install"]["steps"])


def test_targets_of_the_makefile_that_a_workflow_or_the_guide_names_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    for path in [*(ROOT / ".github/workflows").glob("*.yml"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"]:
        named = set(re.findall(r"(?:run: |`|\$ )make ([\w-]+)", path.read_text("utf-8")))
        assert named <= targets, path.name


class _Parser(HTMLParser):
    """What a page loads, links to and can be linked at."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "next", "prev", "edit"):
            self.loads.append(given.get("href", ""))
        elif given.get("src"):
            self.loads.append(given["src"])


@pytest.fixture(scope="module")
def pages():
    assert SITE is not None
    return {path: _Parser(path) for path in sorted(SITE.rglob("*.html")) if path.name != "404.html"}


@built
def test_pages_load_nothing_from_other_servers(pages):
    for path, page in pages.items():
        assert not [url for url in page.loads if urlsplit(url).netloc], path
    for style in SITE.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", style.read_text("utf-8")), style


@built
def test_links_and_anchors_of_built_pages_lead_somewhere(pages):
    problems = []
    for path, page in pages.items():
        for url in [*page.links, *page.loads]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            is_missing = target in pages and parts.fragment and unquote(parts.fragment) not in pages[target].ids
            is_image = parts.fragment in ("only-light", "only-dark")
            if not target.exists() or (is_missing and not is_image and parts.fragment != "__comments"):
                problems.append(f"{path.relative_to(SITE)}: {url}")
    assert not problems


@built
def test_links_to_files_of_the_repository_lead_to_files(pages):
    prefix = f"{CONFIG['repo_url']}/blob/main/"
    found = {
        url.removeprefix(prefix).partition("#")[0] for page in pages.values() for url in page.links if prefix in url
    }
    assert not [name for name in found if not (ROOT / name).exists()]


@built
def test_no_markup_is_left_on_a_page(pages):
    for path in pages:
        text = re.sub(r"<(pre|code|script)\b.*?</\1>", "", path.read_text("utf-8"), flags=re.DOTALL)
        text = re.sub(r"<[^>]+>", "", text)
        left = re.findall(
            r":(?:class|meth|func|mod|attr):|^\s*::: .*|&gt;&gt;&gt; .*|^- .*|^\|.*\|$", text, re.MULTILINE
        )
        assert not left, path
