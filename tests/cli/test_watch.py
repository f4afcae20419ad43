"""The command ``watch``, as a real process on real files. Tests wait for a state; time decides nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from model_server import EmbeddingServer

from graphrag_core import KnowledgeIndex
from graphrag_core.errors import GraphRAGError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
LIMIT = 120  # seconds until a state that never comes fails a test
AGAIN = 30  # seconds until Ctrl-C is pressed again


def wait_for(state):
    end = time.monotonic() + LIMIT
    while not state():
        assert time.monotonic() < end, "the state never came"
        time.sleep(0.1)


def interrupt(process):
    """Press Ctrl-C, and again if the process goes on: one may arrive while a callback runs that cannot be left."""
    pressed = 0.0
    while process.poll() is None:
        if time.monotonic() - pressed > AGAIN:
            pressed = time.monotonic()
            process.send_signal(signal.SIGINT)
        time.sleep(0.1)


def ids(kb):
    try:
        with KnowledgeIndex.open(kb, read_only=True) as index:
            return set(index.document_ids())
    except GraphRAGError:  # not there yet
        return set()


@contextmanager
def watching(folder, *options, **environment):
    """Run ``watch docs``; yield a function that returns its output so far, and the process."""
    log = folder / "watch.log"
    command = [sys.executable, "-m", "graphrag_apps", "watch", "docs", *map(str, options)]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, stdout=file, stderr=file, env={**os.environ, "NO_COLOR": "1", **environment}
        )
    try:
        yield (lambda: log.read_text("utf-8")), process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def write(path, text):
    """Write a file at once: `watch` may read between the creation of a file and the writing of its content."""
    part = path.parent / f".{path.name}"  # hidden, so not watched
    part.write_text(text)
    part.replace(path)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Auth Service\n\nThe Auth Service trusts Keyring.")
    return tmp_path


@pytest.mark.parametrize("options", [[], ["--poll"]], ids=["events", "polling"])
def test_an_index_follows_its_files_until_ctrl_c(folder, options):
    docs, kb = folder / "docs", folder / "docs" / "kb"  # the index is inside, and no change of its own
    with watching(folder, "--kb", "docs/kb", "--embedder", "hash", *options) as (output, process):
        wait_for(lambda: "watching docs" in output())
        assert ids(kb) == {"a.md"}
        write(docs / "b.md", "# Keyring\n\nKeyring is sold.")
        (docs / "sub").mkdir()
        write(docs / "sub" / "p.csv", "id,name\n1,Ada\n2,Bob\n")
        wait_for(lambda: ids(kb) == {"a.md", "b.md", "sub/p.csv#1", "sub/p.csv#2"})
        write(docs / "bad.json", "{")
        (docs / "a.md").unlink()
        wait_for(lambda: "a.md" not in ids(kb) and "docs/bad.json: invalid JSON" in output())
        write(docs / "b.md", "# Keyring\n\nKeyring is not sold.")
        (docs / "sub").rename(docs / "moved")
        wait_for(lambda: "changed docs/b.md" in output() and "removed docs/sub/p.csv" in output())
        wait_for(lambda: ids(kb) == {"b.md", "moved/p.csv#1", "moved/p.csv#2"})
        interrupt(process)
        assert process.returncode == 0
        said = output()
    assert "added docs/b.md" in said
    assert "added docs/sub/p.csv (2 documents)" in said
    assert "removed docs/a.md" in said
    assert said.endswith("stopped\n")
    assert "Traceback" not in said
    with KnowledgeIndex.open(kb) as index:
        assert index.verify()


def test_an_outage_of_the_embedder_is_made_up_for_and_sigterm_ends_it(folder):
    with EmbeddingServer() as server:
        options = ("--embedder", "openai:small", "--embedder-url", server.url)
        with watching(folder, *options, OPENAI_API_KEY="x") as (output, process):
            wait_for(lambda: "watching docs" in output())
            server.down = True
            write(folder / "docs" / "b.md", "# Keyring\n\nKeyring is sold.")
            wait_for(lambda: "the embedder failed" in output())
            write(folder / "docs" / "c.md", "# Solheim\n\nSolheim sells.")
            server.down = False
            wait_for(lambda: ids(folder / "kb") == {"a.md", "b.md", "c.md"})
            process.send_signal(signal.SIGTERM)
            wait_for(lambda: process.poll() is not None)
            assert process.returncode == 0


def test_another_writer_is_waited_for(folder):
    with watching(folder, "--embedder", "none") as (output, _):
        wait_for(lambda: "watching docs" in output())
        with KnowledgeIndex.open(folder / "kb"):
            write(folder / "docs" / "b.md", "# Keyring\n\nKeyring is sold.")
            wait_for(lambda: "next attempt in" in output())
        wait_for(lambda: ids(folder / "kb") == {"a.md", "b.md"})


def test_what_is_not_there_cannot_be_watched(run, tmp_path):
    result = run("watch", "nothing")
    assert result.exit_code == 1
    assert "nothing: no such file or folder" in result.stderr
