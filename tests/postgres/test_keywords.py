"""Keyword search in PostgreSQL scores as tantivy does."""

from __future__ import annotations

import numpy as np
import pytest
from graphrag_core.engine.embedded.keywords import TantivyKeywords
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphrag_core.engine.postgres import keywords, writer
from graphrag_core.engine.postgres.engine import PostgresEngine
from graphrag_core.engine.postgres.schema import FACT_BITS
from graphrag_core.engine.rows import FIELDS

WORDS = (
    "the token tokens service Auth auth_service brokerUrl broker url fox foxes jumped Ada Lovelace 東京大学 大学 "
    "源氏物語 日本 über Malmö v1.2.3 a of is CELERY_BROKER_URL celery 2024 数据库 数据 库存"
).split()
texts = st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)
chunks = st.tuples(texts.filter(bool), st.one_of(st.just(""), texts), st.one_of(st.just(""), texts), texts)
corpora = st.lists(st.tuples(chunks, st.lists(texts.filter(bool), max_size=3)), min_size=1, max_size=12)
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
phrases = st.lists(st.sampled_from(WORDS), min_size=2, max_size=3).map(lambda found: f'"{" ".join(found)}" token')
questions = st.one_of(words, words, phrases)


def store(engine: PostgresEngine, corpus, *, segments: int) -> tuple[TantivyKeywords, TantivyKeywords]:
    """Write texts as segments of their own, and into tantivy."""
    of_chunks, of_facts = TantivyKeywords(fields=len(FIELDS)), TantivyKeywords()
    keys = writer.reserve(engine.database, len(corpus))
    added: tuple[list, list] = [], []
    parts = np.array_split(np.arange(len(corpus)), segments)
    for part in parts:
        segment, lengths, rows, facts_count = keywords.Segment(), np.zeros(5, np.int64), [], 0
        for at in part.tolist():
            key, (fields, facts) = keys[at], corpus[at]
            own = segment.add_chunk(key, fields)
            rows.append(key)
            in_facts = 0
            for ordinal, text in enumerate(facts):
                in_facts += segment.add(keywords.FACTS, (key << FACT_BITS) + ordinal, text)
                added[1].append(((key << FACT_BITS) + ordinal, (text,)))
                facts_count += 1
            added[0].append((key, fields))
            lengths += [*own, in_facts]
        if not rows:
            continue
        with engine.database.transaction() as cursor:
            writer.copy(cursor, "segments", [(engine.index, rows[0], len(rows))])
            writer.copy(cursor, "postings", segment.rows(engine.index, rows[0]))
            for key in rows:
                fields = corpus[keys.index(key)][0]
                document = (engine.index, key, str(key), "", "", "{}", "", 0, 0.0, None)
                writer.copy(cursor, "documents", [document])
                writer.copy(cursor, "chunks", [(engine.index, key, str(key), key, 0, 0, fields[0], 0, None, None, b"",
                                                None, None, [0, 0, 0], 0, [0] * 5, key)])  # fmt: skip
            cursor.execute(
                "UPDATE indexes SET chunks = chunks + %s, facts = facts + %s, generation = generation + 1, lengths = "
                "ARRAY(SELECT a + b FROM unnest(lengths, %s::bigint[]) WITH ORDINALITY t(a, b, n) ORDER BY n) "
                "WHERE id = %s",
                (len(rows), facts_count, lengths, engine.index),
            )
            keywords.tidy(cursor, engine.index)
    of_chunks.apply(1, None, added[0])
    of_facts.apply(1, None, added[1])
    return of_chunks, of_facts


def agree(found, expected) -> None:
    """The same keys with the same scores; ties may be ordered by rounding."""
    keys, scores = found
    others, other_scores = expected
    np.testing.assert_allclose(scores, other_scores, rtol=2e-6)
    mine, theirs = (
        dict(zip(keys.tolist(), scores.tolist(), strict=True)),
        dict(zip(others.tolist(), other_scores.tolist(), strict=True)),
    )
    for key in mine.keys() & theirs.keys():
        assert mine[key] == pytest.approx(theirs[key], rel=2e-6)
    for key in mine.keys() ^ theirs.keys():  # rounding decides what ties with the last
        assert mine.get(key, theirs.get(key)) == pytest.approx(min(other_scores), rel=2e-6)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(corpora, st.lists(questions, min_size=1, max_size=4), st.integers(1, 3), st.integers(1, 20))
def test_scores_are_those_of_tantivy(urls, corpus, asked, segments, k):
    engine = PostgresEngine(urls())
    try:
        of_chunks, of_facts = store(engine, corpus, segments=segments)
        for question in asked:
            with engine.snapshot() as snapshot:
                found = snapshot._store._keywords.search("chunks", question, k)
                agree(found, of_chunks.search(question, k))
                agree(snapshot._store._keywords.search("facts", question, k), of_facts.search(question, k))
                terms = snapshot.terms(question)
                assert snapshot.term_counts(terms).tolist() == of_chunks.counts(terms).tolist()
    finally:
        engine.close()


def test_lengths_are_quantised_as_in_tantivy():
    # From the table of tantivy's fieldnorm codes: exact up to 40, then four significant bits.
    assert [keywords._LENGTHS[code] for code in (0, 39, 40, 41, 42, 48, 49, 56, 64, 255)] == [
        0, 39, 40, 42, 44, 56, 60, 88, 152, 2_013_265_944,
    ]  # fmt: skip
    assert [keywords.norm(length) for length in (0, 1, 40, 41, 42, 59, 60)] == [0, 1, 40, 40, 41, 48, 49]


def test_many_small_segments_are_merged_and_purged(url):
    engine = PostgresEngine(url)
    corpus = [((f"token number {at}", "", "", ""), [f"fact {at} of token"]) for at in range(40)]
    of_chunks, _ = store(engine, corpus, segments=40)
    assert engine.database.value("SELECT count(*) FROM segments WHERE index = %s", (engine.index,)) < 20
    with engine.snapshot() as snapshot:
        agree(snapshot._store._keywords.search("chunks", "token 7", 10), of_chunks.search("token 7", 10))
    dead = [row[0] for row in engine.database.rows("SELECT key FROM chunks WHERE index = %s", (engine.index,))[:30]]
    with engine.database.transaction() as cursor:
        cursor.execute("INSERT INTO dead_chunks SELECT %s, unnest(%s::bigint[])", (engine.index, dead))
        cursor.execute("UPDATE indexes SET dead = 30, generation = generation + 1 WHERE id = %s", (engine.index,))
    with engine.snapshot() as snapshot:
        assert snapshot.term_counts(["token"]).tolist() == [10]
    with engine.database.transaction() as cursor:
        keywords.purge(cursor, engine.index)
    with engine.snapshot() as snapshot:
        assert snapshot.term_counts(["token"]).tolist() == [10]
        assert len(snapshot._store._keywords.search("facts", "token", 50)[0]) == 10
    engine.close()
