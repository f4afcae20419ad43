"""Which box stands above which: columns in an order with few crossings.

The layered drawing of Sugiyama, Tagawa and Toda ("Methods for visual understanding of
hierarchical system structures", 1981): a line over several columns gets an invisible place in
each column that it passes, so that it runs between the boxes there and not behind them; then
every column is sorted by where the neighbours of its boxes stand, and the best of several
rounds is kept. Passages keep the order of their ranks, and what is on no path to a passage
stands below what is. No chance is involved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, pairwise

from graphrag_core.query.drawing.network import Edge, Network

_ROUNDS = 8

Place = str | tuple[str, str, int]
"""A node's key, or the ends of a line and the column that it passes."""


@dataclass(slots=True)
class Layers:
    """Places column by column from above, and the places that each line runs through, from left to right.

    ``around`` are the places on no path.
    """

    columns: list[list[Place]]
    chains: list[tuple[Edge, list[Place]]]
    around: set[Place]
    neighbours: dict[Place, list[Place]] = field(default_factory=dict)


def layers(drawn: Network) -> Layers:
    """Return the order of a network's boxes."""
    columns: list[list[Place]] = [[] for _ in range(drawn.columns)]
    for node in drawn.nodes.values():
        columns[node.column].append(node.key)
    around: set[Place] = {node.key for node in drawn.nodes.values() if not node.hits}
    chains = []
    for edge in drawn.edges.values():
        ends = sorted((edge.source, edge.target), key=lambda key: drawn.nodes[key].column)
        first, last = (drawn.nodes[key].column for key in ends)
        passed: list[Place] = [(*ends, column) for column in range(first + 1, last)]  # type: ignore[misc]
        for place, column in zip(passed, range(first + 1, last), strict=True):
            columns[column].append(place)
        around.update(() if edge.hits else passed)
        chains.append((edge, [ends[0], *passed, ends[1]]))
    columns = [sorted(column, key=around.__contains__) for column in columns]
    ordered = Layers(columns, chains, around)
    for _, chain in chains:
        for left, right in pairwise(chain):
            ordered.neighbours.setdefault(left, []).append(right)
            ordered.neighbours.setdefault(right, []).append(left)
    ordered.columns = _untangled(ordered)
    return ordered


def _untangled(ordered: Layers) -> list[list[Place]]:
    columns = [list(column) for column in ordered.columns]
    best, fewest = columns, crossings(ordered, columns)
    for turn in range(_ROUNDS):
        columns = [list(column) for column in columns]
        inner = range(1, len(columns) - 1)
        for at in reversed(inner) if turn % 2 == 0 else inner:
            beside = columns[at + 1] if turn % 2 == 0 else columns[at - 1]
            columns[at] = _sorted(columns[at], beside, ordered)
        count = crossings(ordered, columns)
        if count < fewest:
            best, fewest = columns, count
    return best


def _sorted(column: list[Place], beside: list[Place], ordered: Layers) -> list[Place]:
    """Return a column sorted by the mean position of the neighbours; what has none keeps its position."""
    position = {place: at / len(beside) for at, place in enumerate(beside)}
    wanted = {}
    for at, place in enumerate(column):
        near = [position[other] for other in ordered.neighbours.get(place, ()) if other in position]
        wanted[place] = sum(near) / len(near) if near else at / len(column)
    return sorted(column, key=lambda place: (place in ordered.around, wanted[place]))


def crossings(ordered: Layers, columns: list[list[Place]]) -> int:
    """Return how many pairs of lines cross between neighbouring columns."""
    position = {place: (number, at) for number, column in enumerate(columns) for at, place in enumerate(column)}
    between: dict[int, list[tuple[int, int]]] = {}
    for _, chain in ordered.chains:
        for left, right in pairwise(chain):
            (number, a), (other, b) = position[left], position[right]
            if number != other:
                between.setdefault(number, []).append((a, b))
    return sum((a - c) * (b - d) < 0 for segments in between.values() for (a, b), (c, d) in combinations(segments, 2))
