"""A real server in a thread or a process, and a language model that streams, stalls, breaks and fails."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import uvicorn
from model_server import StreamServer

from graphrag_apps.serve import ApiKeys, Gateway, create_app
from graphrag_core import Document, KnowledgeIndex
from graphrag_core.testing import HashEmbedder

CORE = Path(__file__).parents[1] / "core"
LIMIT = 60.0  # seconds, for what never takes long
QUESTION = "Who runs the OAuth Provider?"
UNRELATED = "Which painter restored seventeen baroque altarpieces?"
DOCUMENTS = [
    Document("auth", "The Auth Service issues tokens. It delegates logins to the OAuth Provider.", "Auth Service"),
    Document("oauth", "The OAuth Provider is run by Mara Lindqvist.", "OAuth Provider",
             {"team": "identity", "year": 2021}),
    Document("teams/mara", "Mara Lindqvist leads the Identity Team in Uppsala.", metadata={"team": "identity"}),
]  # fmt: skip


def index_of(documents=DOCUMENTS) -> KnowledgeIndex:
    index = KnowledgeIndex(HashEmbedder())
    index.add(documents)
    return index


def keys_of(**scopes) -> tuple[ApiKeys, dict[str, dict[str, str]]]:
    """Keys by name, for a filter or a pair of a filter and whether they may write; and the headers of each."""
    keys, headers = [], {}
    for name, scope in scopes.items():
        where, write = scope if isinstance(scope, tuple) else (scope, False)
        key, secret = ApiKeys.generate(name, where, write=write)
        keys.append(key)
        headers[name] = {"Authorization": f"Bearer {secret}"}
    return ApiKeys(keys), headers


def wait_until(condition):
    """Wait for something that happens soon; how soon does not matter."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@contextmanager
def served(app) -> Iterator[str]:
    """Serve an application on a free port; yield its URL; end it gracefully."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", log_config=None, http="h11", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive())
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(LIMIT)
            assert not thread.is_alive(), "the server does not end"
    gc.collect()  # a leaked connection warns, and fails the test


@contextmanager
def client_of(gateway: Gateway, **settings) -> Iterator[httpx.Client]:
    with served(create_app(gateway)) as url, httpx.Client(base_url=url, timeout=LIMIT, **settings) as client:
        yield client


def connect(url: str, *, taken: int | None = None) -> socket.socket:
    """Connect to a server; with so many bytes that are taken before they are read."""
    host, port = urlsplit(url).netloc.split(":")
    connection = socket.socket()
    connection.settimeout(LIMIT)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if taken is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, taken)
    try:
        connection.connect((host, int(port)))
    except OSError:
        connection.close()
        raise
    return connection


@contextmanager
def process(kb: Path | str, *arguments: object, folder: Path | None = None) -> Iterator[tuple]:
    """Start a command that serves; yield the process, its URL and the file of its log; check that it ends well.

    Parameters
    ----------
    kb
        The index.
    arguments
        The command, which has ``--port 0``, and its options.
    folder
        Where it runs. By default the folder that has the index.
    """
    folder = Path(kb).parent if folder is None else folder
    command = [sys.executable, "-m", "graphrag_apps", *map(str, arguments), "--kb", str(kb), "--embedder", "hash"]
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH") or str(CORE), "NO_COLOR": "1"}
    log = folder / "log"
    with log.open("wb") as out:
        started = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=folder)
    try:
        while not (found := re.search(r"running on (http://\S+)", log.read_text("utf-8"))):
            assert started.poll() is None, log.read_text("utf-8")
            time.sleep(0.02)
        yield started, found[1], log
        if started.poll() is None:
            started.send_signal(signal.SIGTERM)
        assert started.wait(5 * LIMIT) in (0, -signal.SIGTERM), log.read_text("utf-8")[-3_000:]
        assert "Traceback" not in (told := log.read_text("utf-8")), told.partition("Traceback")[2][:10_000]
    finally:
        started.kill()
        started.wait()


def events_of(response) -> Iterator[tuple[str, dict]]:
    """The events of a streamed answer."""
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


class StreamingModel(StreamServer):
    """A fake OpenAI-compatible server.

    ``mode`` is "ok", "slow" (waits before each piece), "stall" (writes a piece, then nothing until ``release`` is set),
    "break" (closes the connection after a piece), or an HTTP status.
    """

    def __init__(self):
        super().__init__()
        self.mode = "ok"
        self.pieces = ["Mara Lindqvist ", "runs it [1]."]
        self.release = threading.Event()
        self.ended = threading.Semaphore(0)

    def next_status(self):
        return self.mode if isinstance(self.mode, int) else 200

    def answer(self, handler, body, number):
        super().answer(handler, body, number)
        self.ended.release()

    def _events(self, connection):
        for number, event in enumerate(super()._events(connection)):
            if self.mode == "slow":
                time.sleep(0.01)
            if number and self.mode == "break":
                return
            if number and self.mode == "stall":
                self.stalled.set()
                self.release.wait(LIMIT)
            yield event

    def close(self):
        self.release.set()
        self.__exit__()
