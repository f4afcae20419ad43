"""The commands ``serve``, ``mcp`` and ``key``."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from graphrag_apps import serve as servers  # it imports its parts on first use
from graphrag_apps.cli import options, output
from graphrag_apps.cli.options import Filter, Kb, Llm
from graphrag_core.errors import ConfigError, InputError, unknown_name
from graphrag_core.retriever import GraphRetriever

_LOCAL = ("localhost", "127.0.0.1", "::1")
_LLM_TIMEOUT = 60.0  # seconds

_Embedder = Annotated[str | None, Option("--embedder", help="The embedding model; by default that of the index.")]
_Write = Annotated[bool, Option("--write", help="Let keys that may write change the index.")]
_Host = Annotated[str, Option(help="The address to listen on.")]
_Port = Annotated[int, Option(min=0, max=65_535, help="The port to listen on; 0 for a free one.")]
_Keys = Annotated[Path | None, Option("--keys", metavar="FILE", help="The file of API keys: see key new.")]
_NoAuth = Annotated[bool, Option("--no-auth", help="Serve everybody without keys, also other machines.")]
_Hosts = Annotated[
    list[str] | None, Option("--allowed-host", metavar="NAME", help="A name that the server is called by; repeatable.")
]
_Limit = Annotated[
    list[str] | None, Option("--limit", metavar="NAME=NUMBER", help="A limit of a request, such as k=50; repeatable.")
]


def serve(
    kb: Kb = None,
    filter: Filter = None,  # noqa: A002 - the name of the option
    embedder: _Embedder = None,
    llm: Llm = None,
    write: _Write = False,
    host: _Host = "127.0.0.1",
    port: _Port = 8000,
    keys: _Keys = None,
    no_auth: _NoAuth = False,
    allowed_host: _Hosts = None,
    limit: _Limit = None,
) -> None:
    """Serve the index over HTTP.

    Query, ask, explain, documents, entities, path, stats: see /docs in a browser. Without --keys it listens on
    this machine only. Ctrl-C or SIGTERM ends it: running requests are finished.
    """
    create_app = servers.create_app  # a missing extra is an error before the index is opened
    hosts = allowed_host or (["*"] if no_auth else None)
    gateway = _gateway(kb, filter, embedder, llm, write, _load_keys(keys, host, no_auth=no_auth), hosts, limit)
    _run(create_app(gateway), gateway, host, port)


def mcp(
    kb: Kb = None,
    filter: Filter = None,  # noqa: A002 - the name of the option
    embedder: _Embedder = None,
    llm: Llm = None,
    write: _Write = False,
    http: Annotated[bool, Option("--http", help="Streamable HTTP at /mcp instead of stdin and stdout.")] = False,
    host: _Host = "127.0.0.1",
    port: _Port = 8001,
    keys: _Keys = None,
    no_auth: _NoAuth = False,
    allowed_host: _Hosts = None,
    limit: _Limit = None,
) -> None:
    """Serve the index to agents as tools of the Model Context Protocol.

    The tools are search, ask, entity, neighbours, path and remember. On stdin and stdout, for an application that
    starts this command, or with --http for clients with API keys.
    """
    mcp_server, mcp_app = servers.mcp_server, servers.mcp_app
    if not http and (keys is not None or no_auth):
        raise typer.BadParameter("is for --http: over stdin, restrict the client with --filter", param_hint="--keys")
    loaded = _load_keys(keys, host, no_auth=no_auth) if http else None
    gateway = _gateway(kb, filter, embedder, llm, write, loaded, allowed_host, limit)
    if http:
        _run(mcp_app(gateway), gateway, host, port)
    else:
        with gateway:
            mcp_server(gateway).run("stdio")


key = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="API keys for serve and mcp --http.")
_KeyFile = Annotated[Path, Option("--keys", metavar="FILE", help="The file of the keys.")]


@key.command("new")
def new_key(
    name: Annotated[str, Option(help="The name that the log shows.")],
    keys: _KeyFile = Path("keys.toml"),
    filter: Filter = None,  # noqa: A002
    write: Annotated[bool, Option("--write", help="Let it add and delete documents and remember facts.")] = False,
) -> None:
    """Make an API key, print it once, and store its hash. --filter binds it to a filter, such as tenant=a."""
    scope = options.parse_filter(filter)
    made, secret = servers.ApiKeys.generate(name, scope, write=write)
    servers.ApiKeys.append(keys, made, scope)
    output.error(f"added to {keys}; the key is shown this once:", mark="")
    output.line(secret)


def _gateway(
    kb: str | None, where: list[str] | None, embedder: str | None, llm: str | None, write: bool,
    keys: servers.ApiKeys | None, hosts: Sequence[str] | None, limits: Sequence[str] | None,
) -> servers.Gateway:  # fmt: skip
    """Open what is served."""
    scope, given = options.parse_filter(where), options.parse_pairs(limits, "--limit")
    known = [one.name for one in dataclasses.fields(servers.Limits)]
    if unknown := next((name for name in given if name not in known), None):
        raise InputError(unknown_name(unknown, known, "limit"))
    chosen, model = servers.Limits(**given), options.make_llm(llm, timeout=_LLM_TIMEOUT)
    index = options.open_index(kb, embedder, write=write)
    retriever = GraphRetriever(index, options.search_settings())
    return servers.Gateway(index, retriever, keys=keys, where=scope, llm=model, write=write, limits=chosen, hosts=hosts)


def _load_keys(file: Path | None, host: str, *, no_auth: bool) -> servers.ApiKeys | None:
    """Return the keys of a server; None for one that serves everybody."""
    if file is None:
        if host in _LOCAL or no_auth:
            return None
        raise ConfigError(
            f"a server on {host} needs API keys: make one with 'hybrid-graphrag key new' and pass --keys keys.toml, or "
            "serve everybody with --no-auth"
        )
    loaded = servers.ApiKeys.load(file)
    if not len(loaded):
        raise ConfigError(f"{file} has no keys: make one with 'hybrid-graphrag key new --keys {file}'")
    return loaded


def _run(app: Any, gateway: servers.Gateway, host: str, port: int) -> None:
    """Serve an application until the process is told to end. The log goes to stderr."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(message)s", force=True)
    logging.getLogger("graphrag_apps.serve").setLevel(logging.INFO)
    try:
        servers.serve(app, gateway.limits, host, port)
    finally:
        gateway.close()
