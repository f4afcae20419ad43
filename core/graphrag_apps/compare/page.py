"""Renders a report as one HTML page: tables with bars, and the questions that were won and lost.

The markup is a Jinja2 template with autoescaping. The page loads nothing from the network and has no script.
"""

from __future__ import annotations

from graphrag_apps.compare.compare import WITHOUT_GRAPH, Report, as_points
from graphrag_apps.page.templates import asset, digest, render

_MAX_SHOWN = 20  # wins, and losses
_MAX_FOUND = 10  # results of a method
_MAX_TEXT = 160  # characters of a quote


def page(report: Report) -> str:
    """Return a report as an HTML page. The same report gives the same page."""
    css = asset("graphrag_apps.compare", "colours.css", "base.css", "report.css")
    paired = bool(report.judged) and {"hybrid", WITHOUT_GRAPH} <= {*report.methods}
    return render(
        "graphrag_apps.compare",
        "report.html",
        title=f"Does the graph help? {len(report.answered)} questions",
        css=css,
        policy=f"default-src 'none'; style-src-elem {digest(css)}; img-src data:; base-uri 'none'; form-action 'none'",
        report=report,
        plain=WITHOUT_GRAPH,
        paired=paired,
        types=report.by_type() if paired else {},
        wins=report.won[:_MAX_SHOWN] if paired else [],
        losses=report.lost[:_MAX_SHOWN] if paired else [],
        sides=(WITHOUT_GRAPH, "hybrid"),
        max_found=_MAX_FOUND,
        max_text=_MAX_TEXT,
        points=as_points,
        percent=lambda value: f"{100 * value:.1f}",
    )
