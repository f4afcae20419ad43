"""How one question is to be answered."""

from __future__ import annotations

from dataclasses import dataclass

from graphrag_core.query.fuse import Fusion
from graphrag_core.query.gate import Gate
from graphrag_core.query.route import Channelled
from graphrag_core.query.strategy import GraphStrategy


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a retriever and of a call, as one.

    ``route`` says why an ``agentic`` retriever chose the method, ``fallback`` what has to be
    done without.
    """

    k: int
    method: Channelled
    use_graph: bool
    candidates: int
    strategy: GraphStrategy
    fusion: Fusion
    gate: Gate
    route: str = ""
    fallback: str = ""

    @property
    def wants_graph(self) -> bool:
        """Whether the graph is to be asked."""
        return self.use_graph and self.method in ("hybrid", "graph")
