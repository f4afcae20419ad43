"""The group ``graph``: list entities and relations, show communities, draw the graph, and edit it; and ``export``."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from graphrag_apps.cli import options, render
from graphrag_apps.cli.options import KB, Json, Kb, Limit, Quiet, Where
from graphrag_apps.explore import Explorer, static_page
from graphrag_apps.export import export_graph
from graphrag_core import Edit, Entity, Fact, KnowledgeIndex
from graphrag_core.errors import GraphRAGError
from graphrag_core.model import NO_RELATIONS

_Name = Annotated[str, Argument(help="The entity, in any spelling or case.")]

graph = typer.Typer(no_args_is_help=True, help="List, show and edit entities and relations.")


@graph.command()
def entities(
    prefix: Annotated[str, Argument(help="What a name begins with.")] = "",
    kb: Kb = KB,
    type: Annotated[str | None, Option(help="Only entities of this type.")] = None,  # noqa: A002
    contains: Annotated[str, Option(help="Only entities whose name contains this.")] = "",
    min_degree: Annotated[int, Option(min=0, help="Only entities that share facts with at least N others.")] = 0,
    where: Where = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List entities, the most mentioned first. Numbers, such as years, are not listed."""
    scope, most = options.parse_where(where), limit or None
    with options.open_index(kb, embeds=False) as index, render.working("listing entities"):
        listed = index.graph.entities(
            prefix, type=type, contains=contains, min_degree=min_degree, where=scope, limit=most
        )

    def line(entity: Entity) -> str:
        passages = f"{entity.mentions:,} passage{'' if entity.mentions == 1 else 's'}"
        notes = [entity.type, passages, *(f"also {alias}" for alias in entity.aliases)]
        return f"{entity.name}  ({', '.join(filter(None, notes))})"

    render.print_list(listed, line, as_json=json, none="no entity was found")


@graph.command()
def relations(
    subject: Annotated[str | None, Option(help="Only relations of this subject.")] = None,
    relation: Annotated[str | None, Option(help="Only this relation.")] = None,
    object: Annotated[str | None, Option(help="Only relations to this object.")] = None,  # noqa: A002
    contains: Annotated[str, Option(help="Only relations whose text contains this.")] = "",
    where: Where = None,
    kb: Kb = KB,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List relations: facts with a subject, a relation and an object. Links between sections: --relation refers_to."""
    scope, most = options.parse_where(where), limit or None
    with options.open_index(kb, embeds=False) as index, render.working("listing relations"):
        listed = index.graph.relations(subject, relation, object, contains=contains, where=scope, limit=most)
        none = "no relation was found" if listed or index.graph.relations(limit=1) else NO_RELATIONS

    def line(fact: Fact) -> str:
        return f"{fact.id}  {' '.join(fact.text.split())}  ({fact.relation})"

    render.print_list(listed, line, as_json=json, none=none)


@graph.command()
def communities(
    kb: Kb = KB,
    limit: Limit = 20,
    where: Where = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show the themes of the collection: communities of entities, and their names."""
    scope = options.parse_where(where)
    with options.open_index(kb, embeds=False) as index, render.working("finding communities", show=not quiet):
        themes = index.graph.communities(where=scope)
    listed = themes[: limit or None]
    if json:
        render.print_json(listed)
        return
    render.print_communities(listed)
    if len(themes) > len(listed):
        render.print_line((f"… and {len(themes) - len(listed):,} more", "quiet"))
    if not themes:
        raise GraphRAGError("no themes: the documents name too few entities")


@graph.command()
def explore(
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="The page to write.")] = Path("explore.html"),
    question: Annotated[str | None, Option("--question", "-q", help="Show the answer to this question.")] = None,
    entity: Annotated[
        str | None, Option("--entity", "-e", metavar="NAME", help="Show this entity and its neighbours.")
    ] = None,
    max_nodes: Annotated[int, Option(min=1, max=2_000, help="How many entities the page holds.")] = 150,
    kb: Kb = KB,
    where: Where = None,
) -> None:
    """Write the graph explorer as one HTML page: a part of the graph, to search and click through, which works offline.

    Without a question or an entity it starts with the communities and the most mentioned entities. serve shows the
    whole graph.
    """
    scope = options.parse_where(where)
    with options.open_index(kb, embeds=question is not None) as index, render.working("drawing the graph"):
        explorer = Explorer(options.make_retriever(index, {}))
        page = static_page(explorer, question=question, entity=entity, max_nodes=max_nodes, where=scope)
    render.write_page(out, page)


def export(
    path: Annotated[str, Argument(metavar="FILE", help="A file ending in .graphml or .jsonl.")],
    kb: Kb = KB,
    where: Where = None,
    sentences: Annotated[bool, Option(help="Whether sentences that link entities are exported too.")] = True,
) -> None:
    """Export entities and facts as GraphML (Gephi, igraph, networkx) or JSON Lines."""
    scope = options.parse_where(where)
    with options.open_index(kb, embeds=False) as index, render.working("exporting"):
        done = export_graph(index, path, where=scope, sentences=sentences)
    others = f" (and {done.other_nodes:,} numbers and documents that facts name)" if done.other_nodes else ""
    render.print_line(f"{done.entities:,} entities{others} and {done.facts:,} facts exported to {done.path}")


edit = typer.Typer(no_args_is_help=True, help="Change entities and relations; every edit can be undone.")
graph.add_typer(edit, name="edit")


@edit.command()
def rename(name: _Name, new_name: Annotated[str, Argument(help="Its new name.")], kb: Kb = KB) -> None:
    """Rename an entity. Questions with the old name find it too."""
    _edit(kb, lambda index: index.graph.rename(name, new_name))


@edit.command()
def merge(
    names: Annotated[list[str], Argument(metavar="NAME...", help="The entities.")],
    into: Annotated[str, Option(help="The name of the one that they become.")],
    kb: Kb = KB,
) -> None:
    """Treat several entities as one."""
    _edit(kb, lambda index: index.graph.merge(names, into))


@edit.command()
def add(subject: str, relation: str, object: str, kb: Kb = KB) -> None:  # noqa: A002
    """Add a relation between two entities."""
    _edit(kb, lambda index: index.graph.add_relation(subject, relation, object), embeds=True)


@edit.command()
def delete(
    target: Annotated[str, Argument(metavar="NAME|ID", help="An entity, or the id that relations shows.")], kb: Kb = KB
) -> None:
    """Take an entity or a relation out of the graph. Documents stay as they are."""

    def change(index: KnowledgeIndex) -> Edit:
        if index.graph.entity(target) is not None:
            return index.graph.delete_entity(target)
        return index.graph.delete_relation(target)

    _edit(kb, change)


@edit.command("list")
def list_edits(kb: Kb = KB, json: Json = False) -> None:
    """List the edits of the graph that are in force."""
    with options.open_index(kb, embeds=False) as index:
        render.print_list(index.graph.edits(), str, as_json=json, none="the graph has no edits")


@edit.command()
def undo(number: Annotated[int, Argument(help="The number that list shows.")], kb: Kb = KB) -> None:
    """Take back an edit of the graph."""
    with options.open_index(kb, write=True) as index, render.working("editing the graph"):
        taken_back = index.graph.undo(number)
    render.print_line(f"taken back: {taken_back.text}")


def _edit(kb: Kb, change: Callable[[KnowledgeIndex], Edit], *, embeds: bool = False) -> None:
    with options.open_index(kb, embeds=embeds, write=True) as index, render.working("editing the graph"):
        made = change(index)
    render.print_line(f"{made.number}  {made.text}")
