"""The PostgreSQL engine fulfils what every engine must."""

from __future__ import annotations

import pytest
from engine_suite import EngineSuite

from graphrag_core.engine.postgres import PostgresEngine


class TestPostgresEngine(EngineSuite):
    @pytest.fixture(autouse=True)
    def _use(self, urls):
        self.urls, self.made = urls, []
        yield
        for engine in self.made:
            engine.close()

    def make(self) -> PostgresEngine:
        self.made.append(PostgresEngine(self.urls()))
        return self.made[-1]
