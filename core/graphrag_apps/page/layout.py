"""Places the nodes and edges of a network, in pixels, with igraph's layered tree layout.

Every hit has one path, so the paths form a tree with the question as its root. The algorithm of Reingold and Tilford
(1981) keeps the order of branches: the best-ranked first. An edge that spans several columns has a vertex in each, so
that it runs between their boxes.
"""

from dataclasses import dataclass, field
from itertools import chain, pairwise

from graphrag_apps.page.labels import shorten, width, wrap
from graphrag_apps.page.network import Edge, Network, Node, NodeKind

FONT = 13
LINE_HEIGHT = 17
PADDING = 12
BADGE = 28  # width of a passage's rank, left of its name
_GAP = 14
_MAX_GAP = 30
_SMALL = 420  # drawings lower than this get wider gaps
_NOTE = 11  # font size of the note below a label
_NOTE_HEIGHT = 15
_LINK_ROOM = 68  # right of the passages, for links between them
_BEND = 10
_BETWEEN = 40
_MARGIN = 16
_HEADING = 30
# Maximum width and number of lines of a label.
_ROOM: dict[NodeKind, tuple[float, int]] = {
    "question": (70, 1), "named": (132, 2), "fact": (154, 4), "linked": (132, 2), "passage": (158, 2),
}  # fmt: skip

Point = tuple[float, float]


@dataclass(slots=True, eq=False)
class Place:
    """Where a box stands, or where an edge passes through a column; ``x`` and ``y`` are the centre."""

    column: int
    width: float = 0
    height: float = _BEND
    x: float = 0
    y: float = 0


@dataclass(slots=True, eq=False)
class Box(Place):
    """A placed node with the lines of its label."""

    node: Node = field(kw_only=True)
    label: list[str] = field(kw_only=True)
    note: str = field(kw_only=True, default="")

    @property
    def left(self) -> float:
        """The x of the left side."""
        return self.x - self.width / 2

    @property
    def text_x(self) -> float:
        """The x of the text: its start in a passage (after the badge), its middle elsewhere."""
        return self.left + BADGE + PADDING if self.node.kind == "passage" else self.x

    @property
    def lines(self) -> list[tuple[str, float]]:
        """The lines of the label, each with its y."""
        shift = _NOTE_HEIGHT / 2 if self.note else 0.0
        first = self.y - shift - (len(self.label) - 1) * LINE_HEIGHT / 2 + FONT * 0.35
        return [(line, first + number * LINE_HEIGHT) for number, line in enumerate(self.label)]


@dataclass(frozen=True, slots=True)
class Line:
    """A placed edge: its points, and whether it joins two boxes of one column."""

    edge: Edge
    points: tuple[Point, ...]
    same_column: bool = False

    @property
    def path(self) -> str:
        """The line as the data of an SVG path, horizontal at both ends."""
        start_x, start_y = self.points[0]
        curves = [f"M{start_x:.1f} {start_y:.1f}"]
        for (x, y), (next_x, next_y) in pairwise(self.points):
            control = self._bulge if self.same_column else (x + next_x) / 2
            curves.append(f"C{control:.1f} {y:.1f} {control:.1f} {next_y:.1f} {next_x:.1f} {next_y:.1f}")
        return "".join(curves)

    @property
    def middle(self) -> Point:
        """The middle of the first segment, where the mark of a fact is drawn."""
        (x, y), (next_x, next_y) = self.points[:2]
        middle_x = (x + 6 * self._bulge + next_x) / 8 if self.same_column else (x + next_x) / 2
        return middle_x, (y + next_y) / 2

    @property
    def _bulge(self) -> float:
        """The x of the control points of a line that leaves its column to the right and comes back."""
        (x, y), (next_x, next_y) = self.points
        most = 64.0 if self.edge.kind == "link" else 40.0
        return max(x, next_x) + 18 + min(most, abs(next_y - y) / 6)


@dataclass(frozen=True, slots=True)
class Layout:
    """The placed boxes and lines, the x of each column's centre, and the size of the drawing."""

    boxes: list[Box]
    lines: list[Line]
    centres: list[float]
    width: float
    height: float


def layout(network: Network) -> Layout:
    """Return a network with the question left and the passages right. The same network gives the same layout."""
    boxes = {key: _box(node) for key, node in network.nodes.items()}
    edges = list(network.edges.values())
    chains = [_chain(edge, boxes) for edge in edges]
    places = list(dict.fromkeys([*boxes.values(), *chain.from_iterable(chains)]))
    columns = [[place for place in places if place.column == column] for column in range(network.columns)]
    centres, right = _place_columns(columns)
    tallest = max((box.height for box in boxes.values() if box.column), default=0.0)
    gap = max(_GAP, min(_MAX_GAP, _SMALL / max(map(len, columns)) - tallest))
    _place_paths([pair for pair in zip(edges, chains, strict=True) if pair[0].kind != "link"], gap)
    bottom = _move_to_top(places)
    right += _LINK_ROOM if any(edge.kind == "link" for edge in edges) else _MARGIN
    return Layout(list(boxes.values()), list(map(_line, edges, chains)), centres, right, bottom + _MARGIN)


def _place_columns(columns: list[list[Place]]) -> tuple[list[float], float]:
    """Set the x of all places, and the width of edges that pass a column. Return the centres and the right side."""
    widths = [max(place.width for place in column) for column in columns]
    lefts = [_MARGIN + sum(widths[:at]) + at * _BETWEEN for at in range(len(columns))]
    centres = [left + span / 2 for left, span in zip(lefts, widths, strict=True)]
    for column, centre, span in zip(columns, centres, widths, strict=True):
        for place in column:
            place.x, place.width = centre, place.width or span
    return centres, lefts[-1] + widths[-1]


def _move_to_top(places: list[Place]) -> float:
    """Shift all places so that the highest is below the headings. Return the lowest y."""
    top = min(place.y - place.height / 2 for place in places) - _MARGIN - _HEADING
    for place in places:
        place.y -= top
    return max(place.y + place.height / 2 for place in places)


def _box(node: Node) -> Box:
    room, max_lines = _ROOM[node.kind]
    label = wrap(node.text, room / FONT, max_lines)
    text = room if node.kind in ("fact", "passage") else max(40.0, *(width(line) * FONT for line in label))
    badge = BADGE if node.kind == "passage" else 0
    note = shorten(node.note, room / _NOTE / 1.12) if node.note else ""  # it is bold
    size = text + 2 * PADDING + badge, len(label) * LINE_HEIGHT + 14.0 + (_NOTE_HEIGHT if note else 0)
    return Box(node.column, *size, node=node, label=label, note=note)


def _chain(edge: Edge, boxes: dict[str, Box]) -> list[Place]:
    """Return the boxes that an edge joins, from left to right, with a place in each column between them."""
    first, last = sorted((boxes[edge.source], boxes[edge.target]), key=lambda box: box.column)
    between = (Place(column) for column in range(first.column + 1, last.column))
    return [first, *between, last]


def _place_paths(chains: list[tuple[Edge, list[Place]]], gap: float) -> None:
    """Set the y of all places. Branches are in the order of the best rank in each."""
    chains = sorted(chains, key=lambda item: min(item[0].hits))
    placed = dict.fromkeys(chain.from_iterable(places for _, places in chains))
    numbers = {place: number for number, place in enumerate(placed)}
    if not numbers:
        return
    import igraph  # noqa: PLC0415 - imports matplotlib if that is installed, which takes long

    steps = [step for _, places in chains for step in pairwise(places) if step[0].column < step[1].column]
    graph = igraph.Graph(len(numbers), [(numbers[left], numbers[right]) for left, right in steps], directed=True)
    question = [place.column for place in numbers].index(0)
    tree = graph.layout_reingold_tilford(mode="out", root=[question])
    for place, (x, _) in zip(numbers, tree.coords, strict=True):
        place.y = x
    # igraph takes all boxes for equally high: scale its unit distance so that the highest neighbours fit.
    ordered = sorted(numbers, key=lambda place: (place.column, place.y))
    pitches = [
        ((above.height + below.height) / 2 + gap) / (below.y - above.y)
        for above, below in pairwise(ordered)
        if above.column == below.column
    ]
    pitch = max(pitches, default=0.0)
    for place in numbers:
        place.y *= pitch


def _line(edge: Edge, places: list[Place]) -> Line:
    start, *between, end = places
    leaves = (start.x + start.width / 2, start.y)
    if start.column == end.column:
        return Line(edge, (leaves, (end.x + end.width / 2, end.y)), same_column=True)
    passes = [(place.x + side * place.width / 2, place.y) for place in between for side in (-1, 1)]
    return Line(edge, (leaves, *passes, (end.x - end.width / 2, end.y)))
