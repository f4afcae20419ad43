"""The commands ``graph`` and ``export``: list, draw, edit and export the graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from graphrag_apps.cli import options, output
from graphrag_apps.cli.options import Filter, Json, Kb
from graphrag_core.graph import KnowledgeGraph
from graphrag_core.model import NO_RELATIONS, Community, Edit, Entity

graph = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List, draw and edit the graph.")
edit = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Edit the graph; list the edits, undo one.")
graph.add_typer(edit, name="edit")

_Limit = Annotated[int, Option("--limit", "-n", min=0, help="The maximum number; 0 for all.")]
_Name = Annotated[str, Argument(help="The name of an entity, in any case.")]


@graph.command()
def entities(
    prefix: Annotated[str, Argument(help="What the names begin with.")] = "",
    type: Annotated[str | None, Option(help="Only entities of this type.")] = None,  # noqa: A002 - of the option
    filter: Filter = None,  # noqa: A002 - as above
    limit: _Limit = 100,
    json: Json = False,
    kb: Kb = None,
) -> None:
    """List entities, the most mentioned first."""
    with options.open_index(kb, embeds=False) as index:
        found = index.graph.entities(prefix, type=type, limit=limit or None, where=options.parse_filter(filter))

    def show(one: Entity) -> str:
        aliases = f", also {', '.join(one.aliases)}" if one.aliases else ""
        return f"{one.name}{f' [{one.type}]' if one.type else ''}  ({one.mentions} passages{aliases})"

    output.listing(found, show, json=json)


@graph.command()
def relations(
    subject: Annotated[str | None, Option(help="Only facts about this entity.")] = None,
    relation: Annotated[str | None, Option(help="Only facts of this relation.")] = None,
    object: Annotated[str | None, Option(help="Only facts with this object.")] = None,  # noqa: A002
    filter: Filter = None,  # noqa: A002
    limit: _Limit = 100,
    json: Json = False,
    kb: Kb = None,
) -> None:
    """List facts that are triples: of an LLM, remembered, or added."""
    scope = options.parse_filter(filter)
    with options.open_index(kb, embeds=False) as index:
        found = index.graph.relations(subject, relation, object, limit=limit or None, where=scope)
        none = NO_RELATIONS if not found and not index.stats().relations else "no relation was found"
    output.listing(found, lambda fact: f"{fact.id}  {fact.text}  ({fact.relation})", json=json, none=none)


@graph.command()
def communities(filter: Filter = None, limit: _Limit = 20, json: Json = False, kb: Kb = None) -> None:  # noqa: A002
    """List the themes: groups of linked entities, the largest first."""
    with options.open_index(kb, embeds=False) as index:
        found = index.graph.communities(where=options.parse_filter(filter))[: limit or None]

    def show(one: Community) -> str:
        return f"{one.name}  {one.entities:,} entities" + (f": {', '.join(one.names[3:])}" if one.names[3:] else "")

    none = "no themes: they need entities that are linked by facts"
    output.listing(found, show, json=json, none=none)
    if not found:
        raise typer.Exit(1)


@graph.command()
def explore(
    question: Annotated[str | None, Option(help="A question to show first.")] = None,
    entity: Annotated[str | None, Option(help="The name of an entity to show first.")] = None,
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="The page to write.")] = Path("explore.html"),
    max_nodes: Annotated[int, Option(min=1, max=2_000, help="How many entities the page holds.")] = 150,
    filter: Filter = None,  # noqa: A002
    kb: Kb = None,
) -> None:
    """Write a part of the graph as one page to click through."""
    from graphrag_apps.explore import Explorer, static_page
    from graphrag_core.retriever import GraphRetriever

    scope = options.parse_filter(filter)
    with options.open_index(kb, embeds=question is not None) as index, output.working("writing the page"):
        explorer = Explorer(GraphRetriever(index, options.search_settings()))
        page = static_page(explorer, question=question, entity=entity, max_nodes=max_nodes, where=scope)
    output.write(out, page)


def export(
    file: Annotated[Path, Argument(metavar="FILE", help="The file to write: .graphml or .jsonl.")],
    filter: Filter = None,  # noqa: A002
    sentences: Annotated[bool, Option(help="Whether sentences are exported, besides relations.")] = True,
    kb: Kb = None,
) -> None:
    """Export entities and facts as GraphML or JSON Lines."""
    from graphrag_apps.export import export_graph

    scope = options.parse_filter(filter)
    with options.open_index(kb, embeds=False) as index:
        done = export_graph(index, file, where=scope, sentences=sentences)
    others = f" (and {done.other_nodes:,} numbers and documents that facts name)" if done.other_nodes else ""
    output.line(f"{done.entities:,} entities{others} and {done.facts:,} facts exported to {file}")


# -- edits


def _edited(kb: str | None, change: Callable[[KnowledgeGraph], Edit]) -> None:
    """Change the graph, and print the edit."""
    with options.open_index(kb, write=True) as index:
        made = change(index.graph)
    output.line(f"{made.number}  {made.text}")


@edit.command()
def rename(name: _Name, new_name: Annotated[str, Argument(help="Its new name.")], kb: Kb = None) -> None:
    """Give an entity another name."""
    _edited(kb, lambda graph: graph.rename(name, new_name))


@edit.command()
def merge(
    names: Annotated[list[str], Argument(metavar="NAME...", help="Names of entities.")],
    into: Annotated[str, Option(help="The name of all of them, which may be new.")],
    kb: Kb = None,
) -> None:
    """Treat several entities as one."""
    _edited(kb, lambda graph: graph.merge(names, into))


@edit.command()
def add(subject: str, relation: str, object: str, kb: Kb = None) -> None:  # noqa: A002
    """Add a relation between two entities, which may be new."""
    _edited(kb, lambda graph: graph.add_relation(subject, relation, object))


@edit.command()
def delete(
    target: Annotated[str, Argument(help="The name of an entity, or the id of a relation.")], kb: Kb = None
) -> None:
    """Delete an entity or a relation from the graph; documents stay as they are."""
    _edited(
        kb,
        lambda graph: graph.delete_relation(target) if graph.entity(target) is None else graph.delete_entity(target),
    )


@edit.command("list")
def list_edits(json: Json = False, kb: Kb = None) -> None:
    """List the edits that are in force."""
    with options.open_index(kb, embeds=False) as index:
        edits = index.graph.edits()
    output.listing(edits, str, json=json, none="the graph has no edits")


@edit.command()
def undo(number: Annotated[int, Argument(help="The number that list shows.")], kb: Kb = None) -> None:
    """Take back an edit."""
    with options.open_index(kb, write=True) as index:
        undone = index.graph.undo(number)
    output.line(f"undone: {undone.text}")
