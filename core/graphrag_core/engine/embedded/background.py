"""Work in background threads that survives interrupts and threads that cannot be started."""

import threading
from collections.abc import Callable

from graphrag_core.errors import StorageError

_CHECK = 1.0  # seconds between looks at whether a thread still runs


class Task(threading.Thread):
    """A function that runs once: in a new thread, or in the caller's if no thread can be started.

    What the function raises is raised by :meth:`result`. Nothing waits for a task that never started:
    :meth:`finish` cancels it then, as after an interrupt during :meth:`begin`.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        super().__init__(name="graphrag-write")
        self._function = function
        self._claimed = threading.Lock()  # acquired once, by who runs the function or cancels it
        self._ended = threading.Event()  # set by the thread
        self._done = False
        self._error: BaseException | None = None

    def begin(self) -> None:
        """Start the function."""
        try:
            self.start()
        except RuntimeError:  # the process has no more threads
            self.run()

    def run(self) -> None:
        """Run the function, unless it ran or was cancelled."""
        try:
            if self._claimed.acquire(blocking=False):
                self._function()
                self._done = True
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._error = error
        finally:
            self._ended.set()

    def cancel(self) -> bool:
        """Return whether the function had not begun; then it never will."""
        return self._claimed.acquire(blocking=False)

    def finish(self) -> None:
        """Wait until the function has ended. It does not begin any more if it has not."""
        if self.ident is None:
            self.cancel()  # if it runs here, it has ended
        # A thread that claimed it has its number by now, also if an interrupt kept the caller from waiting for that.
        if self.ident is not None and self.ident != threading.get_ident():
            while not self._ended.wait(_CHECK):  # it is not set if an exception came just before that
                try:
                    self.join(0)
                except RuntimeError:  # the thread has not said yet that it has started
                    continue
                if not self.is_alive():
                    break
            self.join()

    def result(self) -> None:
        """Wait for the function; raise what it raised, or that it did not run."""
        self.finish()
        if self._error is not None:
            raise self._error
        if not self._done:
            raise StorageError("a write was interrupted before it began; nothing was changed: retry")


def run_together(functions: list[Callable[[], None]], running: list[Task]) -> None:
    """Run functions at the same time, the last one in this thread; raise the first error after all have ended.

    An interrupt while this waits is raised when all have ended. ``running`` has the tasks of the call, so that the next
    call waits for those that a second interrupt may leave.
    """
    _finish_all(running)
    *beside, last = (Task(function) for function in functions)
    running[:] = beside
    try:
        for task in beside:
            task.begin()
        last.run()
    finally:
        _finish_all(running)
    for task in (*beside, last):
        task.result()


def _finish_all(tasks: list[Task]) -> None:
    interrupt: BaseException | None = None
    for task in tasks:
        try:
            task.finish()
        except BaseException as error:  # noqa: BLE001 - raised below
            interrupt = error
            task.finish()
    if interrupt is not None:
        raise interrupt
