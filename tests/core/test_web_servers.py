"""gunicorn and uvicorn with two workers, started for real, over an index that the application opens at import."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from support import SERVICES

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.testing import HashEmbedder

LIMIT = 120.0  # seconds for a server to start or to stop
TESTS = Path(__file__).parents[1]
QUESTIONS = ["Who runs the OAuth Provider?", "auth service", "identity team Uppsala", "slow yesterday"]


@contextmanager
def serving(module: str, *arguments: str, kb: Path, writes: bool = False) -> Iterator[str]:
    """Start a server on a free port; yield its URL; stop it, and check that nothing panicked."""
    pytest.importorskip(module)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    bind = ["--bind", f"127.0.0.1:{port}"] if module == "gunicorn" else ["--port", str(port)]
    environment = {
        **os.environ, "KB": str(kb), "KB_WRITES": str(int(writes)),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH")))),
    }  # fmt: skip
    log = kb.with_name(f"{module}.log")
    with log.open("w") as out:
        command = [sys.executable, "-m", module, *bind, *arguments]
        server = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                ask(url, QUESTIONS[0])
                break
            except (URLError, ConnectionError):
                assert server.poll() is None, log.read_text("utf-8")
                assert time.monotonic() < deadline, log.read_text("utf-8")
                time.sleep(0.05)
        yield url
        server.send_signal(signal.SIGTERM)
        assert server.wait(LIMIT) in (0, -signal.SIGTERM)
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    assert "panicked" not in log.read_text("utf-8")
    assert "Traceback" not in log.read_text("utf-8"), log.read_text("utf-8")


def ask(url: str, question: str) -> dict:
    with urlopen(f"{url}/?{urlencode({'q': question})}", timeout=LIMIT) as response:  # noqa: S310 - this machine
        return json.load(response)


def assert_answers(url: str, expected: dict[str, list]) -> set[int]:
    """Ask many questions at once and compare the answers; return the processes that answered."""
    questions = QUESTIONS * 10
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda question: ask(url, question), questions))
    for question, answer in zip(questions, answers, strict=True):
        assert answer["hits"] == expected[question]
    return {answer["pid"] for answer in answers}


def in_process(index: KnowledgeIndex) -> dict[str, list]:
    retriever = GraphRetriever(index, k=3)
    return {question: [[h.chunk.id, h.score] for h in retriever.retrieve(question).hits] for question in QUESTIONS}


@pytest.fixture
def kb(tmp_path):
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder()) as index:
        index.add(SERVICES)
    return tmp_path / "kb"


def expected_of(kb: Path) -> dict[str, list]:
    with KnowledgeIndex.open(kb, HashEmbedder(), read_only=True) as index:
        return in_process(index)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="gunicorn needs fork")


@needs_fork
@pytest.mark.parametrize("threads", ["1", "4"])
def test_gunicorn_workers_read_what_the_preloaded_application_opened(kb, threads):
    expected = expected_of(kb)
    with serving("gunicorn", "--preload", "-w", "2", "--threads", threads, "web_app:wsgi", kb=kb, writes=True) as url:
        assert_answers(url, expected)
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{url}/add", timeout=LIMIT)  # noqa: S310 - this machine
        with refused.value as response:
            assert response.code == 409
            assert b"write in that process" in response.read()
    with KnowledgeIndex.open(kb, HashEmbedder()) as index:
        assert index.verify(), str(index.verify())


@needs_fork
def test_gunicorn_workers_that_each_open_the_index(kb):
    with serving("gunicorn", "-w", "2", "web_app:wsgi", kb=kb) as url:
        assert_answers(url, expected_of(kb))


@pytest.mark.skipif(sys.platform == "win32", reason="stops the server by SIGTERM")
def test_uvicorn_workers_see_what_another_process_writes(kb):
    with serving("uvicorn", "--workers", "2", "web_app:asgi", kb=kb) as url:
        assert_answers(url, expected_of(kb))
        with KnowledgeIndex.open(kb, HashEmbedder()) as writer:
            writer.add([Document("lena", "Lena Holm runs the OAuth Provider now.")])
            expected = in_process(writer)
            assert any(hit[0] == "lena" for hit in expected[QUESTIONS[0]])
            assert_answers(url, expected)
            assert writer.verify()
