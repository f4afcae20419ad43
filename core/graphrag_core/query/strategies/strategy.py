"""``GraphStrategy``: the interface of graph strategies, with their defaults."""

from __future__ import annotations

from abc import ABC, abstractmethod

from graphrag_core.ports import Ranking
from graphrag_core.query.fusion import Fusion, Gate, ReciprocalRank
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.reranker import Reranker


class GraphStrategy(ABC):
    """How the graph is searched. A subclass is a frozen dataclass whose fields are its settings.

    Attributes
    ----------
    fusion
        Joins its ranking with plain search, unless the settings have another one.
    reranker
        Orders the passages, if the settings have the default reranker and fusion; None for none.
    gate, recogniser
        Apply unless the settings have others; None for the defaults.
    applies_min_graph_score
        Whether :meth:`expand` leaves out what is weaker than ``min_graph_score`` of the gate. Otherwise the pipeline
        does, by the strengths of stated relations.
    """

    fusion: Fusion = ReciprocalRank()
    reranker: Reranker | None = None
    gate: Gate | None = None
    recogniser: Recogniser | None = None
    applies_min_graph_score: bool = False

    @abstractmethod
    def expand(self, query: Query, text_ranking: Ranking, k: int) -> Expansion:
        """Return the chunks that the graph leads to from a question; nothing for an empty graph.

        ``text_ranking`` is the blended ranking of vector and keyword search; the caller wants at least ``k`` chunks.
        """
