"""A PostgreSQL server for the tests: one of their own, or the one of ``DATABASE_URL``."""

from __future__ import annotations

import os
import uuid

import pytest
from postgres_server import server

pytest.importorskip("psycopg_pool")


@pytest.fixture(scope="session")
def database():
    """The address of a database in which the tests create a schema of their own."""
    schema = f"schema=graphrag_test_{uuid.uuid4().hex[:8]}"
    if url := os.environ.get("DATABASE_URL"):
        yield f"{url}{'&' if '?' in url else '?'}{schema}"
        return
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
