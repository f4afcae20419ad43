"""Tasks that are interrupted while they start, or while somebody waits for them."""

from __future__ import annotations

import threading
import time

import pytest

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.engine.embedded import background, files
from graphrag_core.engine.embedded.background import Task, run_together
from graphrag_core.testing import HashEmbedder


def test_a_thread_that_begins_while_another_cancels_it_is_waited_for():
    """The thread gets its number and begins after the other has seen that it has none."""
    began, done = threading.Event(), []

    def work() -> None:
        began.set()
        time.sleep(0.1)
        done.append(1)

    class Late(Task):
        asked = 0

        @property
        def ident(self):
            self.asked += 1
            if self.asked == 1 and threading.current_thread() is not self:
                self.start()
                began.wait()
                return None
            return super().ident

    task = Late(work)
    task.finish()
    assert done == [1]
    task.result()


def test_an_interrupt_while_tasks_are_waited_for_leaves_none_running(monkeypatch):
    done, running = [], []
    finish, calls = Task.finish, []

    def interrupted(task):
        calls.append(task)
        if len(calls) == 1:
            raise KeyboardInterrupt
        finish(task)

    monkeypatch.setattr(Task, "finish", interrupted)
    slow = [lambda: (time.sleep(0.1), done.append(1)) for _ in range(2)]
    with pytest.raises(KeyboardInterrupt):
        run_together([*slow, lambda: None], running)
    assert done == [1, 1]
    assert not any(task.is_alive() for task in running)


def test_what_a_second_interrupt_left_running_is_waited_for_by_the_next_call(monkeypatch):
    done, running, go = [], [], threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(background, "_finish_all", lambda tasks: None)
        patch.setattr(Task, "result", lambda task: None)
        run_together([lambda: (go.wait(), done.append(1)), lambda: None], running)
    assert done == []
    threading.Timer(0.2, go.set).start()
    run_together([lambda: done.append(2), lambda: done.append(3)], running)
    assert done[0] == 1


def test_an_interrupt_before_a_write_began_is_raised_as_it_is(tmp_path, monkeypatch):
    with KnowledgeIndex.open(tmp_path / "kb") as index:
        index.add([Document("a", "Ada met Bob.")])
        with monkeypatch.context() as patch:
            patch.setattr(Task, "start", lambda task: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                index.add([Document("b", "Ada met Bob.")])
        assert index.delete("a") == 1, "the write that was interrupted is not reported to another call"
        assert index.document_ids() == []
        assert index.verify()


def test_an_interrupt_while_an_old_generation_is_deleted_is_no_damage(tmp_path, monkeypatch):
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(8)) as index:
        index.add([Document("a", "Ada met Bob.")])
        index.compact()
        index.add([Document("b", "Ada met Carol.")])

        def interrupted(path, ignore_errors=False):
            for file in path.glob("*.arrays"):
                file.unlink()
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(files.shutil, "rmtree", interrupted)
            with pytest.raises(KeyboardInterrupt):
                index.compact()
        assert index.verify(), str(index.verify())


def test_a_thread_that_ends_without_saying_so_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(background, "_CHECK", 0.01)
    done = []
    task = Task(lambda: done.append(1))
    monkeypatch.setattr(task._ended, "set", lambda: None)  # as after an exception just before it
    task.begin()
    task.result()
    assert done == [1]
