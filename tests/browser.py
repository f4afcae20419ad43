"""A real browser for the tests and the pictures: the Chromium of this machine, or Playwright's own.

Run as a program it says which one it is, and fails if there is none.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


if __name__ == "__main__":
    with sync_playwright() as found:
        sys.exit(None if find(found) else "no Chromium was found")
