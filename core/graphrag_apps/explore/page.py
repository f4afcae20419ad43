"""The explorer's page: served with its files beside it, or written into one HTML file with a part of the graph.

Both forms have the same markup, style and scripts. The page loads nothing from other origins and has no inline script:
the server sends :data:`POLICY`, and the file allows the scripts and the style that it contains, by their hashes.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from markupsafe import Markup

from graphrag_apps.explore.explorer import Explorer
from graphrag_apps.page.templates import asset, policy, render
from graphrag_core import __version__
from graphrag_core.context.escape import for_html
from graphrag_core.errors import InputError, check_integer
from graphrag_core.filters import Where

_PACKAGE = "graphrag_apps.explore"
SCRIPTS = ("cytoscape.min.js", "source.js", "graph.js", "explore.js")
STYLES = ("colours.css", "base.css", "explore.css")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of the served page."""

_EXPORTED = 150  # entities of an export by default
_MOST_EXPORTED = 2_000


def server_page() -> str:
    """Return the page that a server shows under ``explore/``, with its files under ``explore/assets/``."""
    return render(
        _PACKAGE, "explore.html", title="Graph explorer", scripts=SCRIPTS, styles=STYLES, policy="", data=None,
        version=__version__,
    )  # fmt: skip


def static_page(
    explorer: Explorer,
    *,
    question: str | None = None,
    entity: str | None = None,
    max_nodes: int = _EXPORTED,
    where: Where | None = None,
) -> str:
    """Return one HTML page with a part of the graph, which works offline.

    It holds the start page, the answer to the question, and ``max_nodes`` entities with their first passages, facts
    and neighbours: first the entity and the entities of the question, then neighbours breadth-first, then the top
    entities. The same index gives the same page.

    Raises ``InputError`` if there is no such entity, or ``max_nodes`` is not from 1 to 2,000.
    """
    check_integer(max_nodes, "max_nodes", 1, _MOST_EXPORTED)
    data = _export(explorer, question, entity, max_nodes, where)
    shown = question or (data["entities"][data["start"]["value"]]["entity"]["name"] if entity is not None else "")
    style, scripts = asset(_PACKAGE, *STYLES), [asset(_PACKAGE, name) for name in SCRIPTS]
    # As data in a script element: "<" cannot close it. Also ids, which the page only compares with each other.
    text = for_html(json.dumps(data, ensure_ascii=False, separators=(",", ":"))).replace("<", "\\u003c")
    return render(
        _PACKAGE, "explore.html", title=f"{shown[:60]} - graph explorer" if shown else "Graph explorer",
        scripts=scripts, style=style, policy=policy(style, *scripts), data=Markup(text),  # noqa: S704 - escaped above
    )  # fmt: skip


def _export(
    explorer: Explorer, question: str | None, entity: str | None, max_nodes: int, where: Where | None
) -> dict[str, Any]:
    """Return the data of the static page: the answers that a server would give."""
    overview = explorer.overview(where)
    first, start, answers = _first(explorer, question, entity, where)
    top = [node["id"] for node in overview["graph"]["nodes"]]
    entities = _entities(partial(explorer.entity, where=where), first, top, max_nodes)
    ids = [community["id"] for community in overview["communities"]]
    communities = {community_id: explorer.community(community_id, where) for community_id in ids}
    whole = {**overview, "graph": dict(overview["graph"])}  # the explorer caches its overview
    graphs = [whole["graph"], *(answer["neighbours"] for answer in entities.values())]
    for graph in graphs:  # the graph of a community shows other entities too
        _keep_exported(graph, entities)
    edges = {(edge["source"], edge["target"]): edge for graph in graphs for edge in graph["edges"]}
    return {
        "start": start, "overview": whole, "entities": entities, "communities": communities, "questions": answers,
        "edges": list(edges.values()),
    }  # fmt: skip


def _first(
    explorer: Explorer, question: str | None, entity: str | None, where: Where | None
) -> tuple[list[str] | None, dict[str, str], dict[str, Any]]:
    """Return the entities that come first, or None; what the page shows first; and the answers to the question."""
    if entity is None and question is None:
        return None, {"kind": "overview", "value": ""}, {}
    first, start, answers = list[str](), {"kind": "question", "value": question or ""}, {}
    if entity is not None:
        node = explorer.entity(entity, where)["entity"]
        if node is None:
            raise InputError(f"there is no entity {entity!r}: list them with 'hybrid-graphrag graph entities'")
        first, start = [node["id"]], {"kind": "entity", "value": node["id"]}
    if question is not None:
        answers[question] = explorer.question(question, where)
        first += [node["id"] for node in answers[question]["network"]["nodes"] if node["id"] is not None]
    return first, start, answers


def _keep_exported(graph: dict[str, Any], entities: dict[str, Any]) -> None:
    graph["nodes"] = [node for node in graph["nodes"] if node["id"] in entities]
    graph["edges"] = [edge for edge in graph["edges"] if {edge["source"], edge["target"]} <= entities.keys()]


def _entities(
    read: Callable[[str], dict[str, Any]], first: list[str] | None, top: list[str], max_nodes: int
) -> dict[str, dict[str, Any]]:
    """Return the first entities with their neighbours, breadth-first, then top ones; with None top entities alone."""
    entities: dict[str, dict[str, Any]] = {}
    waiting = deque(first or ())
    while len(entities) < max_nodes and (waiting or top):
        name = waiting.popleft() if waiting else top.pop(0)
        answer: dict[str, Any] = {"entity": None} if name in entities else read(name)
        if answer["entity"] is not None:
            entities[answer["entity"]["id"]] = answer
            if first is not None:
                waiting.extend(node["id"] for node in answer["neighbours"]["nodes"])
    return entities
