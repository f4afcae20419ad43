"""Screenshots of the explain page and the graph explorer, light and dark: ``make screenshots`` writes them here."""

from __future__ import annotations

import tempfile
from pathlib import Path

from browser import chromium  # tests/browser.py

from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.demo import sample_documents
from graphrag_core.embedders import WordLlama
from graphrag_core.explore import Explorer, static_page

QUESTION = "What happens if we replace the vendor of the OAuth Provider?"
PASSAGES = 8
SELECTED = "Keyring"
ENTITY = "OAuth Provider"
WIDTH, HEIGHT, SCALE = 1240, 740, 1.25
HERE = Path(__file__).parent


def main() -> None:
    """Query the sample documents, open the page in light and dark mode, select a passage, and save screenshots."""
    with KnowledgeIndex(WordLlama()) as index, tempfile.TemporaryDirectory() as folder, chromium() as browser:
        if browser is None:
            raise SystemExit("no Chromium was found: 'make test-browser' installs one")
        index.add(sample_documents())
        file = Path(folder, "explain.html")
        retriever = GraphRetriever(index)
        retriever.retrieve(QUESTION, k=PASSAGES).show(file)
        explorer = Path(folder, "explore.html")
        explorer.write_text(static_page(Explorer(retriever), entity=ENTITY), "utf-8")
        for scheme in ("light", "dark"):
            page = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT},
                device_scale_factor=SCALE,
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            page.goto(file.as_uri())
            page.locator("#graph .passage", has_text=SELECTED).first.click()
            page.mouse.move(1, 1)
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=HERE / f"explain-{scheme}.png")
            page.goto(explorer.as_uri())
            page.wait_for_selector("body[data-state=ready]")
            page.locator(".chips a", has_text="Harbourlight").click()
            page.wait_for_selector("body[data-state=ready] h1 >> text=Harbourlight")
            page.click("#expand")
            page.wait_for_selector("#status >> text=/added/")
            page.mouse.move(1, 1)
            page.wait_for_timeout(500)
            page.screenshot(path=HERE / f"explore-{scheme}.png")


if __name__ == "__main__":
    main()
