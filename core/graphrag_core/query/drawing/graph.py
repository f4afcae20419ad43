"""The graph around an answer, as one SVG element that needs no script."""

from __future__ import annotations

from graphrag_core.query.drawing.answer import Answer
from graphrag_core.query.drawing.label import directed, right_to_left
from graphrag_core.query.drawing.layout import BADGE, FONT, LINE, PADDING, Box, Layout, layout
from graphrag_core.query.drawing.markup import Markup, tag, together
from graphrag_core.query.drawing.network import Edge, Network
from graphrag_core.query.drawing.route import Line, curve, halfway
from graphrag_core.query.drawing.words import found_by

_NO_PATH = "found without a path"
_MARK = 5


def graph(answer: Answer, drawn: Network, style: Markup | None = None) -> Markup:
    """Return the drawing. ``style`` is put inside, for a drawing that stands alone."""
    placed = layout(drawn)
    numbers = {box.node.key: number for number, box in enumerate(placed.boxes)}
    order = sorted(placed.lines, key=lambda line: (line.edge.kind != "words", bool(line.edge.hits)))
    facts = [line for line in order if line.edge.kind == "fact"]
    return tag(
        "svg",
        style or Markup(),
        tag("title", f"The graph around the answer to: {answer.question}") if style else "",
        *_headings(drawn, placed),
        tag("g", *(_line(line, numbers) for line in order), cls="lines", fill="none"),
        tag("g", *(_box(box, numbers, answer) for box in placed.boxes), cls="boxes"),
        tag("g", *(_mark(line, numbers) for line in facts), cls="marks"),
        xmlns="http://www.w3.org/2000/svg",
        cls=f"graph columns-{min(drawn.columns, 5)}",
        id="graph",
        role="group",
        aria_label="The graph around the answer: the question left, the passages right",
        viewBox=f"0 0 {placed.width:.0f} {placed.height:.0f}",
        width=placed.width,
        height=placed.height,
        font_size=FONT,
    )


def key(drawn: Network) -> Markup:
    """Return what each sort of line in a drawing means."""
    says = {"won": "the way to a passage", "around": "facts around it", "words": _NO_PATH}
    there = {"words" if edge.kind == "words" else _part(edge.hits) for edge in drawn.edges.values()}
    return tag("p", *(tag("span", tag("i", cls=sort), says[sort]) for sort in says if sort in there), cls="key")


def _headings(drawn: Network, placed: Layout) -> list[Markup]:
    kinds = {node.column: node.kind for node in reversed(drawn.nodes.values())}
    says = {"question": "Question", "named": "It names", "linked": "Linked by facts", "passage": "Passages"}
    words, before = [], ""
    for column, x in enumerate(placed.centres):
        word = says[kinds[column]]
        words.append(tag("text", "" if word == before else word, cls="heading", x=x, y=22, text_anchor="middle"))
        before = word
    return words


def _line(line: Line, numbers: dict[str, int]) -> Markup:
    return tag("path", **_of(line.edge, numbers), d=curve(line), cls=f"line {line.edge.kind} {_part(line.edge.hits)}")


def _mark(line: Line, numbers: dict[str, int]) -> Markup:
    """Return the sign on a line that a fact makes: what it says is told when it is pointed at."""
    x, y = halfway(line)
    said = "\n".join(line.edge.texts[:3]) or "linked"
    more = len(line.edge.texts) - 3
    tip = f"{said}\nand {more} more" if more > 0 else said
    return tag(
        "g",
        tag("title", tip),
        tag("circle", cls="reach", cx=x, cy=y, r=11),
        tag("path", d=f"M{x:.1f} {y - _MARK:.1f}l{_MARK} {_MARK}l-{_MARK} {_MARK}l-{_MARK} -{_MARK}z"),
        cls=f"mark {_part(line.edge.hits)}",
        **_of(line.edge, numbers),
        tabindex="0",
        role="button",
        aria_label=f"Fact: {tip}",
    )


def _box(box: Box, numbers: dict[str, int], answer: Answer) -> Markup:
    node, left, top = box.node, box.x - box.width / 2, box.y - box.height / 2
    radius = {"question": 10, "passage": 7}.get(node.kind, min(box.height / 2, 17))
    first = box.y - (len(box.lines) - 1) * LINE / 2 + FONT * 0.35
    tip, badge = node.tip, Markup()
    if node.kind == "passage":
        (rank,) = node.hits
        hit = answer.hits[rank - 1]
        tip = "\n".join(line for line in (tip, found_by(hit), "" if hit.path else _NO_PATH) if line)
        badge = together(
            [
                tag("circle", cls="badge", cx=left + 20, cy=box.y, r=11),
                tag("text", str(rank), cls="rank", x=left + 20, y=box.y + 4, text_anchor="middle", aria_hidden="true"),
            ]
        )
    return tag(
        "g",
        tag("title", tip),
        tag("rect", x=left, y=top, width=box.width, height=box.height, rx=radius),
        together([badge, *(_text(line, box, first + n * LINE) for n, line in enumerate(box.lines))], " "),
        cls=f"box {node.kind} {_part(node.hits)}",
        data_node=numbers[node.key],
        data_hits=" ".join(map(str, sorted(node.hits))),
        tabindex="0",
        role="button",
        aria_label=f"{_KINDS[node.kind]}: {tip}",
        aria_pressed="false" if node.kind == "passage" else None,
    )


def _text(line: str, box: Box, y: float) -> Markup:
    """Return a line of a label, in the middle or where its script begins. The box itself says its whole name aloud."""
    middle, left, right = box.x, box.x - box.width / 2 + BADGE + PADDING, box.x + box.width / 2 - PADDING
    x, anchor = middle, "middle"
    if box.node.kind == "passage":
        x, anchor = (right, "end") if right_to_left(line) else (left, "start")
    return tag("text", directed(line), x=x, y=y, text_anchor=anchor, aria_hidden="true")


_KINDS = {"question": "Question", "named": "Named in the question", "linked": "Linked", "passage": "Passage"}


def _of(edge: Edge, numbers: dict[str, int]) -> dict[str, str]:
    return {
        "data_ends": f"{numbers[edge.source]} {numbers[edge.target]}",
        "data_hits": " ".join(map(str, sorted(edge.hits))),
    }


def _part(hits: set[int]) -> str:
    return "won" if hits else "around"
