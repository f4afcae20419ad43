"""API keys: files, scopes, and what is written with one."""

from __future__ import annotations

import json
import stat

import pytest
from serving import client_of, index_of, keys_of

from graphrag_apps.serve import ApiKeys, Gateway, make_key
from graphrag_core import Document
from graphrag_core.errors import ConfigError, GraphRAGError, InputError
from graphrag_core.filters import matches


def test_a_key_is_stored_as_a_hash_and_found_by_its_secret(tmp_path):
    path, secrets = tmp_path / "keys.toml", {}
    for name, where in (("a", {"tenant": 'a "quoted" \x7f ü'}), ("all", None)):
        key, secrets[name] = ApiKeys.generate(name, where, write=name == "a")
        ApiKeys.append(path, key, where)
    text = path.read_text("utf-8")
    assert not any(secret in text for secret in secrets.values())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    keys = ApiKeys.load(path)
    assert len(keys) == 2
    found = keys.authenticate(secrets["a"])
    assert (found.name, found.write) == ("a", True)
    assert found.where == make_key("a", {"tenant": 'a "quoted" \x7f ü'}).where
    assert keys.authenticate(secrets["all"]).where is None
    for wrong in (None, "", "guessed", secrets["a"] + " ", secrets["a"][:-1], "\ud800"):
        with pytest.raises(GraphRAGError, match="send a valid key"):
            keys.authenticate(wrong)
    with pytest.raises(InputError, match="has a key named 'a'"):
        ApiKeys.append(path, found, None)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('name = "a"', "key.0.sha256 is missing, or not a hash"),
        (f'name = "a"\nsha256 = "{"0" * 64}"\nwher = "x"', "unknown key 'wher': did you mean 'where'"),
        (f'name = "a"\nsha256 = "{"0" * 64}"\nwhere = "{{"', "key.0.where is '{': .*Expecting"),
        (f'name = "a"\nsha256 = "{"0" * 64}"\nwhere = {{ year = {{ near = 3 }} }}', "key 'a': .*unknown operator"),
        (f'name = "a"\nsha256 = "{"0" * 64}"\nwrite = "yes"', "key.0.write is 'yes': use true or false"),
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
        with pytest.raises(GraphRAGError, match="outside of the filter"):
            key.stamp(given)
    else:
        assert key.stamp(given) == expected
        assert matches(where, key.stamp(given))


def documents(gateway, secret, where=None):
    """The ids that a key lists."""
    with client_of(gateway, headers={"Authorization": f"Bearer {secret}"}) as client:
        found = client.get("/v1/documents", params={} if where is None else {"where": json.dumps(where)})
        return [one["id"] for one in found.json()["documents"]]


def test_a_callers_filter_narrows_and_never_widens():
    index = index_of([
        Document(name, "Text.", metadata={"tenant": name, "only_b" if name == "b" else "n": 1}) for name in "ab"
    ])  # fmt: skip
    keys, headers = keys_of(a={"tenant": "a"}, c={"nobody": 1})
    with client_of(Gateway(index, keys=keys), headers=headers["a"]) as client:

        def hits(where, **more):
            return client.post("/v1/query", json={"question": "Text", "where": where}, **more).json()

        either = {"or": [{"tenant": "a"}, {"tenant": "b"}]}
        for where in ({"tenant": "b"}, either, {"not": {"tenant": "a"}}, {"n": 1}, {}):
            assert {hit["id"] for hit in hits(where)["hits"]} <= {"a"}
        for name in ("only_b", "nobody"):  # the caller cannot tell whether other documents have the key
            for where in ({name: 1}, {name: {"ne": 1}}, {name: {"exists": False}}):
                found = hits(where)
                assert found["hits"] == []
                assert found["advice"].startswith(f"no document has the metadata key {name!r}: ")
        assert hits({"nothing": 2}, headers=headers["c"])["hits"] == []


def test_a_key_whose_field_is_misspelt_sees_no_document_by_its_id_either():
    keys, headers = keys_of(k=({"tenent": {"ne": "b"}}, True))
    gateway = Gateway(index_of([Document("a", "Text.", metadata={"tenant": "a"})]), keys=keys, write=True)
    with client_of(gateway, headers=headers["k"]) as client:
        assert client.get("/v1/documents").json()["documents"] == []
        assert client.get("/v1/documents/a").status_code == client.delete("/v1/documents/a").status_code == 404
        body = {"documents": [{"id": "a", "text": "Other."}]}
        assert client.post("/v1/documents", json=body).status_code == 409


def test_a_filter_of_the_server_narrows_every_key():
    key, secret = ApiKeys.generate("free")
    other, restricted = ApiKeys.generate("a", {"tenant": "a"})
    tenants = [("1", "a", True), ("2", "a", False), ("3", "b", True)]
    for given, expected in ((secret, ["1", "3"]), (restricted, ["1"])):
        index = index_of([Document(id_, "Text.", metadata={"tenant": one, "public": is_public})
                          for id_, one, is_public in tenants])  # fmt: skip
        gateway = Gateway(index, keys=ApiKeys([key, other]), where={"public": True})
        assert documents(gateway, given) == expected
