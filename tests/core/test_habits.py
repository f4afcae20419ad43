"""What applications rely on: errors that reach them, metadata of every kind, settings that can be changed."""

from __future__ import annotations

import logging
from collections import OrderedDict
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from functools import partial
from pathlib import PurePosixPath
from types import MappingProxyType
from uuid import UUID

import numpy as np
import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex, SearchSettings
from graphrag_core.errors import DocumentError, EmbedderError, FilterError, InputError
from graphrag_core.strategies import Linear, Neighbourhood, ReciprocalRank
from graphrag_core.testing import CHAIN, CountingEmbedder, HashEmbedder


class RateLimitError(Exception):
    """As in the clients of paid services: it cannot be created from a message alone."""

    def __init__(self, message, *, response, body):
        super().__init__(message)
        self.response, self.body, self.status_code = response, body, 429

    def __str__(self):
        return f"{self.status_code}: {self.body}"


class Failing(HashEmbedder):
    """Fails on questions while ``error`` is set."""

    error: Exception | None = None

    def embed_query(self, text):
        if self.error is not None:
            raise self.error
        return super().embed_query(text)


@pytest.fixture
def embedder():
    return Failing()


@pytest.fixture
def index(embedder):
    with KnowledgeIndex(embedder) as index:
        index.add(CHAIN)
        yield index


# -- an embedder that fails


@pytest.mark.parametrize("method", ["hybrid", "vector", "graph"])
def test_an_embedder_that_fails_is_an_error_of_the_query(index, embedder, method):
    embedder.error = RateLimitError("slow down", response=None, body="quota")
    with pytest.raises(
        EmbedderError, match=r"hash-64 .*raised RateLimitError.* 429: quota.*on_embedder_error=\"keyword\""
    ) as raised:
        GraphRetriever(index, method=method).retrieve("Tallinn")
    assert raised.value.__cause__ is embedder.error
    assert isinstance(raised.value, RateLimitError), "a handler for the embedder's own error catches it"
    assert raised.value.status_code == 429


def test_keyword_search_needs_no_embedder(index, embedder):
    embedder.error = ConnectionError("no route")
    assert GraphRetriever(index, method="keyword").retrieve("Tallinn").hits
    assert GraphRetriever(index, method="agentic").retrieve("Tallinn", method="keyword").hits


def test_a_vector_that_cannot_be_used_is_an_error_too(index, monkeypatch, embedder):
    monkeypatch.setattr(embedder, "embed_query", lambda text: [1.0, 2.0])
    with pytest.raises(EmbedderError, match="dimension 2, the index has 64"):
        GraphRetriever(index).retrieve("Tallinn")


def test_keywords_answer_if_asked_and_it_is_said(index, embedder, caplog):
    retriever = GraphRetriever(index, on_embedder_error="keyword")
    embedder.error = ConnectionError("no route")
    result = retriever.retrieve("Tallinn")
    assert result.hits[0].chunk.id == "keyring"
    assert result.embedder_failed
    assert "no route" in result.fallback
    assert "ask again" in result.advice
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "raised ConnectionError on a question: no route" in caplog.text
    embedder.error = None
    full = retriever.retrieve("Tallinn")
    assert "cache" not in full.trace.stages, "the answer without vectors was not stored"
    assert not full.embedder_failed
    embedder.error = ConnectionError("no route")
    assert "cache" in retriever.retrieve("Tallinn").trace.stages, "the full answer was"
    assert len(caplog.records) == 1


# -- a question without words


@pytest.mark.parametrize("question", ["", " \n\t", "\u3000"])
def test_a_blank_question_finds_nothing_and_is_logged(caplog, question):
    embedder = CountingEmbedder()
    with KnowledgeIndex(embedder) as index:
        index.add(CHAIN)
        result = GraphRetriever(index).retrieve(question)
        assert GraphRetriever(index).warm([question]) == 1
    assert result.hits == ()
    assert "empty" in result.advice
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert embedder.queries == []


# -- metadata


class Level(str, Enum):
    HIGH = "high"


class Grade(IntEnum):
    A = 1


ID = UUID("12345678-1234-5678-1234-567812345678")
VALUES = {
    "day": (date(2024, 5, 1), "2024-05-01"),
    "naive": (datetime(2024, 5, 1, 10), "2024-05-01T10:00:00"),  # noqa: DTZ001
    "aware": (datetime(2024, 5, 1, 10, tzinfo=timezone(timedelta(hours=2))), "2024-05-01T08:00:00+00:00"),
    "clock": (time(9, 30), "09:30:00"),
    "uuid": (ID, str(ID)),
    "path": (PurePosixPath("a/b.txt"), "a/b.txt"),
    "enum": (Level.HIGH, "high"),
    "grade": (Grade.A, 1),
    "int64": (np.int64(3), 3),
    "float32": (np.float32(0.5), 0.5),
    "float64": (np.float64(0.5), 0.5),
    "bool_": (np.bool_(True), True),
    "str_": (np.str_("a"), "a"),
    "nanoseconds": (np.datetime64("2024-05-01T10:00:00", "ns"), "2024-05-01T10:00:00"),
    "month": (np.datetime64("2024-05"), "2024-05-01"),
}
LISTS = {
    "tuple": ((1, (2, Level.HIGH)), [1, [2, "high"]]),
    "set": ({"b", "a"}, ["a", "b"]),
    "frozen": (frozenset({2, 1}), [1, 2]),
    "nested": ({"when": [date(2024, 5, 1)], "by": OrderedDict(id=ID)}, {"when": ["2024-05-01"], "by": {"id": str(ID)}}),
    "proxy": (MappingProxyType({"a": 1}), {"a": 1}),
}


def test_values_of_every_kind_are_stored_as_json_and_filters_find_them(tmp_path):
    given = {name: value for name, (value, _) in {**VALUES, **LISTS}.items()}
    stored = {name: value for name, (_, value) in {**VALUES, **LISTS}.items()}
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder()) as index:
        index.add([Document("a", "Keyring.", metadata=given), Document("b", "Keyring too.")])
        assert index.get("a").metadata == stored
        assert index.add([Document("a", "Keyring.", metadata=given)]).unchanged == 1
        assert index.add([Document("a", "Keyring.", metadata=stored)]).unchanged == 1, "the same as its stored form"
        retriever = GraphRetriever(index)
        for name, (value, _) in VALUES.items():
            for where in ({name: value}, {name: {"in": [value, "other"]}}, {name: {"gte": value}}):
                if isinstance(value, np.bool_) and where[name] != value and "gte" in where[name]:
                    continue
                assert [hit.chunk.id for hit in retriever.retrieve("Keyring", where=where)] == ["a"], where
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder()) as index:
        assert index.document_ids({"set": {"in": {"b"}}, "nested.by.id": ID}) == ["a"]


def test_times_are_compared_by_ranges():
    zone = timezone(timedelta(hours=2))
    with KnowledgeIndex(HashEmbedder()) as index:
        times = [datetime(2024, 5, day, 1, tzinfo=zone) for day in (1, 2, 3)]
        index.add([Document(str(n), "Keyring.", metadata={"at": at}) for n, at in enumerate(times)])
        assert index.document_ids({"at": {"gte": times[1].astimezone(timezone.utc)}}) == ["1", "2"]
        assert index.document_ids({"at": {"gt": times[0], "lt": times[2]}}) == ["1"]
        assert index.document_ids({"at": {"lt": times[1] + timedelta(microseconds=1)}}) == ["0", "1"]
        assert index.document_ids({"at": {"gte": date(2024, 5, 2)}}) == ["2"], "1 o'clock is still yesterday in UTC"


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), float("inf"), np.float32("nan"), Decimal("3.5"),
        np.datetime64("NaT"), b"bytes", object(), 1j, np.complex64(1), timedelta(1), np.timedelta64(1, "D"), range(3),
        np.array([1.0, np.nan]),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_values_that_json_cannot_hold_are_refused_by_key(value):
    with KnowledgeIndex(HashEmbedder()) as index:
        with pytest.raises(DocumentError, match=r"document 'a': the metadata cannot be stored: 'x\.y' is"):
            index.add([Document("a", "Keyring.", metadata={"x": {"y": value}})])
        assert len(index) == 0
        index.add([Document("a", "Keyring.", metadata={"x": 1})])
        with pytest.raises((FilterError, InputError)):
            index.document_ids({"x": value})
        with pytest.raises(InputError, match="'x' is"):
            index.memory.remember("User", "likes", "tea", metadata={"x": value})


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({"__id__": "auth"}, {"auth"}),
        ({"__id__": {"in": ["auth", "lunch", "nobody"]}}, {"auth", "lunch"}),
        ({"__id__": {"nin": ["auth", "lunch"]}}, {"oauth", "keyring", "secret"}),
        ({"__id__": {"in": []}}, set()),
        ({"__id__": 3}, set()),
        ({"__id__": {"exists": True}, "tenant": "umbrella"}, {"secret"}),
        ({"not": {"__id__": {"gte": "b"}}}, {"auth"}),
    ],
)
def test_documents_are_filtered_by_id(index, where, found):
    assert set(index.document_ids(where)) == found
    hits = GraphRetriever(index).retrieve("Who runs the Auth Service?", where=where, k=10).hits
    assert {hit.chunk.document_id for hit in hits} <= found


# -- settings


def test_settings_that_depend_on_others_follow(index):
    settings = SearchSettings()
    assert isinstance(settings.resolved.fusion, ReciprocalRank)
    assert isinstance(settings.resolved.reranker, Linear)
    other = settings.replace(graph=Neighbourhood())
    assert other.resolved.fusion == Neighbourhood().fusion
    assert other.resolved.reranker is False
    retriever = GraphRetriever(index, other, k=2, fusion=ReciprocalRank(), method=None)
    result = retriever.retrieve("Auth Service", method="keyword")
    assert (result.method, len(result.hits)) == ("keyword", 2)
    assert len(retriever.retrieve("Auth Service", settings=settings).hits) == 5
    scored = GraphRetriever(index, reranker=lambda question, chunks: [1.0] * len(chunks), cache=None)
    assert scored.retrieve("Auth Service").hits[0].score == 1.0
    assert "cache" not in [stage for _ in range(2) for stage in scored.retrieve("Auth Service").trace.stages]


@pytest.mark.parametrize(
    ("name", "value"),
    [("method", "magic"), ("k", 0), ("candidates", -1), ("graph", "pagerank"), ("fusion", Linear), ("reranker", 3),
     ("vector_weight", -1), ("on_embedder_error", "ignore"), ("gate.min_score", 2), ("score_threshold", -1)],
)  # fmt: skip
def test_a_setting_that_cannot_be_used_is_refused(index, name, value):
    with pytest.raises(InputError):
        SearchSettings().replace(**{name: value})
    with pytest.raises(InputError):
        GraphRetriever(index).retrieve("Auth Service", **{name: value})


def test_a_misspelt_setting_is_refused(index):
    for call in (SearchSettings().replace, partial(GraphRetriever, index), partial(GraphRetriever(index).retrieve, "")):
        with pytest.raises(InputError, match="unknown search setting 'methd': did you mean 'method'"):
            call(methd="keyword")
        with pytest.raises(InputError, match="use method, k"):
            call(zzz=1)
