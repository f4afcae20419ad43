"""What happens to open indexes when their process forks, as gunicorn's ``--preload`` and ``multiprocessing`` do.

A child has a copy of the parent's memory, but only the thread that forked. So it must not wait for a lock that another
thread held, nor use or free an object that has threads (an ONNX session). A database connection is
worse than useless: SQLite believes that the child holds the parent's file locks, also for connections that the child
opens, and a writer would then overwrite what the child reads. So connections are at rest during a fork, and the child
closes its copies before anything else runs. The parent keeps its locks: POSIX file locks belong to a process. A library
in another language has locks that nobody else sees: a fork waits until no thread is inside such a call
(:func:`fork_waits`).

Objects that need care are passed to :func:`watch`.
"""

import ctypes
import gc
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

PATIENCE = 30.0
"""Seconds that a fork waits for a statement, a transaction or a call of another thread."""

_watched: dict[int, "weakref.ref[Watched]"] = {}
_forking = threading.RLock()
_is_child = False
_collects = True  # whether garbage was collected before a fork


class Watched(Protocol):
    """An object that has to act when its process forks."""

    def after_fork_in_child(self) -> None:
        """Replace locks; let go of what belongs to the parent. Must not wait for anything."""


def watch(owner: Watched) -> None:
    """Call an object's ``after_fork_in_child`` when its process has forked, as long as the object lives.

    If it has ``before_fork`` and ``after_fork_in_parent`` too, these are called around the fork.
    """
    key = id(owner)
    _watched[key] = weakref.ref(owner, lambda _: _watched.pop(key, None))


def is_child() -> bool:
    """Return whether this process was forked after the library was imported."""
    return _is_child


def leak(*values: object) -> None:
    """Never free some objects, also not at exit: their threads are in the parent."""
    for value in values:
        if value is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def close_copies(path: str | os.PathLike[str]) -> None:
    """Close the copies of a lock file's descriptors, without releasing the lock, which is the parent's.

    A lock on a file that stays open here would outlive the process that acquired it.
    """
    with suppress(OSError):
        own = Path(path).stat()
        for copy in list(Path("/dev/fd").iterdir()):
            with suppress(OSError):
                if os.path.samestat(os.fstat(int(copy.name)), own):
                    os.close(int(copy.name))


_condition = threading.Condition()
_calls: set[object] = set()  # into libraries, which a fork waits for
_forks: list[bool] = []  # not empty while the process forks, which calls wait for


@contextmanager
def fork_waits() -> Iterator[None]:
    """Let a fork wait for the end of a call into a library, and the call for the end of a fork.

    No lock that ``before_fork`` acquires may be held or acquired meanwhile.
    """
    call = object()
    try:
        with _condition:
            if _forks:
                _condition.wait_for(lambda: not _forks, PATIENCE)
            _calls.add(call)
        yield
    finally:
        with _condition:
            _calls.discard(call)
            _condition.notify_all()


def _alive() -> Iterator[Any]:
    for reference in list(_watched.values()):
        if (owner := reference()) is not None:
            yield owner


def _before() -> None:
    global _collects  # noqa: PLW0603 - of one fork at a time
    _forking.acquire()
    # Until all owners have let go: a collection in the child would free what is garbage and has threads in the parent.
    _collects = gc.isenabled()
    gc.disable()
    for owner in _alive():
        if hasattr(owner, "before_fork"):
            owner.before_fork()
    with _condition:
        _forks.append(True)
        _condition.wait_for(lambda: not _calls, PATIENCE)  # last: one that waits for a lock of an owner has ended


def _after_in_parent() -> None:
    with _condition:
        _forks.clear()
        _condition.notify_all()
    for owner in _alive():
        if hasattr(owner, "after_fork_in_parent"):
            owner.after_fork_in_parent()
    if _collects:
        gc.enable()
    _forking.release()


def _after_in_child() -> None:
    global _forking, _is_child, _condition
    _forking, _is_child, _condition = threading.RLock(), True, threading.Condition()
    _calls.clear()
    _forks.clear()
    for owner in _alive():
        owner.after_fork_in_child()
    if _collects:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
