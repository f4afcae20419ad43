"""The commands ``serve``, ``mcp`` and ``key``: an index for other programs."""

import logging
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from graphrag_core import KnowledgeIndex
from graphrag_core.cli import options, render
from graphrag_core.config import unknown
from graphrag_core.errors import ConfigError, InputError, NotAnIndex

if TYPE_CHECKING:
    from graphrag_core.serve import ApiKeys, Gateway

_Host = Annotated[str, typer.Option("--host", help="The address to listen on; 0.0.0.0 for all of this machine.")]
_Port = Annotated[int, typer.Option("--port", min=0, max=65_535, help="The port to listen on; 0 for a free one.")]
_Keys = Annotated[
    Path | None,
    typer.Option("--keys", metavar="FILE", help="API keys, as 'hybrid-graphrag key new' writes them. Read on change."),
]
_NoAuth = Annotated[
    bool, typer.Option("--no-auth", help="Serve everybody who reaches the port, without API keys, on any address.")
]
_Write = Annotated[
    bool, typer.Option("--write", help="Open the index for writing: clients may change documents and remember facts.")
]


def serve(
    kb: options.Kb = options.KB,
    host: _Host = "127.0.0.1",
    port: _Port = 8000,
    keys: _Keys = None,
    no_auth: _NoAuth = False,
    write: _Write = False,
    where: options.Where = None,
    llm: options.LLM = None,
    embedder: options.EmbedderName = None,
) -> None:
    """Serve the index over HTTP: query, ask, explain, documents, entities, path, stats. See /docs in a browser.

    Without --keys it listens on this machine only. Ctrl-C or SIGTERM ends it: running requests are finished. Limits,
    timeouts and allowed hosts: the section [serve] of hybrid-graphrag.toml.
    """
    from graphrag_core.serve import create_app
    from graphrag_core.serve.http import make_server

    settings = options.CONFIG.get().serve
    found = _check_access(host, keys, no_auth=no_auth)
    with _gateway(kb, embedder, found, write=write, where=where, llm=llm) as gateway:
        hosts = _allowed_hosts(host, no_auth=no_auth)
        app = create_app(gateway, allowed_hosts=hosts, log_questions=settings.log_questions)
        gateway.warm()
        _log_to_stderr()
        make_server(app, gateway, host, port).run()


def mcp(
    kb: options.Kb = options.KB,
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP at /mcp instead of stdin and stdout.")] = False,
    host: _Host = "127.0.0.1",
    port: _Port = 8001,
    keys: _Keys = None,
    no_auth: _NoAuth = False,
    write: _Write = False,
    where: options.Where = None,
    llm: options.LLM = None,
    embedder: options.EmbedderName = None,
) -> None:
    """Serve the index to agents as tools (Model Context Protocol): search, ask, entity, neighbours, path, remember.

    On stdin and stdout, for an application that starts this command, or with --http for clients with API keys.
    """
    from graphrag_core.serve.tools import mcp_app, mcp_server

    if not http and (keys is not None or no_auth):
        raise typer.BadParameter("is for --http: over stdin, restrict the client with --where", param_hint="--keys")
    found = _check_access(host, keys, no_auth=no_auth) if http else None
    with _gateway(kb, embedder, found, write=write, where=where, llm=llm, on_embedder_error="keyword") as gateway:
        if not http:
            mcp_server(gateway).run("stdio")
            return
        from graphrag_core.serve.http import make_server

        _log_to_stderr()
        app = mcp_app(gateway, allowed_hosts=_allowed_hosts(host, no_auth=no_auth))
        make_server(app, gateway, host, port).run()


key = typer.Typer(no_args_is_help=True, help="API keys for serve and mcp --http.")
_KeyFile = Annotated[Path, typer.Option("--keys", metavar="FILE", help="The file of the keys.")]


@key.command("new")
def new_key(
    name: Annotated[str, typer.Option("--name", help="Names the key in logs.", show_default=False)],
    keys: _KeyFile = Path("keys.toml"),
    where: options.Where = None,
    write: Annotated[bool, typer.Option("--write", help="The key may change documents and remember facts.")] = False,
    rate: Annotated[float | None, typer.Option("--rate", metavar="N", min=1, help="Requests per minute.")] = None,
) -> None:
    """Create an API key and print it, once: the file has its hash only.

    --where binds the key to a filter, which narrows every request: --where tenant=a. To revoke a key, delete its entry.
    """
    from graphrag_core.serve import ApiKeys

    scope = options.parse_where(where)
    made, secret = ApiKeys.generate(name, scope, write=write, requests_per_minute=rate)
    ApiKeys.append(keys, made, scope)
    rights = "read and write" if write else "read"
    render.stderr().print(Text(f"{name} may {rights} {'within the filter' if scope else 'everything'}. Its key:"))
    render.stdout().print(Text(secret), soft_wrap=True)


@key.command("list")
def list_keys(keys: _KeyFile = Path("keys.toml"), json: options.Json = False) -> None:
    """List the keys of a file: names, filters and rights."""
    from graphrag_core.serve import ApiKeys

    rows = [
        {
            "name": one.name,
            "restricted": one.restricted,
            "write": one.write,
            "requests_per_minute": one.requests_per_minute,
        }
        for one in ApiKeys.load(keys).keys
    ]
    if json:
        render.print_json(rows)
        return
    for row in rows:
        scope = "within a filter" if row["restricted"] else "everything"
        render.stdout().print(
            Text(f"{row['name']}  {'read, write' if row['write'] else 'read'}  {scope}"), soft_wrap=True
        )


def _check_access(host: str, keys: Path | None, *, no_auth: bool) -> "ApiKeys | None":
    """Return the keys of a server; refuse to serve a network without them."""
    from graphrag_core.serve import ApiKeys

    if keys is not None and no_auth:
        raise typer.BadParameter("give --keys or --no-auth, not both", param_hint="--no-auth")
    if keys is not None:
        found = ApiKeys.load(keys)
        if not len(found):
            raise InputError(
                f"{keys} has no keys: create one with {render.program()} key new --keys {keys} --name NAME"
            )
        return found
    if host not in options.LOCAL and not no_auth:
        raise InputError(
            f"--host {host} serves other machines, which needs --keys FILE (create one with {render.program()} key new "
            "--name NAME), or --no-auth to serve everybody"
        )
    return None


def _allowed_hosts(host: str, *, no_auth: bool) -> list[str] | None:
    """Return the names under which clients may reach a server; None for the default ones."""
    return options.CONFIG.get().serve.allowed_hosts or (["*"] if no_auth and host not in options.LOCAL else None)


def _gateway(
    kb: str,
    embedder: str | None,
    keys: "ApiKeys | None",
    *,
    write: bool,
    where: list[str] | None,
    llm: str | None,
    **defaults: Any,
) -> "Gateway":
    from graphrag_core.serve import Gateway, Limits

    settings = options.CONFIG.get().serve
    if wrong := settings.limits.keys() - {one.name for one in fields(Limits)}:
        raise ConfigError(f"[serve.limits]: {unknown(min(wrong), (one.name for one in fields(Limits)), 'key')}")
    limits = Limits(**settings.limits)  # type: ignore[arg-type]
    index = _open_for_clients(kb, embedder) if write else options.open_index(kb, embedder)
    try:
        return Gateway(
            index, options.make_retriever(index, {}, **defaults), keys=keys, limits=limits,
            llm=options.make_llm(llm, timeout=settings.llm_timeout), where=options.parse_where(where), write=write,
            refresh_every=settings.refresh_every,
        )  # fmt: skip
    except BaseException:
        index.close()
        raise


def _open_for_clients(kb: str, embedder: str | None) -> KnowledgeIndex:
    """Open an index to which clients add documents."""
    if not KnowledgeIndex.exists(kb):
        raise NotAnIndex(f"no index in {kb}: create one with {render.program()} index FOLDER --kb {kb}")
    stored = options.stored_settings(kb, embedder)
    return KnowledgeIndex.open(
        kb, options.make_embedder(stored.embedder, stored.embedder_url), chunker=stored.chunker,
        extractor=options.make_extractor(graph=stored.graph), progress=False,
    )  # fmt: skip


def _log_to_stderr() -> None:
    """Log requests, and what uvicorn says about starting and ending."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = os.environ.get("LOG_LEVEL", "INFO").upper()
    for name in ("graphrag_core.serve", "uvicorn"):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.addHandler(handler)
        logger.propagate = False
