"""Many rows in one statement leave what one statement a row would."""

from __future__ import annotations

import sqlite3

from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphrag_core.engine.embedded.writer import insert

# Values that are equal but not the same, and columns of one value throughout.
values = st.sampled_from([None, 0, 0.0, False, 1, 1.0, "", "1", b"1", "a"])
columns = st.tuples(values, values, values, values)


@settings(max_examples=60, deadline=None)
@given(columns, st.dictionaries(st.integers(0, 700), columns, max_size=3), st.sampled_from([3, 17, 700]))
@example((0, None, "", 1), {5: (0.0, None, "", 1)}, 700)
@example((1, None, "", 1), {699: (1.0, None, "", 1), 0: (1.0, None, "", 1)}, 700)
def test_rows_arrive_as_they_are(usual, others, count):
    rows = [(key, *others.get(key, usual)) for key in range(count)]
    with sqlite3.connect(":memory:") as db:
        for table in ("many", "one"):
            db.execute(f"CREATE TABLE {table} (key INTEGER PRIMARY KEY, a, b REAL, c TEXT, d INTEGER)")
        insert(db, "many", rows)
        db.executemany("INSERT INTO one VALUES (?, ?, ?, ?, ?)", rows)
        found = [db.execute(f"SELECT *, typeof(a), typeof(c) FROM {table}").fetchall() for table in ("many", "one")]
    assert found[0] == found[1]
    assert len(found[0]) == count
