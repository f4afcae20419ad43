"""MkDocs hooks: root files become pages, and links that work on GitHub work on the site.

README.md, CHANGELOG.md, CONTRIBUTING.md and SECURITY.md are the pages of ``PAGES``. A relative link to a page
leads to the page, one to another file of the repository to GitHub. HTML comments, which hold the hidden parts of
examples, are left out. Mermaid flowcharts are drawn as SVG while the site is built: no script is loaded for them.
"""

from __future__ import annotations

import importlib.util
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Files at the root of the repository, and the pages they become."""

FENCE = re.compile(r"^( *)(`{3,}|~{3,})(\w*)[^\n]*\n(.*?)^\1\2[ \t]*$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(\]\()(?![a-z]+:|#|/)([^)\s#]+)(#[^)\s]*)?(?=[)\s])")
ATTRIBUTE = re.compile(r'((?:src|srcset|href)=")(?![a-z]+:|#|/)([^"#]+)(#[^"]*)?(?=")')
PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\s*'
    r'<img alt="([^"]*)" src="([^"]+)">\s*</picture>'
)

_spec = importlib.util.spec_from_file_location("flowchart", Path(__file__).with_name("flowchart.py"))
assert _spec is not None and _spec.loader is not None  # noqa: S101, PT018 - a file beside this one
flowchart = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(flowchart)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the files at the root."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Return the page as the site needs it."""
    source = next((name for name, path in PAGES.items() if path == page.file.src_uri), f"docs/{page.file.src_uri}")
    folder = posixpath.dirname(source)
    repository = str(config.repo_url)

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[2]))
        anchor = match[3] or ""
        inside = PAGES.get(target) or (target[5:] if target.startswith("docs/") else None)
        if inside is None:
            if not (ROOT / target).exists():
                return match[0]  # MkDocs reports it
            return f"{match[1]}{repository}/blob/main/{target}{anchor}"
        if match.re is ATTRIBUTE:
            return f"{match[1]}{get_relative_url(inside, page.url)}{anchor}"
        return f"{match[1]}{posixpath.relpath(inside, posixpath.dirname(page.file.src_uri) or '.')}{anchor}"

    def prose(text: str) -> str:
        text = PICTURE.sub(r'<img alt="\2" src="\3#only-light">\n<img alt="\2" src="\1#only-dark">', text)
        return ATTRIBUTE.sub(link, LINK.sub(link, text))

    def block(match: re.Match[str]) -> str:
        return flowchart.draw(match[4]) if match[3] == "mermaid" else match[0]

    markdown = re.sub(r"<!--.*?-->\n*", "", markdown, flags=re.DOTALL)
    parts: list[str] = []
    end = 0
    for match in FENCE.finditer(markdown):
        parts += [prose(markdown[end : match.start()]), block(match)]
        end = match.end()
    return "".join([*parts, prose(markdown[end:])])
