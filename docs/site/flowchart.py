"""Draws a Mermaid flowchart (``flowchart LR``: nodes, chains of arrows, ``<br>``) as an SVG.

Nodes stand in columns by the longest path to them. An arrow over several columns gets a free place in each column
between, so that it passes no box. The order within a column follows the mean place of the neighbours.
"""

from __future__ import annotations

import re
from html import escape, unescape
from itertools import pairwise
from textwrap import wrap

NODE = re.compile(r"\s*(\w+)\s*(?:\[([^\]]*)\]|\{([^}]*)\}|\(([^)]*)\))?\s*")
ACROSS, LINE, GAP, PLACE = 7.0, 17, 30, 18
"""Pixels: width of a character, height of a line, space between columns, space between boxes."""
CHARACTERS = 18
"""The longest line of a box; longer ones are wrapped."""


def draw(source: str) -> str:
    """Return the SVG of a flowchart, in one block of HTML without empty lines."""
    labels, edges = _parse(source)
    column = dict.fromkeys(labels, 0)
    for _ in labels:
        for start, end in edges:
            column[end] = max(column[end], column[start] + 1)
    routes = {edge: _route(edge, column) for edge in edges}
    columns: list[list[str]] = [[] for _ in range(max(column.values()) + 1)]
    for name in [*labels, *(name for route in routes.values() for name in route[1:-1])]:
        columns[column[name]].append(name)
    steps = [step for route in routes.values() for step in pairwise(route)]
    _order(columns, steps)

    lines = {name: _lines(labels.get(name, "")) for name in column}
    size = {
        name: (max(map(len, text)) * ACROSS + 18, len(text) * LINE + 18) if text else (0.0, 8.0)
        for name, text in lines.items()
    }
    heights = [sum(size[name][1] + PLACE for name in names) for names in columns]
    place: dict[str, tuple[float, float]] = {}
    left = 4.0
    for names, height in zip(columns, heights, strict=True):
        wide = max(size[name][0] for name in names)
        top = (max(heights) - height) / 2
        for name in names:
            place[name] = (left + wide / 2, top + (size[name][1] + PLACE) / 2)
            top += size[name][1] + PLACE
            if name not in labels:  # an arrow crosses the whole column here
                size[name] = (wide, size[name][1])
        left += wide + GAP
    body = [_arrow(route, place, size) for route in routes.values()]
    body += [_box(name, lines[name], place[name], size[name]) for name in labels]
    alternative = escape("; ".join(f"{_flat(labels[start])} to {_flat(labels[end])}" for start, end in edges))
    return (
        f'<div class="flowchart"><svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {left - GAP + 4:.0f} {max(heights):.0f}" width="{left - GAP + 4:.0f}">'
        f"<title>{alternative}</title>"
        '<defs><marker id="flow-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>' + "".join(body) + "</svg></div>"
    )


def _parse(source: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    labels: dict[str, str] = {}
    edges: list[tuple[str, str]] = []
    for line in source.strip().splitlines()[1:]:
        names = []
        for part in line.split("-->"):
            node = NODE.fullmatch(part)
            if node is None:
                raise ValueError(f"the site cannot draw this line of a Mermaid flowchart: {line.strip()}")
            label = next((text for text in node.groups()[1:] if text is not None), None)
            if label is not None or node[1] not in labels:
                labels[node[1]] = unescape(re.sub(r"<br ?/?>", "\n", (label or node[1]).strip('"')))
            names.append(node[1])
        edges += [edge for edge in pairwise(names) if edge not in edges]
    return labels, edges


def _lines(label: str) -> list[str]:
    """Return the lines of a box: as they are up to the first that is too long, and the rest filled again."""
    lines = label.split("\n") if label else []
    fits = next((index for index, line in enumerate(lines) if len(line) > CHARACTERS), len(lines))
    return [*lines[:fits], *wrap(" ".join(lines[fits:]), CHARACTERS)]


def _route(edge: tuple[str, str], column: dict[str, int]) -> list[str]:
    """Return the nodes of an edge, with one place for each column it crosses."""
    start, end = edge
    between = [f"{start}>{end}>{number}" for number in range(column[start] + 1, column[end])]
    column.update({name: column[start] + 1 + index for index, name in enumerate(between)})
    return [start, *between, end]


def _order(columns: list[list[str]], steps: list[tuple[str, str]]) -> None:
    for sweep in range(8):
        forward = sweep % 2 == 0
        for names in columns if forward else reversed(columns):
            rank = {name: index - (len(each) - 1) / 2 for each in columns for index, name in enumerate(each)}
            mean = {}
            for name in names:
                near = [a if forward else b for a, b in steps if (b if forward else a) == name]
                mean[name] = sum(rank[other] for other in near) / len(near) if near else rank[name]
            names.sort(key=mean.__getitem__)


def _arrow(route: list[str], place: dict[str, tuple[float, float]], size: dict[str, tuple[float, float]]) -> str:
    x, y = place[route[0]]
    x += size[route[0]][0] / 2
    path = f"M{x:.1f} {y:.1f}"
    for name in route[1:]:
        to_x, to_y = place[name][0] - size[name][0] / 2, place[name][1]
        middle = (x + to_x) / 2
        path += f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
        if name != route[-1]:
            x += size[name][0]
            path += f"H{x:.1f}"
    return f'<path class="flow-edge" d="{path}" marker-end="url(#flow-head)"/>'


def _box(name: str, lines: list[str], place: tuple[float, float], size: tuple[float, float]) -> str:
    (x, y), (width, height) = place, size
    first = y - (len(lines) - 1) * LINE / 2 + 4.5
    text = "".join(
        f'<text x="{x:.1f}" y="{first + index * LINE:.1f}">{escape(line)}</text>' for index, line in enumerate(lines)
    )
    return (
        f'<rect id="flow-{escape(name)}" x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="6"/>{text}'
    )


def _flat(label: str) -> str:
    return label.replace("\n", " ")
