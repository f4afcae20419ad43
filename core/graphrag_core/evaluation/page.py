"""Renders a report as one HTML page: tables, plots, and the questions that were won and lost.

The markup is a Jinja2 template with autoescaping. The page loads nothing from the network and has no script.
"""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from graphrag_core.evaluation.compare import WITHOUT_GRAPH, Answered, Difference, Report
from graphrag_core.evaluation.plots import plots
from graphrag_core.explain.templates import asset, digest, render

_MAX_SHOWN = 20  # wins, and losses
_MAX_FOUND = 10  # results of a method
_MAX_TEXT = 160  # characters of a quote


def page(report: Report) -> str:
    """Return a report as an HTML page. The same report gives the same page."""
    css = asset("graphrag_core.explain", "graph.css") + asset("graphrag_core.evaluation", "report.css")
    paired = bool(report.judged) and {"hybrid", WITHOUT_GRAPH} <= {*report.methods}
    changed = report.changed() if paired else []
    drawn = plots(report)
    return render(
        "graphrag_core.evaluation",
        "report.html",
        css=css,
        # The plots have style attributes. No text of a question or document gets into one.
        policy=f"default-src 'none'; style-src-elem {digest(css)}; style-src-attr 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        report=report,
        drawn={name: Markup(svg) for name, svg in (drawn or {}).items()},  # noqa: S704 - escaped by matplotlib
        has_plots=drawn is not None,
        plain=WITHOUT_GRAPH,
        paired=paired,
        types=report.by_type() if paired else {},
        wins=[_changed_question(answer, gain) for answer, gain in changed if gain > 0][:_MAX_SHOWN],
        losses=[_changed_question(answer, gain) for answer, gain in reversed(changed) if gain < 0][:_MAX_SHOWN],
        percent=_percent,
        points=_points,
        interval=_interval,
        state=_state,
        max_shown=_MAX_SHOWN,
    )


def _changed_question(answer: Answered, gain: float) -> dict[str, Any]:
    """Return what the page shows of a question: its gold, and what both methods found."""
    sides = []
    for method in (WITHOUT_GRAPH, "hybrid"):
        judged = answer.judgement(method).found
        rows = [
            (answer.titles.get(one, ""), one, bool(judged[place]) if place < len(judged) else False)
            for place, one in enumerate(answer.found[method][:_MAX_FOUND])
        ]
        sides.append((method, rows))
    gold = [(answer.titles.get(one, ""), one[:_MAX_TEXT]) for one in answer.items]
    return {"question": answer.question, "gain": gain, "sides": sides, "gold": gold}


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _points(value: float) -> str:
    return f"{100 * value + 0.0:+.1f}"


def _interval(interval: tuple[float, float], sign: str = "") -> str:
    low, high = (100 * value + 0.0 for value in interval)
    return f"{low:{sign}.1f} to {high:{sign}.1f}"


def _state(difference: Difference) -> str:
    """Return whether a difference is an improvement, a loss, or may be chance."""
    return "" if not difference.significant else "good" if difference.value > 0 else "bad"
