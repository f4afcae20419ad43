"""What happens to open indexes when their process forks, as gunicorn's ``--preload`` and ``multiprocessing`` do.

A child has a copy of the parent's memory, but only the thread that forked. So it must not wait for a lock that another
thread held, nor use or free an object that has threads (an ONNX session). A database connection is worse than useless:
SQLite believes that the child holds the parent's file locks, also for connections that the child opens. So a fork waits
until no thread is inside a call of :func:`fork_waits`, and the child closes its copies before anything else runs. The
parent keeps its locks: POSIX file locks belong to a process.

Objects that need care are passed to :func:`watch`.
"""

import ctypes
import gc
import os
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Protocol

_PATIENCE = 30.0  # seconds that a fork waits for the calls of other threads

_watched: dict[int, "weakref.ref[Watched]"] = {}
_forking = threading.RLock()
_condition = threading.Condition()
_calls: dict[int, int] = {}  # into libraries, by thread, which a fork waits for
_forks: list[int] = []  # not empty while the process forks, which calls wait for
_is_child = False
_collects = True  # whether garbage was collected before a fork


class Watched(Protocol):
    """An object that has to act when its process forks."""

    def after_fork_in_child(self) -> None:
        """Replace locks; let go of what belongs to the parent. Must not wait for anything."""


def watch(owner: Watched) -> None:
    """Call an object's ``after_fork_in_child`` when its process has forked, as long as the object lives."""
    key = id(owner)
    _watched[key] = weakref.ref(owner, lambda _: _watched.pop(key, None))


def is_child() -> bool:
    """Return whether this process was forked after the library was imported."""
    return _is_child


def is_at_rest() -> bool:
    """Return whether no other thread is inside a call that a fork waits for."""
    return not (_calls.keys() - {threading.get_ident()})


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


class _Call:
    """A call into a library. Has no state: entering and leaving are counted by thread."""

    def __enter__(self) -> None:
        me = threading.get_ident()
        with _condition:
            if me not in _calls and _forks:
                _condition.wait_for(lambda: not _forks, _PATIENCE)
            _calls[me] = _calls.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with _condition:
            if _calls.get(me, 0) > 1:
                _calls[me] -= 1
            else:
                _calls.pop(me, None)
            _condition.notify_all()


fork_waits = _Call()
"""Lets a fork wait for the end of a call into a library, and the call for the end of a fork: ``with fork_waits:``."""


def _before() -> None:
    global _collects  # noqa: PLW0603 - of one fork at a time
    _forking.acquire()
    # Until all owners have let go: a collection in the child would free what is garbage and has threads in the parent.
    _collects = gc.isenabled()
    gc.disable()
    with _condition:
        _forks.append(1)
        _condition.wait_for(is_at_rest, _PATIENCE)


def _after_in_parent() -> None:
    with _condition:
        _forks.clear()
        _condition.notify_all()
    if _collects:
        gc.enable()
    _forking.release()


def _after_in_child() -> None:
    global _forking, _is_child, _condition
    _forking, _is_child, _condition = threading.RLock(), True, threading.Condition()
    for reference in list(_watched.values()):
        if (owner := reference()) is not None:
            owner.after_fork_in_child()
    _calls.clear()
    _forks.clear()
    if _collects:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
