"""Fixtures of all test suites."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

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
