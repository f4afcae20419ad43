"""The commands ``serve``, ``mcp`` and ``key``: an index for other programs."""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.cli import options, render
from graphrag_core.errors import InputError, NotAnIndex
from graphrag_core.llm import open_llm

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
_AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host",
        metavar="NAME",
        help="A name under which clients reach the server. Default without API keys: the names of this machine. "
        "Can be repeated; '*' for all.",
    ),
]
_Write = Annotated[
    bool, typer.Option("--write", help="Open the index for writing: clients may change documents and remember facts.")
]
_Llm = Annotated[
    str | None,
    typer.Option(
        "--llm",
        metavar="MODEL",
        help="Write answers with this model: a name such as gpt-4o-mini, or a server with the model, "
        "http://localhost:11434/v1/llama3.1. The API key is read from OPENAI_API_KEY. "
        "Without it, answers are sentences of the passages.",
    ),
]
_LlmUrl = Annotated[
    str | None, typer.Option(envvar="OPENAI_BASE_URL", metavar="URL", help="Base URL of an OpenAI-compatible server.")
]
_LlmTimeout = Annotated[
    float, typer.Option("--llm-timeout", metavar="SECONDS", min=1, help="How long the model may write nothing.")
]
_Refresh = Annotated[
    float,
    typer.Option("--refresh-every", metavar="SECONDS", min=0, help="How soon requests see what others write."),
]
_Rate = Annotated[
    float | None, typer.Option("--rate", metavar="N", min=1, help="Requests per minute of a key that has no own limit.")
]


def serve(
    kb: options.Kb = options.KB,
    host: _Host = "127.0.0.1",
    port: _Port = 8000,
    keys: _Keys = None,
    no_auth: _NoAuth = False,
    write: _Write = False,
    where: options.Where = None,
    llm: _Llm = None,
    llm_url: _LlmUrl = None,
    llm_timeout: _LlmTimeout = 60.0,
    k: options.Count = 5,
    method: options.MethodName = "hybrid",
    embedder: options.EmbedderName = None,
    embedder_url: options.EmbedderUrl = None,
    on_embedder_error: options.OnError = "raise",
    refresh_every: _Refresh = 1.0,
    rate: _Rate = None,
    max_k: Annotated[int, typer.Option("--max-k", min=1, help="The most passages that a request may ask for.")] = 100,
    max_body: Annotated[int, typer.Option("--max-body", metavar="MB", min=1, help="Largest body of a request.")] = 10,
    time_limit: Annotated[float, typer.Option("--time-limit", metavar="SECONDS", min=1, help="For a request.")] = 30.0,
    answer_limit: Annotated[
        float, typer.Option("--answer-limit", metavar="SECONDS", min=1, help="For an answer of the language model.")
    ] = 300.0,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads that search. Default: CPUs + 2, at most 8.")
    ] = None,
    waiting: Annotated[
        int, typer.Option("--waiting", min=0, help="Requests that wait for a thread before others get status 503.")
    ] = 500,
    allowed_host: _AllowedHosts = None,
    log_questions: Annotated[
        bool, typer.Option("--log-questions", help="Write parameters of requests to the log, which may name people.")
    ] = False,
) -> None:
    """Serve the index over HTTP: query, ask, explain, documents, entities, path, stats. See /docs in a browser.

    Without --keys it listens on this machine only. Ctrl-C or SIGTERM ends it: running requests are finished.
    """
    from graphrag_core.serve import Limits, create_app
    from graphrag_core.serve.http import make_server

    limits: dict[str, Any] = {
        "k": max_k, "body_bytes": max_body * 1_000_000, "seconds": time_limit, "answer_seconds": answer_limit,
        "waiting": waiting, "requests_per_minute": rate,
    }  # fmt: skip
    if threads is not None:
        limits["workers"] = threads
    found = _check_access(host, keys, no_auth=no_auth)
    with _gateway(
        kb, (embedder, embedder_url), found, write=write, where=where, llm=_model(llm, llm_url, llm_timeout),
        refresh_every=refresh_every,
        limits=Limits(**limits), settings={"k": k, "method": method, "on_embedder_error": on_embedder_error},
    ) as gateway:  # fmt: skip
        hosts = allowed_host or (["*"] if no_auth and host not in options.LOCAL else None)
        app = create_app(gateway, allowed_hosts=hosts, log_questions=log_questions)
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
    llm: _Llm = None,
    llm_url: _LlmUrl = None,
    llm_timeout: _LlmTimeout = 60.0,
    k: options.Count = 5,
    embedder: options.EmbedderName = None,
    embedder_url: options.EmbedderUrl = None,
    on_embedder_error: options.OnError = "keyword",
    refresh_every: _Refresh = 1.0,
    rate: _Rate = None,
    allowed_host: _AllowedHosts = None,
) -> None:
    """Serve the index to agents as tools (Model Context Protocol): search, ask, entity, neighbours, path, remember.

    On stdin and stdout, for an application that starts this command, or with --http for clients with API keys.
    """
    from graphrag_core.serve import Limits
    from graphrag_core.serve.tools import mcp_app, mcp_server

    if not http and (keys is not None or no_auth):
        raise typer.BadParameter("is for --http: over stdin, restrict the client with --where", param_hint="--keys")
    found = _check_access(host, keys, no_auth=no_auth) if http else None
    with _gateway(
        kb, (embedder, embedder_url), found, write=write, where=where, llm=_model(llm, llm_url, llm_timeout),
        refresh_every=refresh_every,
        limits=Limits(requests_per_minute=rate), settings={"k": k, "on_embedder_error": on_embedder_error},
    ) as gateway:  # fmt: skip
        if not http:
            mcp_server(gateway).run("stdio")
            return
        from graphrag_core.serve.http import make_server

        hosts = allowed_host or (["*"] if no_auth and host not in options.LOCAL else None)
        _log_to_stderr()
        make_server(mcp_app(gateway, allowed_hosts=hosts), gateway, host, port).run()


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


def _model(llm: str | None, url: str | None, timeout: float) -> Any:
    return None if llm is None or llm == "none" else open_llm(llm, url, timeout=timeout)


def _gateway(
    kb: str,
    embedder: tuple[str | None, str | None],
    keys: "ApiKeys | None",
    *,
    write: bool,
    where: list[str] | None,
    llm: Any,
    refresh_every: float,
    limits: Any,
    settings: dict[str, Any],
) -> "Gateway":
    from graphrag_core.serve import Gateway

    if not write:
        index = options.open_index(kb, embedder[0], embedder_url=embedder[1])
    elif KnowledgeIndex.exists(kb):
        stored = options.Settings.load(kb)
        index = KnowledgeIndex.open(
            kb, options.stored_embedder(kb, *embedder), chunker=stored.chunker,
            extractor=options.make_extractor(graph=stored.graph), progress=False,
        )  # fmt: skip
    else:
        raise NotAnIndex(f"no index in {kb}: create one with {render.program()} index FOLDER --out {kb}")
    try:
        retriever = GraphRetriever(index, **{**options.CONFIG.get().retriever, **settings})
        return Gateway(
            index, retriever, keys=keys, llm=llm, limits=limits,
            where=options.parse_where(where), write=write, refresh_every=refresh_every,
        )  # fmt: skip
    except BaseException:
        index.close()
        raise


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
