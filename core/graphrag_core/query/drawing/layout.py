"""Where everything stands, in pixels: the same answer is always drawn the same."""

from __future__ import annotations

from dataclasses import dataclass

from graphrag_core.query.drawing.label import width, wrap
from graphrag_core.query.drawing.layers import Layers, Place, layers
from graphrag_core.query.drawing.network import Edge, Network, Node, NodeKind
from graphrag_core.query.drawing.route import Line

FONT = 13
LINE = 17
PADDING = 12
BADGE = 28
"""The room that a passage's rank takes at its left."""

_GAP = 14
_ROOMY = 420
"""Up to this height few boxes are spread, so that their lines can be told apart."""

_WIDEST_GAP = 30
_PASSED = 10
_BETWEEN = 76
_MARGIN = 16
_HEADING = 30
_ROUNDS = 24
_LIGHT = 0.0001
"""How little what is on no path moves what is."""

_ROOM: dict[NodeKind, tuple[float, int]] = {
    "question": (136, 7),
    "named": (132, 2),
    "linked": (132, 2),
    "passage": (158, 2),
}
"""How wide the text of a box may be, and in how many lines it is broken."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node in its place; ``x`` and ``y`` are its middle."""

    node: Node
    lines: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole drawing. ``centres`` are the columns' middles."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    centres: tuple[float, ...]
    width: float
    height: float


def layout(drawn: Network) -> Layout:
    """Return a network with every box and line in its place, the question left and the passages right."""
    ordered = layers(drawn)
    sizes = {key: _size(node) for key, node in drawn.nodes.items()}
    spans = [max((sizes[p][1] for p in column if isinstance(p, str)), default=0.0) for column in ordered.columns]
    lefts = [float(_MARGIN)]
    for span in spans:
        lefts.append(lefts[-1] + span + _BETWEEN)
    centres = [left + span / 2 for left, span in zip(lefts, spans, strict=False)]
    heights: dict[Place, float] = {p: float(_PASSED) for column in ordered.columns for p in column}
    heights |= {key: size[2] for key, size in sizes.items()}
    middles, height = _middles(ordered, heights)
    boxes = {
        key: Box(node, sizes[key][0], centres[node.column], middles[key], sizes[key][1], sizes[key][2])
        for key, node in drawn.nodes.items()
    }
    edges = [(left, left + span) for left, span in zip(lefts, spans, strict=False)]
    lines = tuple(_line(edge, chain, boxes, middles, edges) for edge, chain in ordered.chains)
    return Layout(tuple(boxes.values()), lines, tuple(centres), lefts[-1] - _BETWEEN + _MARGIN, height)


def _size(node: Node) -> tuple[tuple[str, ...], float, float]:
    """Return the lines of a box, and how wide and high it is."""
    room, most = _ROOM[node.kind]
    lines = tuple(wrap(node.text, room / FONT, most))
    text = room if node.kind in ("question", "passage") else max(40.0, *(width(line) * FONT for line in lines))
    badge = BADGE if node.kind == "passage" else 0
    return lines, text + 2 * PADDING + badge, len(lines) * LINE + 14


def _middles(ordered: Layers, heights: dict[Place, float]) -> tuple[dict[Place, float], float]:
    """Return each place's height on the page, as near to its neighbours as the order allows."""
    full = [(sum(heights[p] for p in column), len(column) - 1) for column in ordered.columns]
    gap = max(_GAP, min([_WIDEST_GAP, *((_ROOMY - filled) / gaps for filled, gaps in full if gaps)]))
    needed = [filled + gap * gaps for filled, gaps in full]
    tallest = max(needed)
    middles: dict[Place, float] = {}
    for column, need in zip(ordered.columns, needed, strict=True):
        free = (tallest - need) / (len(column) + 1)
        top = free
        for place in column:
            middles[place] = top + heights[place] / 2
            top += heights[place] + gap + free
    passages = len(ordered.columns) - 1
    for turn in range(_ROUNDS):
        inner = range(passages)
        for at in reversed(inner) if turn % 2 == 0 else inner:
            column = ordered.columns[at]
            wanted = [_wanted(place, ordered, middles) for place in column]
            weights = [_LIGHT if place in ordered.around else 1.0 for place in column]
            placed = spread(wanted, [heights[place] for place in column], gap, weights)
            middles.update(zip(column, placed, strict=True))
    top = min(middles[p] - heights[p] / 2 for p in middles)
    bottom = max(middles[p] + heights[p] / 2 for p in middles)
    shifted = {place: middle - top + _MARGIN + _HEADING for place, middle in middles.items()}
    return shifted, bottom - top + 2 * _MARGIN + _HEADING


def _wanted(place: Place, ordered: Layers, middles: dict[Place, float]) -> float:
    """Return where a place would stand best: amid its neighbours, of which those on a path count before others."""
    near = ordered.neighbours.get(place, [])
    near = [other for other in near if other not in ordered.around] or near
    return sum(middles[other] for other in near) / len(near) if near else middles[place]


def spread(wanted: list[float], heights: list[float], gap: float, weights: list[float]) -> list[float]:
    """Return middles in the given order, ``gap`` apart, whose weighted squared distances from the wanted are least.

    What stands too near is put together into a block that moves to its mean (the
    pool-adjacent-violators algorithm).

    >>> spread([10, 10, 50], [20, 20, 20], 0, [1, 1, 1])
    [0.0, 20.0, 50.0]
    """
    offsets, top = [], 0.0
    for height in heights:
        offsets.append(top + height / 2)
        top += height + gap
    blocks: list[tuple[float, float, int]] = []
    for want, offset, weight in zip(wanted, offsets, weights, strict=True):
        block = (want - offset, weight, 1)
        while blocks and blocks[-1][0] > block[0]:
            before, block_before, count = blocks.pop()
            weight_of_both = block_before + block[1]
            mean = (before * block_before + block[0] * block[1]) / weight_of_both
            block = (mean, weight_of_both, count + block[2])
        blocks.append(block)
    starts = [mean for mean, _, count in blocks for _ in range(count)]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]


def _line(
    edge: Edge,
    chain: list[Place],
    boxes: dict[str, Box],
    middles: dict[Place, float],
    edges: list[tuple[float, float]],
) -> Line:
    start, end = boxes[str(chain[0])], boxes[str(chain[-1])]
    if start.node.column == end.node.column:
        points = [(box.x + box.width / 2, box.y) for box in (start, end)]
        return Line(edge, tuple(points), bow=True)
    points = [(start.x + start.width / 2, start.y)]
    for place in chain[1:-1]:
        points += [(edges[int(place[2])][0], middles[place]), (edges[int(place[2])][1], middles[place])]
    return Line(edge, (*points, (end.x - end.width / 2, end.y)))
