"""The commands ``serve``, ``mcp`` and ``key``: an index for other programs."""

import logging
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from typer import Option

from graphrag_apps import serve as servers  # it imports its parts on first use
from graphrag_apps.cli import options, render
from graphrag_apps.cli.options import KB, LLM, EmbedderName, Json, Kb, Where
from graphrag_apps.config import LOCAL
from graphrag_core.errors import ConfigError, InputError, unknown_name


@dataclass(frozen=True)
class Server:
    """Options of commands that serve an index."""

    kb: Kb = KB
    host: Annotated[str, Option(help="The address to listen on; 0.0.0.0 for all of this machine.")] = "127.0.0.1"
    port: Annotated[int, Option(min=0, max=65_535, help="The port to listen on; 0 for a free one.")] = 8000
    keys: Annotated[Path | None, Option(metavar="FILE", help="API keys, as 'hybrid-graphrag key new' writes them.")] = (
        None
    )
    no_auth: Annotated[
        bool, Option("--no-auth", help="Serve everybody who reaches the port, without API keys, on any address.")
    ] = False
    write: Annotated[
        bool, Option("--write", help="Open the index for writing: clients may change documents and remember facts.")
    ] = False
    where: Where = None
    llm: LLM = None
    embedder: EmbedderName = None

    def check_access(self) -> "servers.ApiKeys | None":
        """Return the keys of the server; refuse to serve a network without them."""
        create = f"{render.program()} key new"
        if self.keys is not None:
            if self.no_auth:
                raise typer.BadParameter("give --keys or --no-auth, not both", param_hint="--no-auth")
            keys = servers.ApiKeys.load(self.keys)
            if not len(keys):
                raise InputError(f"{self.keys} has no keys: create one with {create} --keys {self.keys} --name NAME")
            return keys
        if self.host not in LOCAL and not self.no_auth:
            raise InputError(
                f"--host {self.host} serves other machines, which needs --keys FILE (create one with {create} --name "
                "NAME), or --no-auth to serve everybody"
            )
        return None

    @property
    def allowed_hosts(self) -> list[str] | None:
        """The names under which clients may reach the server; None for the default ones."""
        open_to_all = self.no_auth and self.host not in LOCAL
        return options.CONFIG.get().serve.allowed_hosts or (["*"] if open_to_all else None)

    def gateway(self, keys: "servers.ApiKeys | None", **defaults: Any) -> "servers.Gateway":
        """Open the index for clients."""
        settings = options.CONFIG.get().serve
        known = [limit.name for limit in fields(servers.Limits)]
        if wrong := settings.limits.keys() - set(known):
            raise ConfigError(f"[serve.limits]: {unknown_name(min(wrong), known, 'key')}")
        limits = servers.Limits(**settings.limits)  # type: ignore[arg-type]
        index = options.open_index(self.kb, self.embedder, write=self.write)
        try:
            return servers.Gateway(
                index, options.make_retriever(index, {}, **defaults), keys=keys, limits=limits,
                llm=options.make_llm(self.llm, timeout=settings.llm_timeout), where=options.parse_where(self.where),
                write=self.write, refresh_every=settings.refresh_every,
            )  # fmt: skip
        except BaseException:
            index.close()
            raise

    def run(self, app: Any, gateway: "servers.Gateway") -> None:
        """Serve an application until the process is told to end."""
        from graphrag_apps.serve.http import make_server

        _log_to_stderr()
        make_server(app, gateway, self.host, self.port).run()


@dataclass(frozen=True)
class McpServer(Server):
    """Options of ``mcp``."""

    port: Annotated[int, Option(min=0, max=65_535, help="The port to listen on; 0 for a free one.")] = 8001


@options.expand
def serve(server: Server) -> None:
    """Serve the index over HTTP: query, ask, explain, documents, entities, path, stats. See /docs in a browser.

    Without --keys it listens on this machine only. Ctrl-C or SIGTERM ends it: running requests are finished. Limits,
    timeouts and allowed hosts: the section [serve] of hybrid-graphrag.toml.
    """
    create_app = servers.create_app  # a missing extra is an error before the index is opened
    with server.gateway(server.check_access()) as gateway:
        log_questions = options.CONFIG.get().serve.log_questions
        app = create_app(gateway, allowed_hosts=server.allowed_hosts, log_questions=log_questions)
        server.run(app, gateway)


@options.expand
def mcp(
    server: McpServer,
    http: Annotated[bool, Option("--http", help="Streamable HTTP at /mcp instead of stdin and stdout.")] = False,
) -> None:
    """Serve the index to agents as tools (Model Context Protocol): search, ask, entity, neighbours, path, remember.

    On stdin and stdout, for an application that starts this command, or with --http for clients with API keys.
    """
    from graphrag_apps.serve.tools import mcp_app, mcp_server

    if not http and (server.keys is not None or server.no_auth):
        raise typer.BadParameter("is for --http: over stdin, restrict the client with --where", param_hint="--keys")
    with server.gateway(server.check_access() if http else None, on_embedder_error="keyword") as gateway:
        if http:
            server.run(mcp_app(gateway, allowed_hosts=server.allowed_hosts), gateway)
        else:
            mcp_server(gateway).run("stdio")


key = typer.Typer(no_args_is_help=True, help="API keys for serve and mcp --http.")
_KeyFile = Annotated[Path, Option("--keys", metavar="FILE", help="The file of the keys.")]


@key.command("new")
def new_key(
    name: Annotated[str, Option(help="Names the key in logs.")],
    keys: _KeyFile = Path("keys.toml"),
    where: Where = None,
    write: Annotated[bool, Option("--write", help="The key may change documents and remember facts.")] = False,
    rate: Annotated[float | None, Option(metavar="N", min=1, help="Requests per minute.")] = None,
) -> None:
    """Create an API key and print it, once: the file has its hash only.

    --where binds the key to a filter, which narrows every request: --where tenant=a. To revoke a key, delete its entry
    and start the server again.
    """
    scope = options.parse_where(where)
    made, secret = servers.ApiKeys.generate(name, scope, write=write, requests_per_minute=rate)
    servers.ApiKeys.append(keys, made, scope)
    rights = "read and write" if write else "read"
    render.stderr().print(Text(f"{name} may {rights} {'within the filter' if scope else 'everything'}. Its key:"))
    render.print_line(secret)


@key.command("list")
def list_keys(keys: _KeyFile = Path("keys.toml"), json: Json = False) -> None:
    """List the keys of a file: names, filters and rights."""
    names = ("name", "restricted", "write", "requests_per_minute")
    rows = [{name: getattr(key, name) for name in names} for key in servers.ApiKeys.load(keys).keys]

    def line(row: dict[str, Any]) -> str:
        scope = "within a filter" if row["restricted"] else "everything"
        return f"{row['name']}  {'read, write' if row['write'] else 'read'}  {scope}"

    render.print_list(rows, line, as_json=json)


def _log_to_stderr() -> None:
    """Log requests, and the messages of uvicorn about starting and ending."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for logger in map(logging.getLogger, ("graphrag_apps.serve", "uvicorn")):
        logger.setLevel(os.environ.get("LOG_LEVEL", "INFO").upper())
        logger.addHandler(handler)
        logger.propagate = False
