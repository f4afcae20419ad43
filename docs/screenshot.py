"""Pictures of the demo, the explain page and the graph explorer, light and dark: ``make screenshots`` writes them here.

``pictures.json`` says what the pictures show; ``tests/test_pictures.py`` compares it with what the demo writes now.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path
from typing import Any

from browser import chromium  # tests/browser.py
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from graphrag_apps.demo import sample_documents
from graphrag_apps.explore import Explorer, static_page
from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.embedders import WordLlama

HERE = Path(__file__).parent
SHOWN = HERE / "pictures.json"
COLUMNS = 120
ENTITY = "Harbourlight"
WIDTH, HEIGHT, SCALE = 1240, 740, 1.25
_PASSAGE = re.compile(
    r'class="name"[^>]*>(.*?)</span><span class="score"[^>]*>(.*?)</span>.*?<p class="source"[^>]*>(.*?)</p>', re.DOTALL
)
_TERMINAL = (
    '<body style="margin:0"><pre style="display:inline-block;margin:0;padding:16px 22px;color:{foreground};'
    "background:{background};font:13px/1.18 'DejaVu Sans Mono',Menlo,Consolas,monospace\">{code}</pre>"
)


def run_demo(folder: Path) -> tuple[str, Path]:
    """Run ``hybrid-graphrag demo``; return what it prints up to its first question, and the page that it writes."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TMPDIR": str(folder)}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "graphrag_apps", "demo"]
    done = subprocess.run(command, capture_output=True, check=True, encoding="utf-8", env=environment)  # noqa: S603
    lines = done.stdout.strip().splitlines()
    end = next(number for number, line in enumerate(lines) if "╰" in line)
    (page,) = folder.glob("*.html")
    return "\n".join(lines[: end + 1]), page


def shown(terminal: str, page: str) -> dict[str, Any]:
    """Return what the pictures of the demo show: the lines of the terminal, the question, and the passages."""
    introduction, panel = Text.from_ansi(terminal).plain.split("\n\n", 1)
    question = re.search(r"<h1[^>]*>(.*?)</h1>", page, re.DOTALL)
    assert question is not None  # noqa: S101 - every page has one
    names = ("name", "score", "id")
    return {
        "question": _text(question[1]),
        "passages": [dict(zip(names, map(_text, found), strict=True)) for found in _PASSAGE.findall(page)],
        "introduction": re.sub(r"\d+\.\d s\b", "… s", " ".join(introduction.split())),  # times differ
        "terminal": panel.splitlines(),
    }


def explored(explorer: Explorer) -> dict[str, Any]:
    """Return what the picture of the explorer shows: an entity, its neighbours, and the communities."""
    entity, overview = explorer.entity(ENTITY), explorer.overview()
    return {
        "entity": entity["entity"]["name"],
        "neighbours": [node["name"] for node in entity["neighbours"]["nodes"]],
        "communities": [community["name"] for community in overview["communities"]],
    }


def sample_explorer() -> Explorer:
    """Return the explorer of the sample documents."""
    index = KnowledgeIndex(WordLlama(), progress=False)
    index.add(sample_documents())
    return Explorer(GraphRetriever(index))


def main() -> None:
    """Run the demo, open its page and the explorer in light and dark mode, and save screenshots."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        if browser is None:
            raise SystemExit("no Chromium was found: 'make test-browser' installs one")
        terminal, file = run_demo(Path(folder))
        explorer = sample_explorer()
        _screenshot_terminal(browser, terminal)
        network = Path(folder, "explore.html")
        network.write_text(static_page(explorer, entity=ENTITY), "utf-8")
        for scheme in ("light", "dark"):
            page = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT},
                device_scale_factor=SCALE,
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            page.goto(file.as_uri())
            page.locator(".hit", has=page.locator(".graph-only")).first.locator(".select").click()
            page.mouse.move(1, 1)
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=HERE / f"explain-{scheme}.png")
            page.goto(network.as_uri())
            page.wait_for_selector("body[data-state=ready]")
            page.mouse.move(1, 1)
            page.wait_for_timeout(500)
            page.screenshot(path=HERE / f"explore-{scheme}.png")
        found = {"demo": shown(terminal, file.read_text("utf-8")), "explorer": explored(explorer)}
    SHOWN.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", "utf-8")


def _screenshot_terminal(browser: Any, terminal: str) -> None:
    console = Console(record=True, width=COLUMNS, file=StringIO())
    console.print(Text.from_ansi(terminal), soft_wrap=True)
    page = browser.new_page(device_scale_factor=SCALE)
    page.set_content(console.export_html(theme=SVG_EXPORT_THEME, inline_styles=True, code_format=_TERMINAL))
    page.locator("pre").screenshot(path=HERE / "demo.png")


def _text(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", markup)).strip()


if __name__ == "__main__":
    main()
