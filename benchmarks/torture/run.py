"""All attacks on an index, two at a time, for some minutes: prints counts and every failure.

``PYTHONPATH=benchmarks python -m torture.run 60`` runs for an hour. ``--write`` puts the counts into
docs/reliability.md. ``--untimed`` does not judge how time grows with the length of a text: `make test` does so, since
other processes disturb it.
Half of the time goes to faults, a third to hostile input, the rest to tenants.
"""

from __future__ import annotations

import multiprocessing
import sys
from datetime import datetime, timezone
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from torture import faults, hostile, tenants
from torture.report import Row, table

DOCS = Path(__file__).parents[2] / "docs" / "reliability.md"
MARKS = "<!-- torture -->\n", "<!-- end of torture -->\n"


def _faults(seconds: float, found: SimpleQueue[list[Row]], _timed: bool) -> None:
    found.put(_reported(faults.run(seconds)))


def _inputs(seconds: float, found: SimpleQueue[list[Row]], timed: bool) -> None:
    found.put([*_reported(hostile.run(2 / 3 * seconds, timed=timed)), *_reported(tenants.run(1 / 3 * seconds))])


def _reported(rows: list[Row]) -> list[Row]:
    """Print the counts of one attack when it ends."""
    print(table(rows), flush=True)
    return rows


def main(minutes: float, *, write: bool, timed: bool) -> int:
    """Run all attacks; return the number of failures."""
    context = multiprocessing.get_context("spawn")
    found: SimpleQueue[list[Row]] = context.SimpleQueue()
    processes = [context.Process(target=part, args=(60 * minutes, found, timed)) for part in (_faults, _inputs)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode:
            print(f"an attack ended with exit code {process.exitcode}", file=sys.stderr)
            return 1
    rows = [row for _ in processes for row in found.get()]
    text = table(rows)
    print(f"All attacks:\n\n{text}")
    if write:
        before, _, rest = DOCS.read_text(encoding="utf-8").partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        day = datetime.now(tz=timezone.utc).date().isoformat()
        note = f"{minutes:g} minutes on two cores, {day}.\n\n"
        DOCS.write_text(f"{before}{MARKS[0]}{note}{text}{MARKS[1]}{after}", encoding="utf-8")
    return sum(row.failures for row in rows)


if __name__ == "__main__":
    options = sys.argv[2:]
    sys.exit(min(main(float(sys.argv[1]), write="--write" in options, timed="--untimed" not in options), 1))
