"""All attacks on an index, two at a time, for some minutes: prints counts and every failure.

``PYTHONPATH=benchmarks python -m torture.run 60`` runs for an hour. ``--write`` puts the counts into
docs/reliability.md. ``--sample`` is for `make test`: it does not judge how time grows with the length of a text, since
other processes disturb it, and leaves out files that expand, of which `tests/cli/test_hostile_files.py` loads some.
One process spends its time on faults. The other one spends half of it on hostile input, 30 % on a server, the rest on
tenants.
"""

from __future__ import annotations

import multiprocessing
import sys
from datetime import datetime, timezone
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from torture import bombs, faults, hostile, server, tenants
from torture.report import Row, table

DOCS = Path(__file__).parents[2] / "docs" / "reliability.md"
_SEED = 1
"""Of a sample, so that the same attacks run each time."""

MARKS = "<!-- torture -->\n", "<!-- end of torture -->\n"


def _faults(seconds: float, found: SimpleQueue[list[Row]], sample: bool) -> None:
    seed = _SEED if sample else None
    found.put(_reported(faults.run(seconds, seed)))


def _inputs(seconds: float, found: SimpleQueue[list[Row]], sample: bool) -> None:
    seed = _SEED if sample else None
    rows = _reported(hostile.run(0.5 * seconds, seed, timed=not sample))
    rows += [] if sample else _reported(bombs.run())
    found.put([*rows, *_reported(server.run(0.3 * seconds, seed)), *_reported(tenants.run(0.2 * seconds, seed))])


def _reported(rows: list[Row]) -> list[Row]:
    """Print the counts of one attack when it ends."""
    print(table(rows), flush=True)
    return rows


def main(minutes: float, *, write: bool, sample: bool) -> int:
    """Run all attacks; return the number of failures."""
    context = multiprocessing.get_context("spawn")
    found: SimpleQueue[list[Row]] = context.SimpleQueue()
    processes = [context.Process(target=part, args=(60 * minutes, found, sample)) for part in (_faults, _inputs)]
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
    sys.exit(min(main(float(sys.argv[1]), write="--write" in options, sample="--sample" in options), 1))
