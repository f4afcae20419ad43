"""The group ``memory``: remember, confirm, reject, forget and list facts."""

from datetime import datetime, timezone
from typing import Annotated, Any

import typer
from typer import Argument, Option

from graphrag_apps.cli import options, render
from graphrag_apps.cli.options import KB, AsOf, EmbedderName, Json, Kb, Limit, Where
from graphrag_core import Fact, KnowledgeIndex
from graphrag_core.errors import GraphRAGError
from graphrag_core.ingest.remembered import FACT_KEY
from graphrag_core.model import FactSource, FactStatus

_Ids = Annotated[list[str], Argument(metavar="ID", help="Ids of facts, such as fact:0123456789abcdef.")]
_Subject = Annotated[str | None, Option(help="Only facts about this subject.")]
_Relation = Annotated[str | None, Option(help="Only facts of this relation.")]

memory = typer.Typer(no_args_is_help=True, help="Remember, confirm, reject, forget and list facts.")


@memory.command()
def remember(
    subject: Annotated[str, Argument(help="Whom or what the fact is about.")],
    relation: Annotated[str, Argument(help="The relation, such as prefers.")],
    object: Annotated[str, Argument(help="The other end: a name or a value.")],  # noqa: A002
    kb: Kb = KB,
    literal: Annotated[bool, Option("--literal", help="The object is a value, not an entity.")] = False,
    source: Annotated[FactSource, Option(help="Where the fact comes from.")] = "user_edit",
    confidence: Annotated[float, Option(min=0, max=1, help="How certain it is.")] = 1.0,
    status: Annotated[
        FactStatus | None, Option(help="Default: the stored status; confirmed if the source is user_edit.")
    ] = None,
    metadata: Annotated[
        list[str] | None, Option(metavar="KEY=VALUE", help="The scope, such as user=ada. Can be repeated.")
    ] = None,
    valid_from: Annotated[str | None, Option(metavar="DATE", help="Since when it is true, such as 2024-05-01.")] = None,
    valid_to: Annotated[str | None, Option(metavar="DATE", help="Until when it is true.")] = None,
    supersedes: Annotated[list[str] | None, Option(metavar="ID", help="End another fact. Can be repeated.")] = None,
    replace: Annotated[
        bool, Option("--replace", help="End all facts of the same subject and relation with another object.")
    ] = False,
    json: Json = False,
    embedder: EmbedderName = None,
) -> None:
    """Store a fact: memory remember User prefers "dark mode". The index is created if there is none."""
    if supersedes and replace:
        raise typer.BadParameter("give --supersedes or --replace, not both", param_hint="--replace")
    with options.open_index(kb, embedder, write=True, create=True) as index:
        fact = index.memory.remember(
            subject, relation, object, literal=literal, source=source, confidence=confidence, status=status,
            metadata=options.parse_pairs(metadata, "--metadata"), valid_from=valid_from, valid_to=valid_to,
            supersedes=supersedes or replace,
        )  # fmt: skip
        _print_facts([fact], index, as_json=json)


@memory.command()
def confirm(ids: _Ids, kb: Kb = KB, where: Where = None) -> None:
    """Confirm remembered facts."""
    with options.open_index(kb, write=True) as index:
        _print_facts([index.memory.confirm(fact, where=options.parse_where(where)) for fact in ids], index)


@memory.command()
def reject(ids: _Ids, kb: Kb = KB, where: Where = None) -> None:
    """Reject remembered facts: no query finds them, and they stay rejected when they are told again."""
    with options.open_index(kb, write=True) as index:
        _print_facts([index.memory.reject(fact, where=options.parse_where(where)) for fact in ids], index)


@memory.command()
def forget(
    ids: Annotated[list[str] | None, Argument(metavar="[ID]...", help="Ids of facts.")] = None,
    kb: Kb = KB,
    subject: _Subject = None,
    relation: _Relation = None,
    where: Where = None,
) -> None:
    """Delete remembered facts, by id or all that match the options. Documents are not touched."""
    if not ids and subject is None and relation is None and not where:
        raise typer.BadParameter("give ids, --subject, --relation or --where", param_hint="[ID]...")
    with options.open_index(kb, embeds=False, write=True) as index:
        count = index.memory.forget(ids or None, subject=subject, relation=relation, where=options.parse_where(where))
    render.print_line(f"{count:,} forgotten")
    if count < len(ids or [""]):
        missing = "no fact has such an id or matches the options: list them with 'hybrid-graphrag memory list'"
        raise GraphRAGError(missing if not count else f"{len(ids or ()) - count} of the ids are not facts")


@memory.command("list")
def list_facts(
    kb: Kb = KB,
    subject: _Subject = None,
    relation: _Relation = None,
    status: Annotated[FactStatus | None, Option(help="Only facts of this status.")] = None,
    where: Where = None,
    as_of: AsOf = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List the remembered facts, also those that are rejected or no longer valid."""
    with options.open_index(kb, embeds=False) as index:
        facts = index.memory.facts(
            subject=subject, relation=relation, status=status, where=options.parse_where(where), as_of=as_of
        )
        _print_facts(facts[: limit or None], index, as_json=json)
    if limit and len(facts) > limit and not json:
        render.print_error(f"{len(facts) - limit:,} more: use --limit, 0 for all")


def _print_facts(facts: list[Fact], index: KnowledgeIndex, *, as_json: bool = False) -> None:
    """Print facts, one in each line, with id, status, validity and scope."""
    rows: list[dict[str, Any]] = []
    for fact in facts:
        document = index.get(fact.chunk_id)
        metadata = dict(document.metadata) if document else {}
        stored = metadata.pop(FACT_KEY, {})
        row = {name: stored.get(name) for name in ("subject", "relation", "object", "source", "confidence", "status")}
        dates = {name: _date(stored[name]) for name in ("valid_from", "valid_to") if stored.get(name) is not None}
        rows.append({"id": fact.chunk_id, **row, **dates, "metadata": metadata})

    def line(row: dict[str, Any]) -> str:
        dates = [f"{name.removeprefix('valid_')} {row[name]}" for name in ("valid_from", "valid_to") if name in row]
        notes = [row["status"], *dates, *(f"{key}={value}" for key, value in row["metadata"].items())]
        return f"{row['id']}  {row['subject']} {row['relation']}: {row['object']}  ({', '.join(notes)})"

    render.print_list(rows, line, as_json=as_json, none="no facts were found")


def _date(time: float) -> str:
    moment = datetime.fromtimestamp(time, timezone.utc)
    return moment.date().isoformat() if time % 86_400 == 0 else moment.isoformat(timespec="seconds")
