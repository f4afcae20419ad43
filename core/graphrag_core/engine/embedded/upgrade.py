"""Convert the folder of an older format to the current one."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from graphrag_core.engine.embedded.files import Folder
from graphrag_core.engine.embedded.records import Records
from graphrag_core.engine.embedded.schema import FORMAT
from graphrag_core.errors import IndexLocked

_PATIENCE = 1.0  # seconds to wait for readers


@contextmanager
def upgraded(path: str | Path) -> Iterator[Path]:
    """Yield a folder in the current format, in which to rebuild an index; the folder itself if it has this format.

    The index of an older format is copied into a folder beside its own. When the block ends, the copy takes the place
    of the old records in one step. If the block raises, or the process is killed, the old index is there as it was.

    Raises
    ------
    IndexLocked
        Another process has the folder open.
    NotAnIndex, DamagedIndex, UnsupportedFormat, DiskError
        The folder cannot be read or written.

    Examples
    --------
    >>> with upgraded("kb") as folder, KnowledgeIndex.open(folder, embedder) as index:  # doctest: +SKIP
    ...     index.rebuild()
    """
    folder = Folder(Path(path))
    with ExitStack() as held:
        with closing(Records(folder.records, read_only=True, older=True)) as old:
            is_current = old.format == FORMAT
        if is_current:
            yield folder.path
            return
        held.callback(folder.lock().release)
        _set_journal_mode(folder.records, "DELETE")  # fails early if somebody reads
        _set_journal_mode(folder.records, "WAL")
        new = Folder(folder.path.absolute().with_name(f".{folder.path.name}.rebuilt"))
        held.callback(shutil.rmtree, new.path, ignore_errors=True)
        shutil.rmtree(new.path, ignore_errors=True)  # of a process that was killed
        new.path.mkdir()
        with closing(Records(folder.records, read_only=True, older=True)) as old:
            old.copy_to(new.records)
        yield new.path
        _set_journal_mode(folder.records, "DELETE")  # a log of the old records must not meet the new ones
        folder.replace_records(new)


def _set_journal_mode(path: Path, mode: str) -> None:
    """Set the journal mode of a database. The mode DELETE removes the write-ahead log."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=_PATIENCE)) as db:
        try:
            found = db.execute(f"PRAGMA journal_mode = {mode}").fetchone()[0]
        except sqlite3.OperationalError as error:
            found = str(error)
    if found.upper() != mode:
        raise IndexLocked(f"{path.parent} is used by another process ({found}): close the index there, and retry")
