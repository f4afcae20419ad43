"""A filter is read once, and nothing but the value it was parsed into decides what is seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from graphrag_apps.documents import load_documents
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import DocumentError, FilterError
from graphrag_core.filters import Condition, Group, parse, parse_all
from graphrag_core.testing import HashEmbedder

TENANTS = ("acme", "umbrella")


@pytest.fixture
def index():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(
            Document(
                f"{tenant}-{number}", f"Keyring {number} belongs to {tenant.title()}.", metadata={"tenant": tenant}
            )
            for tenant in TENANTS
            for number in range(3)
        )
        yield index


class Changing(Mapping):
    """A mapping that answers differently each time it is read."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.reads = 0

    def _next(self):
        self.reads += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def __getitem__(self, key):
        return self._next()[key]

    def __iter__(self):
        return iter(self._next())

    def __len__(self):
        return 1

    def items(self):
        return self._next().items()


class Lying(str):
    """A text that is equal to everything."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other):
        return True

    def removeprefix(self, prefix):
        return "or"


def seen(result):
    return {hit.chunk.id.partition("-")[0] for hit in result}


ONE_SHOT = {
    "changing": lambda: Changing({"tenant": "acme"}, {"tenant": "umbrella"}),
    "inner": lambda: {"and": [Changing({"tenant": "acme"}, {})]},
    "operators": lambda: {"tenant": Changing({"eq": "acme"}, {"ne": "acme"})},
    "key": lambda: {Lying("tenant"): Lying("acme")},
}


@pytest.mark.parametrize("where", ONE_SHOT.values(), ids=ONE_SHOT)
def test_every_entrance_reads_a_filter_once(index, where):
    retriever = GraphRetriever(index)
    assert seen(retriever.retrieve("Keyring", where=where())) == {"acme"}
    assert seen(retriever.retrieve("Keyring", where={"tenant": "acme"})) == {"acme"}, "from the cache"
    assert {name.partition("-")[0] for name in index.document_ids(where())} == {"acme"}
    assert retriever.warm(5, where=where()) == len(retriever.index.graph.entities(where={"tenant": "acme"}, limit=5))
    assert retriever.warm(["Keyring"], where=where(), background=True).result() == 1
    assert {hit.chunk.metadata["tenant"] for hit in retriever.retrieve("Umbrella", where=where())} == {"acme"}


def test_a_parsed_filter_is_a_filter(index):
    parsed = parse({"tenant": "acme"})
    assert parse(parsed) is parsed
    assert parse_all(None, None) is None
    assert parse_all(None, parsed) is parsed
    both = parse_all(parsed, {"tenant": {"in": ["umbrella"]}})
    assert index.document_ids(both) == [], "a filter narrows, whatever the other one says"
    assert hash(both) == hash(parse_all({"tenant": "acme"}, {"tenant": {"in": ("umbrella",)}}))
    assert index.memory.facts(where=parsed) == []


@pytest.mark.parametrize(
    "where",
    [
        {"and": []},
        {"and": [{}]},
        {"or": [{}, {"tenant": "acme"}]},
        {"not": {}},
        {"tenant": "acme", "or": [{"and": []}]},
        {"and": iter([{"tenant": "acme"}])},
        {"tenant": {"nin": iter(["umbrella"])}},
        {"tenant": {}},
    ],
)
def test_what_is_empty_or_an_iterator_inside_a_filter_is_refused(index, where):
    with pytest.raises(FilterError):
        index.document_ids(where)


def test_no_filter_matches_all_and_no_alternative_nothing(index):
    assert len(index.document_ids({})) == len(index.document_ids(None)) == 6
    assert index.document_ids({"or": []}) == []
    assert parse({"or": []}) == Group(all=False, parts=())


def test_a_filter_that_cannot_be_read_is_refused(index):
    deep: dict = {"tenant": "acme"}
    for _ in range(20_000):
        deep = {"not": deep}
    for where in (deep, {"tenant": {"in": b"acme"}}, "acme"):
        with pytest.raises(FilterError):
            index.document_ids(where)


def test_a_parsed_filter_has_plain_values():
    parsed = parse({Lying("tenant"): Lying("acme")})
    assert isinstance(parsed, Condition)
    assert type(parsed.key) is str
    assert type(parsed.values[0][1]) is str


def test_a_key_with_a_dot_cannot_pose_as_a_nested_one():
    with KnowledgeIndex() as index:
        for metadata in (
            {"acl": {"tenant": "acme"}, "acl.tenant": "umbrella"},
            {"acl": [{"group": "x"}], "acl.tenant": "umbrella"},
            {"a": {"acl": {"tenant": "acme"}, "acl.tenant": "umbrella"}},
        ):
            with pytest.raises(DocumentError, match=r"acl\.tenant"):
                index.add([Document("1", "Keyring.", metadata=metadata)])
        index.add([Document("1", "Keyring.", metadata={"acl.tenant": "acme", "acl": "x"})])
        assert index.document_ids({"acl.tenant": "acme"}) == ["1"]


def test_a_file_cannot_replace_what_the_application_says_of_it(tmp_path: Path):
    front = (
        "---\ntenant: umbrella\nfolder: secret\nsource: x\nfile_name: y\nacl.tenant: umbrella\n"
        "acl:\n  tenant: umbrella\n__graphrag__: x\ngraphrag_fact: x\nauthor: Ada\n---\n\nKeyring.\n"
    )
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "a.md").write_text(front)
    for given in ({"tenant": "acme", "acl": {"tenant": "acme"}}, {"tenant": "acme", "acl.tenant": "acme"}):
        (document,) = load_documents([tmp_path], metadata=given)
        expected = {"folder": "public", "format": "markdown", "source": "public/a.md", "file_name": "a.md", **given}
        assert {key: document.metadata[key] for key in expected} == expected
        assert "__graphrag__" not in document.metadata
        assert "graphrag_fact" not in document.metadata
        with KnowledgeIndex() as index:
            index.add([document])
            assert index.document_ids({"acl.tenant": "acme", "author": "Ada"}) == ["public/a.md"]
            assert index.document_ids({"acl.tenant": "umbrella"}) == []


def test_entities_and_facts_within_a_scope(index):
    inside = {"tenant": "acme"}
    assert index.graph.entity("Umbrella") is not None
    assert index.graph.entity("Umbrella", where=inside) is None
    assert index.graph.facts("Umbrella", where=inside) == []
    assert index.graph.neighbours("Umbrella", where=inside) == []
    assert index.graph.relations("Umbrella", where=inside) == []
    assert not any("Umbrella" in (entity.name, *entity.aliases) for entity in index.graph.entities(where=inside))
    assert [document.id for document in index.documents(where=inside)] == ["acme-0", "acme-1", "acme-2"]
