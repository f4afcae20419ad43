"""API keys: files, scopes, and what is written with one."""

from __future__ import annotations

import stat

import pytest

from graphrag_apps.serve import ApiKeys, Gateway, make_key
from graphrag_apps.serve.errors import Conflict, NotAllowed, NotAuthenticated, NotFound
from graphrag_apps.serve.models import DocumentValue
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import ConfigError, InputError
from graphrag_core.filters import matches, parse


def test_a_key_is_stored_as_a_hash_and_found_by_its_secret(tmp_path):
    path, secrets = tmp_path / "keys.toml", {}
    for name, where in (("a", {"tenant": 'a "quoted" \x7f ü'}), ("all", None)):
        key, secrets[name] = ApiKeys.generate(name, where, write=name == "a", requests_per_minute=30)
        ApiKeys.append(path, key, where)
    text = path.read_text("utf-8")
    assert not any(secret in text for secret in secrets.values())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    keys = ApiKeys.load(path)
    assert len(keys) == 2
    found = keys.authenticate(secrets["a"])
    assert (found.name, found.write, found.requests_per_minute) == ("a", True, 30)
    assert found.where == make_key("a", {"tenant": 'a "quoted" \x7f ü'}).where
    assert keys.authenticate(secrets["all"]).where is None
    for wrong in (None, "", "guessed", secrets["a"] + " ", secrets["a"][:-1], "\ud800"):
        with pytest.raises(NotAuthenticated):
            keys.authenticate(wrong)
    with pytest.raises(InputError, match="has a key named 'a'"):
        ApiKeys.append(path, found, None)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('name = "a"', "key.0.sha256 is missing"),
        (f'name = "a"\nsha256 = "{"0" * 64}"\nwher = "x"', "unknown key 'wher': did you mean 'where'"),
        (f'name = "a"\nsha256 = "{"0" * 64}"\nwhere = "{{"', "key.0.where is '{': .*Expecting"),
        (f'name = "a"\nsha256 = "{"0" * 64}"\nwhere = {{ year = {{ near = 3 }} }}', "key 'a': .*unknown operator"),
        (f'name = "a"\nsha256 = "{"0" * 64}"\nwrite = "yes"', "key.0.write is 'yes': input should be a valid boolean"),
        ('name = "a"\nsha256 = "secret"', "not a hash"),
        (f'name = ""\nsha256 = "{"0" * 64}"', "printable"),
        *(
            (f'name = "a"\nsha256 = "{"0" * 64}"\nwhere = {where}', "an empty filter")
            for where in ('"null"', '"{}"', '"[]"', "{}", "[]", '"0"', "false")
        ),
    ],
)
def test_a_file_that_may_open_the_scope_is_refused(tmp_path, entry, problem):
    path = tmp_path / "keys.toml"
    path.write_text(f"[[key]]\n{entry}\n", "utf-8")
    with pytest.raises(InputError, match=problem):
        ApiKeys.load(path)


def test_files_that_are_none_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        ApiKeys.load(tmp_path / "missing.toml")
    (tmp_path / "keys.toml").write_text("keys = 1", "utf-8")
    with pytest.raises(ConfigError, match="unknown key 'keys': did you mean 'key'"):
        ApiKeys.load(tmp_path / "keys.toml")


@pytest.mark.parametrize(
    ("where", "given", "expected"),
    [
        ({"tenant": "a"}, {}, {"tenant": "a"}),
        ({"tenant": "a"}, {"tenant": "a", "x": 1}, {"tenant": "a", "x": 1}),
        ({"tenant": "a"}, {"tenant": "b"}, None),
        ({"tenant": "a"}, {"tenant": ["a", "b"]}, None),
        ({"tenant": "a"}, {"tenant": {"x": "a"}}, None),
        ({"acl.tenant": "a"}, {"acl": {"x": 1}}, {"acl": {"x": 1, "tenant": "a"}}),
        ({"acl.tenant": "a"}, {"acl": "b"}, None),
        ({"acl.tenant": "a"}, {"acl": [{"tenant": "a"}, {"tenant": "b"}]}, None),
        ({"tenant": "a", "level": {"lte": 3}}, {"level": 2}, {"tenant": "a", "level": 2}),
        ({"tenant": "a", "level": {"lte": 3}}, {"level": 4}, None),
        ({"tenant": "a", "level": {"lte": 3}}, {}, None),
        ({"or": [{"tenant": "a"}, {"tenant": "b"}]}, {"tenant": "b"}, {"tenant": "b"}),
        ({"or": [{"tenant": "a"}, {"tenant": "b"}]}, {"tenant": ["b", "c"]}, None),
        ({"or": [{"tenant": "a"}, {"tenant": "b"}]}, {}, None),
        ({"draft": {"ne": True}}, {}, {}),
        ({"draft": {"ne": True}}, {"draft": True}, None),
        ({"owner": None}, {}, {"owner": None}),
    ],
)
def test_metadata_of_a_written_document(where, given, expected):
    key = make_key("a", where, write=True)
    if expected is None:
        with pytest.raises(NotAllowed):
            key.stamp(given)
    else:
        assert key.stamp(given) == expected
        assert matches(where, key.stamp(given))


def test_a_callers_filter_narrows_and_never_widens():
    with KnowledgeIndex() as index:
        index.add(
            [Document(name, "Text.", metadata={"tenant": name, "only_b" if name == "b" else "n": 1}) for name in "ab"]
        )
        gateway, key = Gateway(index), make_key("a", {"tenant": "a"})
        for where in (
            {"tenant": "b"},
            {"or": [{"tenant": "a"}, {"tenant": "b"}]},
            {"not": {"tenant": "a"}},
            {"n": 1},
            {},
        ):
            assert set(index.document_ids(gateway.scope(key, where))) <= {"a"}
        retriever = GraphRetriever(index)
        for name in ("only_b", "nobody"):  # the caller cannot tell whether other documents have the key
            for where in ({name: 1}, {name: {"ne": 1}}, {name: {"exists": False}}):
                result = retriever.retrieve("Text", where=gateway.scope(key, where))
                assert not result.hits
                assert result.advice.startswith(f"no document has the metadata key {name!r}: ")
        assert "nobody" not in retriever.retrieve("Text", where=make_key("c", {"nobody": 1}).where).advice
        assert index.document_ids(gateway.scope(make_key("c", {"nobody": 1}), {"nothing": 2})) == []
        gateway.close()


def test_a_key_whose_field_is_misspelt_sees_no_document_by_its_id_either():
    with KnowledgeIndex() as index:
        index.add([Document("a", "Text.", metadata={"tenant": "a"})])
        gateway, key = Gateway(index, write=True), make_key("k", {"tenent": {"ne": "b"}}, write=True)
        assert gateway.documents(key).documents == []
        with pytest.raises(NotFound):
            gateway.document(key, "a")
        with pytest.raises(NotFound):
            gateway.delete(key, "a")
        with pytest.raises(Conflict):
            gateway.add(key, [DocumentValue(id="a", text="Other.")])
        gateway.close()


def test_a_filter_of_the_server_narrows_every_key():
    key, secret = ApiKeys.generate("free")
    other, restricted = ApiKeys.generate("a", {"tenant": "a"})
    with KnowledgeIndex() as index:
        index.add([
            Document("1", "Text.", metadata={"tenant": "a", "public": True}),
            Document("2", "Text.", metadata={"tenant": "a", "public": False}),
            Document("3", "Text.", metadata={"tenant": "b", "public": True}),
        ])  # fmt: skip
        with Gateway(index, keys=ApiKeys([key, other]), where={"public": True}) as gateway:
            assert index.document_ids(gateway.authenticate(secret).where) == ["1", "3"]
            assert index.document_ids(gateway.authenticate(restricted).where) == ["1"]


FILTERS = [
    {"a": 1}, {"a": 1.0}, {"a": True}, {"a": None}, {"a": "x"}, {"a": {"gt": 1}}, {"a": {"lte": "x"}},
    {"a": {"in": [1, "y"]}},
    {"a": {"nin": [1]}}, {"a": {"exists": True}}, {"a": {"exists": False}}, {"a": {"ne": 1}}, {"b.c": 2},
    {"b.c": {"gte": 2}},
    {"or": [{"a": 1}, {"b.c": 2}]}, {"not": {"a": 1}}, {"or": []}, {}, {"__id__": "1"}, {"__id__": {"gt": "2"}},
    {"__id__": {"in": ["0", "3"]}}, {"__id__": 1}, {"a": {"lt": 2}, "b.c": {"exists": True}},
]  # fmt: skip
METADATA = [
    {}, {"a": 1}, {"a": 1.0}, {"a": True}, {"a": None}, {"a": "x"}, {"a": "y"}, {"a": [1, "x"]}, {"a": []},
    {"a": {"x": 1}},
    {"a": 2**70}, {"b": {"c": 2}}, {"b": [{"c": 1}, {"c": 3}]}, {"a": 0.5, "b": {"c": "2"}}, {"a": "Ü"}, {"a": -1},
    {"__id__": "1", "b.c": 2},
]  # fmt: skip


def test_matches_decides_as_the_engine_does():
    with KnowledgeIndex() as index:
        index.add([Document(str(at), "Text.", metadata=metadata) for at, metadata in enumerate(METADATA)])
        for where in FILTERS:
            expected = {str(at) for at, metadata in enumerate(METADATA) if matches(where, metadata, str(at))}
            assert set(index.document_ids(parse(where))) == expected, where
