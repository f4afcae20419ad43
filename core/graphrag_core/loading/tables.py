"""CSV and its relatives: a document for each row, read as they come."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from graphrag_core.errors import FileError
from graphrag_core.loading.content import Content, Fault
from graphrag_core.loading.decode import detect
from graphrag_core.loading.rows import row_content
from graphrag_core.loading.values import typed

_SAMPLE = 1 << 16
_LONGEST_FIELD = 10_000_000
_DELIMITERS = ",;\t|"


def read_table(path: Path) -> Iterator[Content | Fault]:
    """Read a table whose first row names the columns."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    with path.open("rb") as file:
        encoding = detect(file.read(_SAMPLE))
    try:
        with path.open(encoding=encoding, newline="") as file:
            dialect = _dialect(file.read(_SAMPLE), path)
            file.seek(0)
            yield from _rows(csv.reader(file, dialect))
    except UnicodeDecodeError as error:
        raise FileError(f"is not {encoding} throughout: save it as UTF-8") from error
    except csv.Error as error:
        raise FileError(f"is a broken table ({error})") from error


def _rows(rows: Iterator[list[str]]) -> Iterator[Content | Fault]:
    names: list[str] | None = None
    number = 0
    for row in rows:
        if not any(cell.strip() for cell in row):
            continue
        if names is None:
            names = [cell.strip() or f"column {i}" for i, cell in enumerate(row, 1)]
            if any("\x00" in name for name in names):
                raise FileError("is binary, not text")
            continue
        number += 1
        if len(row) > len(names):
            yield Fault(str(number), f"the row has {len(row)} fields, the header {len(names)}")
            continue
        yield row_content({name: typed(cell) for name, cell in zip(names, row, strict=False)}, number)


def _dialect(sample: str, path: Path) -> type[csv.Dialect] | csv.Dialect:
    if path.suffix.lower() == ".tsv":
        return csv.excel_tab()
    first = sample.split("\n", 1)[0]
    dialect = csv.excel()
    dialect.delimiter = max(_DELIMITERS, key=first.count)  # the first wins a tie
    return dialect
