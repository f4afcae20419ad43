"""The tests of PostgreSQL need its driver."""

from __future__ import annotations

import pytest

pytest.importorskip("psycopg_pool")
