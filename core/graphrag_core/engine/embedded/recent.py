"""What questions have read of one generation: the same passages answer many questions, and filters are repeated."""

from collections.abc import Callable, Hashable

import numpy as np

from graphrag_core.engine.graph.memory import GraphView, MemoryGraph
from graphrag_core.engine.graph.sparse import Flags
from graphrag_core.engine.rows import Row
from graphrag_core.engine.store import RecentRows
from graphrag_core.model import Entity

_MOST_VIEWS = 16


class View:
    """What questions with the same scope share.

    Attributes
    ----------
    graph
        The graph of the chunks in scope.
    seen, visible
        Which chunks are in scope, by number; and which chunks, facts and names are, by key, as far as that was needed.
        None and empty if all are.
    unknown_keys
        The keys of the filter that no document has.
    entities
        Entities as the documents in scope describe them.
    """

    def __init__(self, graph: MemoryGraph, seen: Flags | None = None, unknown_keys: tuple[str, ...] = ()) -> None:
        self.graph, self.seen, self.unknown_keys = GraphView(graph, seen), seen, unknown_keys
        self.chunk_count = len(graph) - graph.removed if seen is None else int(np.count_nonzero(seen))
        self.visible: dict[str, Flags] = {}
        self.entities = RecentRows[Entity]()


class Recent:
    """What questions have read of one generation.

    Of each chunk: its row, its first words and its packed terms. Of the last scopes: their views.
    """

    def __init__(self) -> None:
        self._views: dict[Hashable, View] = {}
        self.chunks = RecentRows[Row]()
        self.openings = RecentRows[str]()
        self.terms = RecentRows[tuple[bytes, bytes, bytes]]()

    def view(self, scope: Hashable, make: Callable[[], View]) -> View:
        """Return the view of a scope; ``make`` creates it if no question had this scope before."""
        if (view := self._views.get(scope)) is None:
            view = make()
            if len(self._views) >= _MOST_VIEWS:
                self._views = {}
            self._views[scope] = view
        return view
