"""What the core's tests share."""

from __future__ import annotations

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
