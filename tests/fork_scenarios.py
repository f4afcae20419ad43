"""Scenarios that fork, each run in a process of its own: ``python fork_scenarios.py FOLDER NAME ...``.

pytest's process may have other threads, and a child that hangs must not stop the tests. A scenario that returns has
passed; every child has a time limit.
"""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from support import SERVICES

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import ReadOnlyIndex
from graphrag_core.testing import HashEmbedder

LIMIT = float(os.environ.get("LIMIT", "60"))  # seconds, after which a child hangs
QUESTIONS = ["Who runs the OAuth Provider?", "auth service", "identity team Uppsala", "slow yesterday"]


def run_child(work: Callable[[], object], *, leave: Callable[[int], object] = sys.exit) -> None:
    """Fork, run ``work`` in the child and end it as a program ends. Raise if it fails or hangs."""
    faulthandler.cancel_dump_traceback_later()  # its thread is not in the child
    pid = os.fork()
    if pid == 0:
        code = 1
        faulthandler.dump_traceback_later(LIMIT / 2)  # where it hangs
        try:
            work()
            code = 0
        except SystemExit:  # of a grandchild
            raise
        except BaseException:  # noqa: BLE001 - the parent sees the exit code
            traceback.print_exc()
        leave(code)
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0, f"the child ended with {status}"
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")


def answers(index: KnowledgeIndex, cache: bool = False) -> list[list[tuple[str, float]]]:
    retriever = GraphRetriever(index, cache=cache)
    return [[(hit.chunk.id, round(hit.score, 6)) for hit in retriever.retrieve(one).hits] for one in QUESTIONS]


def filled(folder: Path | None) -> KnowledgeIndex:
    embedder = HashEmbedder()
    index = KnowledgeIndex(embedder) if folder is None else KnowledgeIndex.open(folder, embedder)
    index.add(SERVICES)
    return index


def refuse(act: Callable[[], object], *words: str) -> None:
    with pytest.raises(ReadOnlyIndex) as refused:
        act()
    assert all(word in str(refused.value) for word in words), refused.value


def write_everything(index: KnowledgeIndex, *words: str) -> None:
    refuse(lambda: index.add([Document("new", "Something new.")]), *words)
    refuse(lambda: index.delete("auth"), *words)
    refuse(lambda: index.memory.remember("Ada", "likes", "tea"), *words)
    refuse(index.rebuild, *words)
    refuse(index.erase, *words)
    refuse(lambda: index.engine.write(removed=["auth"]), *words)


def writer_is_inherited(folder: Path) -> None:
    """A child reads, is refused to write, closes and exits; the parent is as before."""
    index = filled(folder)
    expected = answers(index)

    def child() -> None:
        assert answers(index) == expected
        assert index.read_only
        write_everything(index, str(os.getppid()), "write in that process")
        assert index.verify()
        index.close()
        index.close()

    run_child(child)
    run_child(lambda: None)  # interpreter exit and garbage collection, without closing
    run_child(index.close)
    run_child(lambda: [answers(index), gc.collect()])
    assert_still_writer(index, folder)


def assert_still_writer(index: KnowledgeIndex, folder: Path) -> None:
    code = "import sys; from graphrag_core import KnowledgeIndex; KnowledgeIndex.open(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=False)
    assert "IndexLocked" in done.stderr  # the child did not release the parent's lock
    assert index.add([Document("more", "Lena Holm wrote the Ledger.")]).added == 1
    assert index.delete("log") == 1
    assert index.verify(), str(index.verify())
    index.close()
    with KnowledgeIndex.open(folder, HashEmbedder()) as again:
        assert again.verify(), str(again.verify())
        assert len(again) == len(SERVICES)


def garbage_in_the_child(folder: Path) -> None:
    """The last reference to the index goes away in the child."""
    holder = [filled(folder)]

    def child() -> None:
        holder.clear()
        gc.collect()

    run_child(child)
    holder[0].add([Document("more", "Lena Holm wrote the Ledger.")])
    assert holder[0].verify()


def with_block_ends_in_the_child(folder: Path) -> None:
    with filled(folder) as index:
        pid = os.fork()
        if pid == 0:
            sys.exit(0)  # leaves the block
        assert os.waitpid(pid, 0)[1] == 0
        index.add([Document("more", "Lena Holm wrote the Ledger.")])
        assert index.verify()


def reader_is_inherited(folder: Path) -> None:
    """The child of a reader reads on, while another object writes, and sees what that writes."""
    writer = filled(folder)
    reader = KnowledgeIndex.open(folder, HashEmbedder(), read_only=True)
    expected = answers(reader)

    def child() -> None:
        assert answers(reader) == expected
        refuse(lambda: reader.add([Document("new", "Something new.")]), "process")

    run_child(child)
    writer.add([Document("more", "Lena Holm wrote the Ledger.")])
    assert len(reader) == 5
    run_child(lambda: exactly(len(reader), 5))
    assert writer.verify()
    assert reader.verify()


def exactly(found: object, wanted: object) -> None:
    assert found == wanted, found


def child_holds_locks_of_its_own(folder: Path) -> None:
    """The child's connections are safe from the parent: SQLite's file locks are those of the child."""
    index = filled(folder)
    go, went = os.pipe(), os.pipe()

    def child() -> None:
        assert len(index) == len(SERVICES)
        os.write(went[1], b"x")
        os.read(go[0], 1)  # the parent has closed the index, written and closed it again
        assert index.verify(), str(index.verify())
        exactly(len(index), len(SERVICES) + 20)

    def parent() -> None:
        os.read(went[0], 1)
        index.close()
        for turn in range(2):
            with KnowledgeIndex.open(folder, HashEmbedder()) as again:
                number = range(turn * 10, turn * 10 + 10)
                again.add([Document(f"d{n}", f"Service {n} reports to Ada Lovelace. " * 5) for n in number])
        os.write(go[1], b"x")

    thread = threading.Thread(target=parent)
    thread.start()
    run_child(child)
    thread.join()


def index_in_memory(folder: Path) -> None:
    """An index in memory is read from the inherited memory."""
    index = filled(None)
    expected = answers(index)

    def child() -> None:
        assert answers(index) == expected
        assert index.verify()
        write_everything(index, "in memory", "process")
        index.close()

    run_child(child)
    run_child(lambda: answers(index))
    run_child(lambda: None)
    index.add([Document("more", "Lena Holm wrote the Ledger.")])
    assert index.verify()


def others_read(folder: Path) -> None:
    fork_while_busy(filled(folder), read_forever, 6)


def others_write(folder: Path) -> None:
    fork_while_busy(filled(folder), write_forever, 4)


def read_forever(index: KnowledgeIndex, stop: threading.Event, number: int) -> None:
    while not stop.is_set():
        answers(index, cache=bool(number % 2))


def write_forever(index: KnowledgeIndex, stop: threading.Event, number: int) -> None:
    turn = 0
    while not stop.is_set():
        turn += 1
        if number == 0:
            index.add([Document(f"w{turn % 7}", f"Service {turn} reports to Ada Lovelace.")])
        elif number == 1:
            index.delete(f"w{turn % 5}")
        else:
            answers(index)


def fork_while_busy(index: KnowledgeIndex, work: Callable[..., None], forks: int) -> None:
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(index, stop, number)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(forks):
            run_child(
                lambda: [answers(index), index.verify() or _fail(index)], leave=os._exit if turn % 2 else sys.exit
            )
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert index.verify(), str(index.verify())
    index.close()


def _fail(index: KnowledgeIndex) -> None:
    raise AssertionError(str(index.verify()))


def warming(folder: Path) -> None:
    """A background thread that fills the cache stays in the parent."""
    index = filled(folder)
    retriever = GraphRetriever(index)
    future = retriever.warm(QUESTIONS * 50, background=True)

    def child() -> None:
        assert retriever.retrieve(QUESTIONS[0]).hits
        assert retriever.warm(2, background=True).result(LIMIT) == 2

    run_child(child)
    assert future.result(LIMIT) == 200


def grandchildren(folder: Path) -> None:
    index = filled(folder)
    expected = answers(index)

    def child() -> None:
        run_child(lambda: exactly(answers(index), expected))
        exactly(answers(index), expected)
        run_child(lambda: exactly(answers(index), expected))
        exactly(answers(index), expected)

    run_child(child)
    assert_still_writer(index, folder)


_INDEX: KnowledgeIndex


def _ask(question: str) -> list[str]:
    return [hit.chunk.id for hit in GraphRetriever(_INDEX).retrieve(question).hits]


def fork_pool(folder: Path) -> None:
    """``multiprocessing`` with fork: each worker reads."""
    global _INDEX  # noqa: PLW0603 - what a worker inherits
    _INDEX = filled(folder)
    expected = [_ask(question) for question in QUESTIONS]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(_ask, QUESTIONS * 5).get(LIMIT) == expected * 5
    assert _INDEX.delete("log") == 1
    assert _INDEX.verify()


def the_parent_dies(folder: Path) -> None:
    """A child that lives on does not keep the dead parent's lock."""
    index = filled(folder)
    go, went = os.pipe(), os.pipe()
    parent = os.fork()
    if parent == 0:  # opens the index in a process of its own, forks, and is killed
        index.close()
        mine = KnowledgeIndex.open(folder.with_name("other"), HashEmbedder())
        mine.add(SERVICES)
        if os.fork() == 0:
            os.write(went[1], b"x")
            os.read(go[0], 1)
            os._exit(0 if len(mine) == len(SERVICES) else 1)
        os.kill(os.getpid(), signal.SIGKILL)
    os.read(went[0], 1)
    os.waitpid(parent, 0)
    with KnowledgeIndex.open(folder.with_name("other"), HashEmbedder()) as other:  # not locked
        assert other.verify()
    os.write(go[1], b"x")


def langchain(folder: Path) -> None:
    from langchain_core.documents import Document as LangChainDocument

    from langchain_graphrag import GraphRAGRetriever

    documents = [LangChainDocument(d.text, id=d.id) for d in SERVICES]
    retriever = GraphRAGRetriever.from_documents(documents, HashEmbedder(), path=folder, k=3)
    expected = [d.id for d in retriever.invoke(QUESTIONS[0])]

    def child() -> None:
        import asyncio

        exactly([d.id for d in retriever.invoke(QUESTIONS[0])], expected)
        exactly([d.id for d in asyncio.run(retriever.ainvoke(QUESTIONS[0]))], expected)
        refuse(lambda: retriever.add_documents(documents), "process")
        refuse(lambda: retriever.delete(["auth"]), "process")
        retriever.close()

    run_child(child)
    exactly([d.id for d in pickle.loads(pickle.dumps(retriever)).invoke(QUESTIONS[0])], expected)
    assert_still_writer(retriever.index, folder)


def llama(folder: Path) -> None:
    from llama_index.core.schema import TextNode

    from llama_graphrag import GraphRAGRetriever

    nodes = [TextNode(text=d.text, id_=d.id) for d in SERVICES]
    retriever = GraphRAGRetriever.from_nodes(nodes, HashEmbedder(), path=folder, similarity_top_k=3)
    expected = [found.node.node_id for found in retriever.retrieve(QUESTIONS[0])]

    def child() -> None:
        import asyncio

        exactly([found.node.node_id for found in retriever.retrieve(QUESTIONS[0])], expected)
        exactly([found.node.node_id for found in asyncio.run(retriever.aretrieve(QUESTIONS[0]))], expected)
        refuse(lambda: retriever.insert_nodes([TextNode(text="Something new.", id_="new")]), "process")
        refuse(lambda: retriever.delete_nodes(["auth"]), "process")
        retriever.close()

    run_child(child)
    exactly([n.node.node_id for n in pickle.loads(pickle.dumps(retriever)).retrieve(QUESTIONS[0])], expected)
    assert_still_writer(retriever.index, folder)


def run_scenarios(names: str, folder: Path) -> None:
    """Run scenarios one after another in a process of their own, for a test."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", __file__, str(folder), *names.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    assert "panicked" not in done.stderr
    assert "Traceback" not in done.stderr, done.stderr


if __name__ == "__main__":
    for name in sys.argv[2:]:
        (Path(sys.argv[1]) / name).mkdir()
        globals()[name](Path(sys.argv[1]) / name / "kb")
