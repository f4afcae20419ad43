"""The catalogue of an index in PostgreSQL, in the same database: several machines may sync files into one index.

A file is known by its path, so machines that sync the same files must see them under the same path. Each statement is
a transaction of its own and may be repeated, so that two runs never wait for each other.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from typing_extensions import Self

from graphrag_core.documents.catalogue import Catalogue, CatalogueEntry, CatalogueRows
from graphrag_core.documents.walk import File
from graphrag_core.engine.postgres.database import Database, Row
from graphrag_core.errors import NotAnIndex

_PAGE = 5_000
_UNWRITTEN = 5_000  # documents that are recorded at once, at most
_RUN = "run"  # the setting that counts runs


class SharedCatalogue(Catalogue):
    """Files and the documents read from them, in tables of the index's database.

    Parameters
    ----------
    url
        The address of the index. It is created if it is missing.
    read_only
        Never write; raise :class:`~graphrag_core.errors.NotAnIndex` if there is no such index.
    run
        The run to take part in, of another process; None begins one.
    """

    def __init__(self, url: str, *, read_only: bool = False, run: int | None = None) -> None:
        self._database = Database(url, read_only=read_only)
        self._unwritten: dict[str, int] = {}  # documents that were added, and the keys of their files
        try:
            self._index = self._database.open()
            self.run = 0 if read_only else self._next_run() if run is None else run
        except BaseException:
            self._database.close()
            raise

    def _rows(self, sql: str, **parameters: Any) -> list[Row]:
        """Run a statement that may be repeated."""

        def attempt() -> list[Row]:
            with self._database.connection() as connection, connection.cursor() as cursor:
                cursor.execute(sql, {"index": self._index, "run": self.run, **parameters})
                return cursor.fetchall() if cursor.description else []

        return self._database.repeated(attempt)

    def _next_run(self) -> int:
        """Return a number above that of every run before."""
        self.run = 0
        rows = self._rows(
            "INSERT INTO catalogue_settings (index, key, value) VALUES (%(index)s, %(name)s, '1') "
            "ON CONFLICT (index, key) DO UPDATE SET value = (catalogue_settings.value::bigint + 1)::text "
            "RETURNING value",
            name=_RUN,
        )
        return int(rows[0][0])

    # -- files

    def register(self, file: File) -> CatalogueEntry:
        found: list[Row] = []
        while not found:
            found = self._rows(
                "UPDATE catalogue_files SET run = greatest(run, %(run)s) WHERE index = %(index)s AND path = %(path)s "
                "RETURNING key, name, digest",
                path=str(file.path),
            ) or self._register_new(file)
        return CatalogueEntry(*found[0])

    def _register_new(self, file: File) -> list[Row]:
        """Create the entry of a new file, or take over that of one that was moved here.

        Return nothing if another machine registers the file or its name at the same time.
        """
        parent = file.path.as_posix().removesuffix(f"/{file.name}").rpartition("/")[2]
        own = {"path": str(file.path), "machine": platform.node()}
        for name in (file.name, f"{parent}/{file.name}", file.path.as_posix()):
            known = self._rows(
                "SELECT key, path, machine FROM catalogue_files WHERE index = %(index)s AND name = %(name)s", name=name
            )
            if not known:
                return self._rows(
                    "INSERT INTO catalogue_files (index, path, name, machine, run) "
                    "VALUES (%(index)s, %(path)s, %(name)s, %(machine)s, %(run)s) "
                    "ON CONFLICT DO NOTHING RETURNING key, name, digest",
                    name=name,
                    **own,
                )
            key, path, machine = known[0]
            if machine == own["machine"] and not Path(path).exists():
                break
        return self._rows(
            "UPDATE catalogue_files SET path = %(path)s, machine = %(machine)s, run = greatest(run, %(run)s) "
            "WHERE index = %(index)s AND key = %(key)s RETURNING key, name, digest",
            key=key,
            **own,
        )

    def set_digest(self, entry: CatalogueEntry, digest: str) -> None:
        self._rows(
            "UPDATE catalogue_files SET digest = %(digest)s WHERE index = %(index)s AND key = %(key)s",
            key=entry.key,
            digest=digest,
        )

    def missing_files(self, folder: str) -> Iterator[tuple[CatalogueEntry, str]]:
        prefix = folder.rstrip("/\\")
        found = self._rows(
            "SELECT key, name, digest, path FROM catalogue_files WHERE index = %(index)s AND run < %(run)s "
            "AND starts_with(path, %(prefix)s) AND substr(path, %(after)s, 1) IN ('/', '\\') ORDER BY key",
            prefix=prefix,
            after=len(prefix) + 1,
        )
        for *entry, path in found:
            yield CatalogueEntry(*entry), path

    def files(self) -> Iterator[tuple[CatalogueEntry, str]]:
        last = -1
        while page := self._rows(
            "SELECT key, name, digest, path FROM catalogue_files WHERE index = %(index)s AND key > %(last)s "
            f"ORDER BY key LIMIT {_PAGE}",
            last=last,
        ):
            for *entry, path in page:
                yield CatalogueEntry(*entry), path
            last = page[-1][0]

    def remove_file(self, entry: CatalogueEntry) -> None:
        self._rows(
            "WITH documents AS (DELETE FROM catalogue_documents WHERE index = %(index)s AND file = %(key)s) "
            "DELETE FROM catalogue_files WHERE index = %(index)s AND key = %(key)s",
            key=entry.key,
        )

    # -- documents

    def add_document(self, entry: CatalogueEntry, document_id: str) -> None:
        self._unwritten[document_id] = entry.key
        if len(self._unwritten) >= _UNWRITTEN:
            self.commit()

    def documents(self, entry: CatalogueEntry, *, stale: bool = False) -> list[str]:
        self.commit()
        found = self._rows(
            "SELECT id FROM catalogue_documents WHERE index = %(index)s AND file = %(key)s "
            "AND (run < %(run)s OR NOT %(stale)s) ORDER BY id",
            key=entry.key,
            stale=stale,
        )
        return [row[0] for row in found]

    def remove_documents(self, document_ids: list[str]) -> None:
        self.commit()
        self._rows(
            "WITH removed AS (DELETE FROM catalogue_documents WHERE index = %(index)s AND id = ANY(%(ids)s) "
            "RETURNING file) UPDATE catalogue_files SET digest = '' WHERE index = %(index)s "
            "AND key IN (SELECT file FROM removed)",
            ids=document_ids,
        )

    # -- settings

    def get_setting(self, key: str) -> Any:
        rows = self._rows("SELECT value FROM catalogue_settings WHERE index = %(index)s AND key = %(name)s", name=key)
        return json.loads(rows[0][0]) if rows else None

    def write_setting(self, key: str, value: Any) -> None:
        self._rows(
            "INSERT INTO catalogue_settings (index, key, value) VALUES (%(index)s, %(name)s, %(value)s) "
            "ON CONFLICT (index, key) DO UPDATE SET value = excluded.value",
            name=key,
            value=json.dumps(value),
        )

    # -- all of it

    def rows(self) -> Iterator[CatalogueRows]:
        settings = self._rows(
            "SELECT key, value FROM catalogue_settings WHERE index = %(index)s AND key <> %(name)s "
            "AND NOT starts_with(key, 'extra:')",  # what an engine keeps there and can compute again
            name=_RUN,
        )
        yield CatalogueRows({key: json.loads(value) for key, value in settings}, [], [])
        last = -1
        while files := self._rows(
            "SELECT key, path, name, digest FROM catalogue_files WHERE index = %(index)s AND key > %(last)s "
            f"ORDER BY key LIMIT {_PAGE}",
            last=last,
        ):
            yield CatalogueRows({}, [(path, name, digest) for _, path, name, digest in files], [])
            last = files[-1][0]
        after = ""
        while documents := self._rows(
            "SELECT d.id, f.name FROM catalogue_documents d JOIN catalogue_files f ON f.index = d.index "
            f"AND f.key = d.file WHERE d.index = %(index)s AND d.id > %(after)s ORDER BY d.id LIMIT {_PAGE}",
            after=after,
        ):
            yield CatalogueRows({}, [], [(document_id, name) for document_id, name in documents])
            after = documents[-1][0]

    def clear(self) -> None:
        self._unwritten.clear()
        self._rows(
            "WITH documents AS (DELETE FROM catalogue_documents WHERE index = %(index)s), "
            "settings AS (DELETE FROM catalogue_settings WHERE index = %(index)s AND key <> %(name)s) "
            "DELETE FROM catalogue_files WHERE index = %(index)s",
            name=_RUN,
        )

    def add_rows(self, rows: CatalogueRows) -> None:
        for key, value in rows.settings.items():
            self.write_setting(key, value)
        if rows.files:
            paths, names, digests = zip(*rows.files, strict=True)
            self._rows(
                "INSERT INTO catalogue_files (index, path, name, digest, machine, run) "
                "SELECT %(index)s, p, n, d, %(machine)s, 0 FROM unnest(%(paths)s::text[], %(names)s::text[], "
                "%(digests)s::text[]) AS t(p, n, d) "
                "ON CONFLICT (index, path) DO UPDATE SET name = excluded.name, digest = excluded.digest",
                machine=platform.node(),
                paths=list(paths),
                names=list(names),
                digests=list(digests),
            )
        if rows.documents:
            ids, names = zip(*rows.documents, strict=True)
            self._rows(
                "INSERT INTO catalogue_documents (index, id, file, run) SELECT %(index)s, i, f.key, 0 "
                "FROM unnest(%(ids)s::text[], %(names)s::text[]) AS t(i, n) "
                "JOIN catalogue_files f ON f.index = %(index)s AND f.name = n "
                "ON CONFLICT (index, id) DO UPDATE SET file = excluded.file",
                ids=list(ids),
                names=list(names),
            )

    def commit(self) -> None:
        if not self._unwritten:
            return
        # In order of id, so that two runs that record the same documents do not wait for each other in a circle.
        ids = sorted(self._unwritten)
        self._rows(
            "INSERT INTO catalogue_documents (index, id, file, run) SELECT %(index)s, i, f, %(run)s "
            "FROM unnest(%(ids)s::text[], %(files)s::bigint[]) WITH ORDINALITY AS t(i, f, o) ORDER BY o "
            "ON CONFLICT (index, id) DO UPDATE SET file = excluded.file, "
            "run = greatest(catalogue_documents.run, excluded.run)",
            ids=ids,
            files=[self._unwritten[document_id] for document_id in ids],
        )
        self._unwritten.clear()

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self


def read_setting(url: str, key: str) -> Any:
    """Return a stored value of an index; None if there is no such value, or no such index. Never writes."""
    with suppress(NotAnIndex):
        catalogue = SharedCatalogue(url, read_only=True)
        try:
            return catalogue.get_setting(key)
        finally:
            catalogue.close()
    return None
