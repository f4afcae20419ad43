"""Fixtures of all test suites."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture
def shared() -> Path:
    """The folder with the retrieval datasets, which lies beside the repository."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the retrieval datasets are not beside the repository")
    return SHARED
