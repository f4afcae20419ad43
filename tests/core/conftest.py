"""What the core's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import SERVICES

from graphrag_core import KnowledgeIndex
from graphrag_core.testing import HashEmbedder

SHARED = Path(__file__).parents[3] / "shared"


@pytest.fixture
def shared() -> Path:
    """The retrieval sets that lie beside the repository, where they do."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the retrieval sets are not beside the repository")
    return SHARED


@pytest.fixture
def index():
    with KnowledgeIndex(HashEmbedder()) as index:
        yield index


@pytest.fixture
def services(index):
    index.add(SERVICES)
    return index
