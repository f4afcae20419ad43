"""Extractors and embedders that misbehave: the error is ours and names the document, and nothing is stored."""

from __future__ import annotations

import pickle
from dataclasses import replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction

import numpy as np
import pytest
from support import SERVICES

from graphrag_core import (
    Combined,
    Document,
    Extraction,
    Fact,
    GraphRetriever,
    KnowledgeIndex,
    Mention,
    SentenceExtractor,
)
from graphrag_core.errors import EmbedderError, ExtractionError, GraphRAGError, InputError
from graphrag_core.testing import HashEmbedder

FACT = Fact(("Auth Service", "Keyring"), "Auth Service uses Keyring", "uses")
MENTION = Mention("Auth Service")


class Raises:
    """Whatever is done with it raises."""

    def __getattribute__(self, name):
        raise ConnectionError("lost")

    def __iter__(self):
        raise ConnectionError("lost")


class Text(str):
    __slots__ = ()


class Kind(str, Enum):
    SERVICE = "service"


def facts(**changed):
    return lambda chunks: [Extraction((MENTION,), (replace(FACT, **changed),)) for _ in chunks]


def mentions(**changed):
    return lambda chunks: [Extraction((replace(MENTION, **changed),), (FACT,)) for _ in chunks]


def fails(chunks):
    raise TimeoutError("no answer")


def breaks_off(chunks):
    yield Extraction()
    raise KeyError("missing")


def exits_in_the_middle(chunks):
    yield Extraction()


EXTRACTORS = {
    "raises": fails,
    "a generator that raises": breaks_off,
    "too few": exits_in_the_middle,
    "too many": lambda chunks: [Extraction()] * (len(chunks) + 1),
    "none": lambda chunks: None,
    "a number": lambda chunks: 5,
    "dictionaries": lambda chunks: [{"mentions": []} for _ in chunks],
    "nothing for each": lambda chunks: [None for _ in chunks],
    "lists": lambda chunks: [[] for _ in chunks],
    "objects that raise": lambda chunks: [Raises() for _ in chunks],
    "mentions that are none": lambda chunks: [Extraction(None) for _ in chunks],
    "mentions that are texts": lambda chunks: [Extraction(("Auth Service",)) for _ in chunks],
    "mentions that raise": lambda chunks: [Extraction(Raises()) for _ in chunks],
    "facts that are tuples": lambda chunks: [Extraction((), (("a", "b", "c"),)) for _ in chunks],
    "facts that are a text": lambda chunks: [Extraction((), "facts") for _ in chunks],
    "a problem that is no text": lambda chunks: [Extraction(problem=5) for _ in chunks],
    "name None": mentions(name=None),
    "name bytes": mentions(name=b"Auth"),
    "type None": mentions(type=None),
    "type list": mentions(type=["service"]),
    "description number": mentions(description=5),
    "aliases text": mentions(aliases="IBM"),
    "aliases of numbers": mentions(aliases=(1, 2)),
    "entities None": facts(entities=None),
    "entities text": facts(entities="AB"),
    "entities of None": facts(entities=(None, "A")),
    "text None": facts(text=None),
    "relation list": facts(relation=["uses"]),
    "value number": facts(value=5),
    "weight text": facts(weight="strong"),
    "weight None": facts(weight=None),
    "weight nan": facts(weight=float("nan")),
    "weight infinite": facts(weight=float("inf")),
    "weight negative": facts(weight=-1),
    "weight huge": facts(weight=1e300),
    "weight list": facts(weight=[1]),
    "weight complex": facts(weight=1j),
    "confidence text": facts(confidence="high"),
    "confidence nan": facts(confidence=float("nan")),
    "confidence above 1": facts(confidence=3),
    "source number": facts(source=7),
    "status unknown": facts(status="maybe"),
    "status list": facts(status=["confirmed"]),
    "created text": facts(created="2024"),
    "created nan": facts(created=float("nan")),
    "accessed text": facts(last_accessed="now"),
    "count float": facts(access_count=1.5),
    "count negative": facts(access_count=-1),
    "count huge": facts(access_count=2**70),
    "span number": facts(span=5),
    "span of one": facts(span=(1,)),
    "span of texts": facts(span=("a", "b")),
    "span outside": facts(span=(0, 10**6)),
    "span reversed": facts(span=(5, 2)),
    "span negative": facts(span=(-3, 2)),
    "validity": facts(valid_from=5.0),
}


class Extracts:
    def __init__(self, function) -> None:
        self.function = function

    def extract(self, chunks):
        return self.function(chunks)


@pytest.mark.parametrize("kind", EXTRACTORS)
def test_a_misbehaving_extractor(tmp_path, kind):
    """A weight that is no number was committed, and the folder could not be opened any more."""
    document = Document("guide.md#7", "The Auth Service uses Keyring.")
    with KnowledgeIndex.open(tmp_path, HashEmbedder(16), extractor=Extracts(EXTRACTORS[kind])) as index:
        with pytest.raises(ExtractionError, match=r"guide\.md#7") as raised:
            index.add([document, Document("other", "Other text.")])
        assert len(index) == 0
        assert pickle.loads(pickle.dumps(raised.value)).args == raised.value.args
    with KnowledgeIndex.open(tmp_path, HashEmbedder(16)) as index:
        index.add(SERVICES)
        assert index.verify(), str(index.verify())


def test_the_parts_of_a_combined_extractor_are_checked_one_by_one():
    class Broken:
        def extract(self, chunks):
            return [Extraction(("no mention",)) for _ in chunks]

    with (
        KnowledgeIndex(extractor=Combined(SentenceExtractor(), Broken())) as index,
        pytest.raises(ExtractionError, match="Broken returned a value for document '1'"),
    ):
        index.add([Document("1", "Ada wrote to Charles.")])


def test_the_error_of_an_extractor_is_also_of_the_type_that_it_raised():
    with KnowledgeIndex(extractor=Extracts(fails)) as index, pytest.raises(TimeoutError, match="no answer"):
        index.add(SERVICES)


USABLE = {
    "lists": lambda chunks: [Extraction([MENTION], [FACT]) for _ in chunks],
    "numbers of numpy": facts(weight=np.float32(4), confidence=np.float64(0.5), access_count=np.int64(2)),
    "an integer": facts(weight=4),
    "a fraction": facts(weight=Fraction(9, 2)),
    "a span of numpy": facts(span=(np.int64(0), np.int64(5))),
    "a span as a list": facts(span=[0, 5]),
    "texts of a subclass": facts(text=Text("Auth Service uses Keyring"), relation=Text("uses")),
    "a type of an enumeration": mentions(type=Kind.SERVICE),
    "a truth value of numpy": mentions(subject=np.bool_(True)),
    "an iterator": lambda chunks: iter([Extraction(iter([MENTION]), iter([FACT])) for _ in chunks]),
}


@pytest.mark.parametrize("kind", USABLE)
def test_what_can_be_stored_is_stored_in_plain_types(tmp_path, kind):
    with KnowledgeIndex.open(tmp_path, HashEmbedder(16), extractor=Extracts(USABLE[kind])) as index:
        index.add([Document("a", "The Auth Service uses Keyring.")])
        assert index.graph.relations(relation="uses")
        assert index.verify(), str(index.verify())
    with KnowledgeIndex.open(tmp_path, HashEmbedder(16)) as index:
        assert index.verify(), str(index.verify())


# -- embedders


def embeds(function):
    return lambda texts: function(len(texts))


def raises_value_error(texts):
    raise ValueError("too long")


class NoArray:
    def __array__(self, *arguments, **named):
        raise OSError("on another device")

    def __len__(self) -> int:
        return 1


EMBEDDERS = {
    "raises": raises_value_error,
    "raises MemoryError": lambda texts: (_ for _ in ()).throw(MemoryError()),
    "None": lambda texts: None,
    "a number": lambda texts: 5.0,
    "a text": lambda texts: "vectors",
    "a dictionary": lambda texts: {"data": []},
    "a generator": lambda texts: ([1.0] * 16 for _ in texts),
    "a generator that raises": breaks_off,
    "one vector": embeds(lambda count: [1.0] * 16),
    "too few": embeds(lambda count: [[1.0] * 16] * (count - 1)),
    "too many": embeds(lambda count: [[1.0] * 16] * (count + 1)),
    "no dimension": embeds(lambda count: [[]] * count),
    "three dimensions": embeds(lambda count: np.ones((count, 4, 4))),
    "different lengths": embeds(lambda count: [[1.0] * (n + 1) for n in range(count)]),
    "NaN": embeds(lambda count: np.full((count, 16), np.nan)),
    "infinity": embeds(lambda count: np.full((count, 16), np.inf)),
    "one NaN": embeds(lambda count: np.where(np.eye(count, 16) > 0, np.nan, 1.0)),
    "too large for single precision": embeds(lambda count: np.full((count, 16), 1e300)),
    "texts": embeds(lambda count: [["1.0"] * 16] * count),
    "truth values": embeds(lambda count: np.ones((count, 16), bool)),
    "complex numbers": embeds(lambda count: np.ones((count, 16), complex)),
    "bytes": embeds(lambda count: [b"0" * 16] * count),
    "None in vectors": embeds(lambda count: [[None] * 16] * count),
    "objects": embeds(lambda count: [[object()] * 16] * count),
    "dates": embeds(lambda count: np.zeros((count, 16), "M8[s]")),
    "an array that cannot be read": lambda texts: NoArray(),
    "arrays that cannot be read": embeds(lambda count: [NoArray()] * count),
}


class Embeds:
    identity = "test"

    def __init__(self, function) -> None:
        self.function = function

    def embed_documents(self, texts):
        return self.function(texts)

    def embed_query(self, text):
        return self.function([text])[0]


@pytest.mark.parametrize("kind", EMBEDDERS)
def test_a_misbehaving_embedder(tmp_path, kind):
    with KnowledgeIndex.open(tmp_path, Embeds(EMBEDDERS[kind])) as index:
        with pytest.raises(EmbedderError, match=r"guide\.md#7|'other'|document"):
            index.add([Document("guide.md#7", "The Auth Service uses Keyring."), Document("other", "Other text.")])
        assert len(index) == 0
    with KnowledgeIndex.open(tmp_path, HashEmbedder(16)) as index:  # of another dimension
        index.add(SERVICES)
        assert index.verify(), str(index.verify())


def test_an_embedder_whose_dimension_changes(tmp_path):
    dims = iter([8, 16, 16, 16])
    sizes = {}

    def changing(texts):
        return np.ones((len(texts), sizes.setdefault(texts[0], next(dims))))

    with KnowledgeIndex.open(tmp_path, Embeds(changing), batch_size=1) as index:
        index.add(SERVICES[:1])
        with pytest.raises(EmbedderError, match="dimension 16, the index has 8"):
            index.add(SERVICES[1:])
        assert len(index) == 1
        assert index.verify(), str(index.verify())


@pytest.mark.parametrize("kind", ["NaN", "None", "raises", "texts", "an array that cannot be read"])
def test_a_misbehaving_embedder_of_questions(tmp_path, kind):
    with KnowledgeIndex.open(tmp_path, Embeds(embeds(lambda count: np.ones((count, 16))))) as index:
        index.add(SERVICES)
        index.embedding.embedder.function = EMBEDDERS[kind]
        with pytest.raises(GraphRAGError):
            GraphRetriever(index).retrieve("auth service")


@pytest.mark.parametrize(
    "numbers", [[Decimal("0.5")] * 16, [Fraction(1, 2)] * 16, np.ones(16, np.float16), range(1, 17)]
)
def test_numbers_of_other_types_are_vectors(numbers):
    with KnowledgeIndex(Embeds(lambda texts: [numbers for _ in texts])) as index:
        index.add(SERVICES)
        assert index.verify(), str(index.verify())


class Unknown:
    @property
    def identity(self):
        raise OSError("no model")

    def embed_documents(self, texts):
        return []

    def embed_query(self, text):
        return []

    def extract(self, chunks):
        return []


def test_an_identity_that_cannot_be_read():
    with pytest.raises(InputError, match="identity"):
        KnowledgeIndex(Unknown())
    with pytest.raises(InputError, match="identity"):
        KnowledgeIndex(extractor=Unknown())
