"""Renders a report as one HTML page: tables with bars, and the questions that were won and lost.

The markup is a Jinja2 template with autoescaping. The page loads nothing from the network and has no script.
"""

from __future__ import annotations

from graphrag_apps.compare.compare import WITHOUT_GRAPH, Report, as_points
from graphrag_apps.page.templates import asset, digest, render

_MAX_SHOWN = 20  # wins, and losses


def page(report: Report) -> str:
    """Return a report as an HTML page. The same report gives the same page."""
    css = asset("graphrag_apps.compare", "colours.css", "base.css", "report.css")
    changed = report.changed() if report.is_paired else []
    return render(
        "graphrag_apps.compare",
        "report.html",
        title=f"Does the graph help? {len(report.answered)} questions",
        css=css,
        policy=f"default-src 'none'; style-src-elem {digest(css)}; img-src data:; base-uri 'none'; form-action 'none'",
        report=report,
        plain=WITHOUT_GRAPH,
        wins=[pair for pair in changed if pair[1] > 0][:_MAX_SHOWN],
        losses=[pair for pair in reversed(changed) if pair[1] < 0][:_MAX_SHOWN],
        points=as_points,
        percent=lambda value: f"{100 * value:.1f}",
    )
