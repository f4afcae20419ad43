"""What the core's tests share."""

from __future__ import annotations

import os

import browser as browsers
import pytest
from support import SERVICES

from graphrag_core import KnowledgeIndex
from graphrag_core.testing import HashEmbedder


@pytest.fixture
def index():
    with KnowledgeIndex(HashEmbedder()) as index:
        yield index


@pytest.fixture
def services(index):
    index.add(SERVICES)
    return index


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; tests that need one are skipped where there is none, but not in ``make test-browser``."""
    needed = "BROWSER_NEEDED" in os.environ
    if browsers.sync_playwright is None and not needed:
        pytest.skip("no Playwright: 'make test-browser' installs it")
    with browsers.chromium() as found:
        if found is None:
            assert not needed, "no Chromium was found"
            pytest.skip("no Chromium: 'make test-browser' installs one")
        yield found
