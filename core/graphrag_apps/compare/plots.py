"""Plots of a report as SVG, drawn with matplotlib. Colours are CSS variables and follow light and dark mode."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphrag_apps.compare.bootstrap import Interval
from graphrag_apps.compare.compare import WITHOUT_GRAPH, Report
from graphrag_apps.compare.measures import Recall
from graphrag_core.context.escape import for_html

# Colours that stand for CSS variables until the SVG is written.
_NAMES = "text text-soft border accent vector keyword other link surface".split()
_VARIABLES = {f"#0a{number:04}": f"--{name}" for number, name in enumerate(_NAMES, 1)}
_TEXT, _SOFT, _BORDER, _ACCENT, _VECTOR, _KEYWORD, _OTHER, _LINK, _SURFACE = _VARIABLES
_COLOURS = {"hybrid": _ACCENT, "vector": _VECTOR, "keyword": _KEYWORD, WITHOUT_GRAPH: _TEXT, "graph": _LINK}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10,
    "axes.edgecolor": _BORDER,
    "axes.labelcolor": _SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": _TEXT,
    "xtick.color": _BORDER,
    "ytick.color": _BORDER,
    "xtick.labelcolor": _SOFT,
    "ytick.labelcolor": _TEXT,
    "grid.color": _BORDER,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
_WIDTH = 5.6  # inches
_MAX_LABEL = 30  # characters
_MAX_TYPES = 12


def plots(report: Report) -> dict[str, str] | None:
    """Return the plots of a report by name; None if matplotlib is not installed (extra ``plots``)."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - optional
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    drawn: dict[str, tuple[Callable[[Any, Report], None], float, float]] = {}
    methods = 0.34 * len(report.methods) + 0.8
    if report.judged:
        drawn["scores"] = _scores, _WIDTH, methods
        drawn["curve"] = _curve, _WIDTH, 2.9
        if {"hybrid", WITHOUT_GRAPH} <= {*report.methods}:
            rows = len(report.measures) + min(len(report.by_type()), _MAX_TYPES)
            drawn["differences"] = _differences, _WIDTH, 0.34 * rows + 0.8
            if report.changed():
                drawn["questions"] = _questions, 2 * _WIDTH, 2.4
    if any(answer.milliseconds for answer in report.answered):
        drawn["latency"] = _latency, _WIDTH, methods
    themed = {}
    for name, (draw, width, height) in drawn.items():
        with mpl.rc_context({**_STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as a font without the characters of a label: the browser has others
            figure = Figure(figsize=(width, height), layout="constrained")
            draw(figure.add_subplot(), report)
            file = io.StringIO()
            figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        themed[name] = _themed(name, file.getvalue())
    return themed


def _themed(name: str, svg: str) -> str:
    """Return the SVG element alone, with CSS variables for colours and ids that no other plot has."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<(metadata|style)\b[^>]*>.*?</\1>", "", element, flags=re.DOTALL)  # the page has the style
    element = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", element, count=1)
    element = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", element, count=1)
    element = re.sub(r'( id="|url\(#|href="#)', rf"\1{name}-", element)
    for colour, variable in _VARIABLES.items():
        element = element.replace(colour, f"var({variable})")
    return element


def _label(text: str) -> str:
    shown = " ".join(for_html(text).split())
    return shown if len(shown) <= _MAX_LABEL else f"{shown[: _MAX_LABEL - 1]}…"


def _colour(method: str) -> str:
    return _COLOURS.get(method, _OTHER)


def _rows(axes: Any, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), [_label(label) for label in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="both", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", linewidth=0.7)
    axes.set_axisbelow(True)


def _whisker(axes: Any, row: int, value: float, interval: Interval, colour: str) -> None:
    axes.plot([100 * interval.low, 100 * interval.high], [row, row], color=colour, linewidth=2.2, alpha=0.55)
    axes.plot([100 * value], [row], "o", color=colour, markersize=6.5)


def _scores(axes: Any, report: Report) -> None:
    """Draw the first measure of each method with its interval."""
    measure = report.measures[0]
    _rows(axes, report.methods)
    for row, method in enumerate(report.methods):
        mean = report.mean(method, measure)
        _whisker(axes, row, mean.value, mean.interval, _colour(method))
    axes.set_xlim(0, 103)
    axes.set_xlabel(f"{measure} in percent, 95 % interval")


def _curve(axes: Any, report: Report) -> None:
    """Draw recall by the number of results."""
    depth, ranks = report.depth, range(1, report.depth + 1)
    ends = []
    for method in report.methods:
        values = [100 * float(np.mean(report.values(method, Recall(k)))) for k in ranks]
        width = 2.4 if method in ("hybrid", WITHOUT_GRAPH) else 1.4
        axes.plot(ranks, values, "o-" if depth < 30 else "-", color=_colour(method), linewidth=width, markersize=3.5)
        ends.append((values[-1], method))
    place = -np.inf
    for value, method in sorted(ends):  # labels at the end of the lines, apart from each other
        place = max(value, place + 6.5)
        axes.annotate(
            _label(method),
            (depth, place),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=_colour(method),
        )
    axes.set_xlabel("k, the number of results that count")
    axes.set_ylabel("recall@k in percent")
    axes.tick_params(length=0)
    axes.set_xticks(list(ranks) if depth <= 12 else [1, *range(5, depth + 1, 5)])
    axes.set_ylim(0, max(102, place + 3))
    axes.set_yticks(range(0, 101, 20))
    axes.grid(axis="y", linewidth=0.7)
    axes.set_axisbelow(True)


def _differences(axes: Any, report: Report) -> None:
    """Draw the paired difference to search without the graph, for each measure and for each type of question."""
    rows = [(str(measure), report.difference(measure)) for measure in report.measures]
    first = report.measures[0]
    kinds = list(report.by_type().items())[:_MAX_TYPES]
    rows += [(f"{kind} ({len(part.judged)})", part.difference(first)) for kind, part in kinds]
    _rows(axes, [label for label, _ in rows])
    axes.axvline(0, color=_SOFT, linewidth=1.2)
    for row, (_, difference) in enumerate(rows):
        _whisker(axes, row, difference.value, difference.interval, _ACCENT if difference.significant else _OTHER)
    if kinds:
        axes.axhline(len(report.measures) - 0.5, color=_BORDER, linewidth=1)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -2), max(high, 2))
    axes.set_xlabel("hybrid minus vector+keyword in points; grey: may be chance")


def _questions(axes: Any, report: Report) -> None:
    """Draw the difference of every question, sorted."""
    gains = np.array(sorted((100 * gain for gain in report.gains()), reverse=True))
    places = np.arange(1, len(gains) + 1)
    for side, colour in ((gains > 0, _ACCENT), (gains < 0, _VECTOR)):
        if side.any():
            axes.bar(places[side], gains[side], width=0.8, color=colour)
    axes.axhline(0, color=_SOFT, linewidth=1.2)
    axes.set_xlim(0.2, len(gains) + 0.8)
    axes.set_ylim(min(gains.min(), -5) * 1.1, max(gains.max(), 5) * 1.1)
    axes.set_xlabel(f"questions: {int((gains > 0).sum())} better, {int((gains < 0).sum())} worse, of {len(gains)}")
    axes.set_ylabel(f"{report.measures[0]}, points")
    axes.tick_params(length=0)
    axes.grid(axis="y", linewidth=0.7)
    axes.set_axisbelow(True)


def _latency(axes: Any, report: Report) -> None:
    """Draw the median of each method and a line to the 95th percentile."""
    timed = [(method, latency) for method in report.methods if (latency := report.latency(method))]
    _rows(axes, [method for method, _ in timed])
    for row, (method, latency) in enumerate(timed):
        axes.plot([latency.p50, latency.p95], [row, row], color=_colour(method), linewidth=2.2, alpha=0.55)
        axes.plot([latency.p50], [row], "o", color=_colour(method), markersize=6.5)
        axes.plot([latency.p95], [row], "|", color=_colour(method), markersize=9, markeredgewidth=2)
    axes.set_xlim(left=0)
    axes.set_xlabel("milliseconds: median, and 95th percentile")
