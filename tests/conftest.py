"""Fixtures of all test suites."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path

import browser as browsers
import pytest
from hypothesis import settings

from graphrag_core import KnowledgeIndex

os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")  # of Chroma
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
settings.register_profile("untimed", deadline=None)  # timing never decides a test
settings.load_profile("untimed")

collect_ignore = ["web_app.py"]  # opens an index when it is imported, as web servers do
SHARED = Path(os.environ.get("SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture
def shared() -> Path:
    """The folder with the retrieval datasets: beside the repository, or ``SHARED``."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the retrieval datasets are not beside the repository")
    return SHARED


@pytest.fixture(scope="session")
def database():
    """The address of a database in which the tests create a schema of their own: of ``DATABASE_URL``, or a new one."""
    pytest.importorskip("psycopg_pool")
    schema = f"schema=graphrag_test_{uuid.uuid4().hex[:8]}"
    if url := os.environ.get("DATABASE_URL"):
        yield f"{url}{'&' if '?' in url else '?'}{schema}"
        return
    from postgres_server import server

    with server() as url:
        yield f"{url.replace('+psycopg', '')}?{schema}"


@pytest.fixture
def url(database):
    """The address of a new index."""
    return f"{database}&index={uuid.uuid4().hex}"


@pytest.fixture
def urls(database):
    """Makes addresses of new indexes."""
    return lambda: f"{database}&index={uuid.uuid4().hex}"


@pytest.fixture(params=["embedded", "postgres"])
def open_index(request):
    """Makes new indexes, in memory and in PostgreSQL."""
    if request.param == "embedded":
        return KnowledgeIndex
    urls = request.getfixturevalue("urls")
    return lambda embedder=None, **options: KnowledgeIndex.open(urls(), embedder, **options)


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
