"""A real browser for the tests and the pictures: the Chromium of this machine, or Playwright's own.

Run as a program it says which one it is, and fails if there is none.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    from playwright.sync_api import Browser, Playwright, sync_playwright
except ImportError:  # the tests that need it skip
    Browser = Playwright = sync_playwright = None

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find(playwright: Playwright) -> str | None:
    """Return where a Chromium is: what ``CHROMIUM`` says, Playwright's own, or one on the path."""
    own = playwright.chromium.executable_path
    named = (shutil.which(name) for name in _NAMES)
    return os.environ.get("CHROMIUM") or (own if Path(own).exists() else next(filter(None, named), None))


@contextmanager
def chromium() -> Iterator[Browser | None]:
    """Start a headless Chromium, or give None where there is none."""
    with sync_playwright() as playwright:
        path = find(playwright)
        if path is None:
            yield None
            return
        confined = [] if getattr(os, "geteuid", lambda: 1)() else ["--no-sandbox"]  # which root cannot have
        browser = playwright.chromium.launch(executable_path=path, args=["--disable-background-networking", *confined])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """An open page, what it said on the console, and what it asked of other origins."""

    page: Any
    said: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def all(self, selector: str, expression: str) -> list:
        """Return a value of each element of a selector."""
        return self.page.eval_on_selector_all(selector, f"all => all.map(e => {expression})")


@contextmanager
def visits(browser: Browser, kind: type[Visit] = Visit) -> Iterator[Callable[..., Any]]:
    """Give a function that opens pages of this machine; what they say and ask of others must be nothing at the end."""
    contexts, opened = [], []

    def visit(url: str | None = None, *, width: int = 1280, height: int = 800, **settings: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        seen = kind(page)
        opened.append(seen)
        page.on("console", lambda message: seen.said.append(message.text))
        page.on("pageerror", lambda error: seen.said.append(str(error)))
        page.on("dialog", lambda dialog: (seen.said.append(dialog.message), dialog.dismiss()))

        def guard(route: Any) -> None:
            is_ours = route.request.url.startswith(("http://127.0.0.1:", "file:", "data:", "about:"))
            if not is_ours:
                seen.outside.append(route.request.url)
            route.continue_() if is_ours else route.abort()

        context.route("**/*", guard)
        if url:
            page.goto(url)
        return seen

    yield visit
    for context in contexts:
        context.close()
    for seen in opened:
        assert (seen.outside, seen.said) == ([], [])


if __name__ == "__main__":
    with sync_playwright() as found:
        sys.exit(None if find(found) else "no Chromium was found")
