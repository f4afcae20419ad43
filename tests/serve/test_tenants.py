"""With the key of tenant A a server answers the same whatever names and words tenant B uses, byte for byte."""

from __future__ import annotations

import json
import random
import re
from contextlib import ExitStack
from dataclasses import replace

import httpx
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from serving import LIMIT, client_of, index_of, keys_of, served

from graphrag_apps.serve import Gateway, mcp_app
from graphrag_core import Document

MARK = "zqsecret"


def renamed(text: str) -> str:
    """Return a text with other names in place of the secret ones."""
    return text.replace(MARK, "xwhidden").replace(MARK.title(), "Xwhidden")


OURS = [
    Document(
        "a1", "The Auth Service issues tokens. It calls the Keyring.", "Auth Service", {"tenant": "a", "year": 2020}
    ),
    Document("a2", "The Keyring is run by Mara Lindqvist. Mara Lindqvist met Tove Berg.", "Keyring", {"tenant": "a"}),
    Document("a3", "Tove Berg wrote the Ledger for the Auth Service.", "Ledger", {"tenant": "a", "tags": ["x", "y"]}),
]
THEIRS = [
    Document(f"{MARK}-1", f"The Auth Service of Zqsecret Corp fails. {MARK} tokens leak to Zqsecret Vault.",
             "Zqsecret Vault", {"tenant": "b", f"{MARK}_field": 1, "year": 2021}),
    Document(f"{MARK}-2", "The Keyring of Zqsecret Corp is run by Zqsecret Person. Tove Berg owns Zqsecret Corp.",
             "Keyring", {"tenant": "b", "tags": [f"{MARK}-tag"]}),
    Document("shared", f"Mara Lindqvist joined Zqsecret Corp. AUTH SERVICE and TOVE BERG know {MARK}.",
             metadata={"tenant": ["b", "c"]}),
    *(Document(f"b{at}", f"The Keyring and the Ledger of Zqsecret Corp failed {at} times, said Tove Berg.",
               metadata={"tenant": "b"}) for at in range(20)),
]  # fmt: skip
RENAMED = [replace(document, text=renamed(document.text), title=renamed(document.title)) for document in THEIRS]
NAMES = [
    "Auth Service",
    "keyring",
    "Mara Lindqvist",
    "Tove Berg",
    "Ledger",
    "Zqsecret Corp",
    "zqsecret vault",
    "Nobody",
    "",
]
WORDS = ["who runs the Keyring", "Auth Service", "tokens", f"{MARK}", "Zqsecret Corp and Tove Berg",
         "What are the themes?",
         "list everything", "Ledger failed times"]  # fmt: skip
FILTERS = [
    None, {"tenant": "b"}, {"tenant": {"in": ["a", "b"]}}, {"not": {"tenant": "a"}},
    {"or": [{"tenant": "b"}, {"year": 2020}]},
    {"year": {"gte": 2020}}, {f"{MARK}_field": 1}, {f"{MARK}_field": {"exists": True}},
    {"tags": "x"}, {"nothing": 1},
    {"__id__": f"{MARK}-1"}, {"__id__": {"in": ["a1", "shared"]}}, {"tenant": {"nin": ["a"]}}, {},
]  # fmt: skip
IDS = ["a1", "a2", f"{MARK}-1", "shared", "b3", "missing", "a1#0", "../a1", ""]
EXPLORED = [
    "overview", "search", "entity", "neighbours", "passages", "facts", "between", "community", "question",
]  # fmt: skip
METHODS = [None, "hybrid", "vector", "keyword", "graph", "agentic"]


def body(random: random.Random) -> dict:
    chosen = {
        "question": " ".join(random.sample(WORDS, random.choice((1, 1, 2)))),
        "k": random.choice([None, 1, 3, 100, 0]),
        "method": random.choice(METHODS),
        "where": random.choice(FILTERS),
    }
    return {name: value for name, value in chosen.items() if value is not None}


def explored(random: random.Random) -> dict:
    """What the explorer's page asks for."""
    name, other = random.choice(NAMES), random.choice(NAMES)
    asked = {
        "text": random.choice([*WORDS, "k", "zq"]), "name": name, "source": name, "target": other,
        "id": random.choice(["keyring", "ledger"]), "drawn": [one.lower() for one in random.sample(NAMES, 3)],
        "offset": random.choice((0, 1)), "limit": random.choice((1, 24)),
    }  # fmt: skip
    where = random.choice(FILTERS)
    return asked if where is None else {**asked, "where": where}


def request(random: random.Random) -> tuple[str, str, dict]:
    """A random request that reads."""
    where = random.choice(FILTERS)
    scope = {} if where is None else {"where": json.dumps(where)}
    name, other = random.choice(NAMES), random.choice(NAMES)
    return random.choice([
        ("POST", "/v1/query", {"json": {**body(random), "context_tokens": 300}}),
        ("POST", "/v1/query", {"json": body(random)}),
        ("POST", "/v1/explain", {"json": body(random)}),
        ("POST", "/v1/ask", {"json": body(random)}),
        ("POST", "/v1/ask", {"json": {**body(random), "stream": True}}),
        ("GET", "/v1/documents", {"params": {**scope, "limit": 2, "after": random.choice(IDS)}}),
        ("GET", "/v1/documents/" + random.choice(IDS), {}),
        ("GET", "/v1/entities", {"params": {**scope, "prefix": name[:3], "limit": random.choice((1, 1000))}}),
        ("GET", "/v1/entity", {"params": {**scope, "name": name}}),
        ("GET", "/v1/neighbours", {"params": {**scope, "name": name, "offset": random.choice((0, 1, 99))}}),
        ("GET", "/v1/path", {"params": {**scope, "start": name, "end": other, "max_hops": random.choice((1, 4, 10))}}),
        ("GET", "/v1/communities", {"params": scope}),
        ("GET", "/v1/stats", {}),
        *[("POST", f"/explore/api/{random.choice(EXPLORED)}", {"json": explored(random)})] * 6,
    ])  # fmt: skip


@pytest.fixture(scope="module")
def tenants():
    """A client of A on a server with A and B, and one on a server where B has other names."""
    keys, headers = keys_of(a=({"tenant": "a"}, True), b=({"tenant": "b"}, True))
    with ExitStack() as stack:
        shared = Gateway(index_of([*THEIRS, *OURS]), keys=keys, write=True)
        other = Gateway(index_of([*RENAMED, *OURS]), keys=keys, write=True)
        yield [stack.enter_context(client_of(gateway, headers=headers["a"])) for gateway in (shared, other)], headers


@pytest.mark.parametrize("seed", range(6))
def test_random_requests_return_what_they_would_with_other_names_of_the_other_tenant(tenants, seed):
    (shared, other), _ = tenants
    chance = random.Random(seed)
    statuses = set()
    for _ in range(40):
        method, url, rest = request(chance)
        found, expected = shared.request(method, url, **rest), other.request(method, url, **rest)
        texts = [re.sub(r"\\n  [\d.]+ ms: [^\"]*", "", one.text) for one in (found, expected)]  # how long it took
        assert found.status_code == expected.status_code < 500, (method, url, rest, found.text)
        assert texts[0] == texts[1], (method, url, rest)
        if MARK not in json.dumps(rest).lower() + url:
            assert MARK not in found.text.lower()
        statuses.add(found.status_code)
    assert {200, 422} <= statuses


def test_the_other_tenants_documents_cannot_be_read_replaced_or_deleted(tenants):
    (shared, _), headers = tenants
    for document in THEIRS[:3]:
        there, missing = (shared.get(f"/v1/documents/{one}") for one in (document.id, "missing"))
        assert there.status_code == missing.status_code == 404
        assert there.text.replace(document.id, "missing") == missing.text
        there, missing = (shared.delete(f"/v1/documents/{one}") for one in (document.id, "missing"))
        assert there.status_code == missing.status_code == 404
        assert there.text.replace(document.id, "missing") == missing.text
        taken = shared.post("/v1/documents", json={"documents": [{"id": document.id, "text": "Mine."}]})
        assert (taken.status_code, taken.json()["error"]["type"]) == (409, "Conflict")
    kept = shared.get(f"/v1/documents/{THEIRS[0].id}", headers=headers["b"]).json()
    assert kept["text"] == THEIRS[0].text


def test_an_id_tells_nothing_about_the_passages_of_others():
    """Nor can it block a document that they may add later."""
    keys, headers = keys_of(a=({"tenant": "a"}, True), b=({"tenant": "b"}, True))
    long = "\n\n".join(f"## Part {at}\n\n" + "The Harbour Plan has many parts. " * 60 for at in range(3))
    index = index_of(OURS)
    index.add([
        Document("b/plan", long, metadata={"tenant": "b"}), Document("b/rows#1", "A row.", metadata={"tenant": "b"}),
        Document("a/rows#1", "A row.", metadata={"tenant": "a"}),
    ])  # fmt: skip
    passages = len(index.chunks("b/plan"))
    assert passages > 2
    with client_of(Gateway(index, keys=keys, write=True), headers=headers["a"]) as client:

        def add(document_id, text="Mine.", tenant="a"):
            return client.post(
                "/v1/documents", json={"documents": [{"id": document_id, "text": text}]}, headers=headers[tenant]
            )

        def refusal(document_id, text="Mine."):
            refused = add(document_id, text)
            return refused.status_code, refused.text.replace(document_id, "ID")

        taken = refusal("b/plan")
        assert taken[0] == 409
        for one in (f"b/plan#{passages - 1}", f"b/plan#{passages}", "b/next#0", "b/rows#1"):
            assert refusal(one) == taken, one
        assert refusal("b/rows", long) == taken  # one of its passages would have the id of a row of B
        assert add("b/next", long, "b").status_code == 200
        assert add("a/rows#1", "A new row.").json()["replaced"] == 1
        assert add("a/rows#x").status_code == 200


def test_a_told_fact_cannot_be_guessed():
    fact = {"subject": "Otto Lind", "relation": "likes", "object": "tea"}
    ids = []
    for _ in range(2):
        index = index_of(OURS)
        ids.append(index.memory.remember(**fact, metadata={"tenant": "b"}).chunk_id)
        assert index.memory.remember(**fact, metadata={"tenant": "b"}).chunk_id == ids[-1]
        index.close()
    assert ids[0] != ids[1]


@pytest.mark.parametrize(
    "metadata",
    [{"tenant": "b"}, {"tenant": ["a", "b"]}, {"tenant": None}, {"tenant": 7}, {"tenant": {"x": "a"}}, {"tenant": []}],
)
def test_a_document_cannot_be_written_into_another_scope(tenants, metadata):
    (shared, _), headers = tenants
    refused = shared.post("/v1/documents", json={"documents": [{"id": "new", "text": "New.", "metadata": metadata}]})
    assert refused.status_code in (400, 403)
    fact = {"subject": "User", "relation": "likes", "object": "tea", "metadata": metadata}
    assert shared.post("/v1/facts", json=fact).status_code in (400, 403)
    assert shared.get("/v1/documents/new", headers=headers["b"]).status_code == 404


def test_a_document_gets_the_fields_of_its_key(tenants):
    (shared, _), headers = tenants
    shared.post(
        "/v1/documents", json={"documents": [{"id": "mine", "text": "Otto Lind is mine.", "metadata": {"n": 1}}]}
    )
    assert shared.get("/v1/documents/mine").json()["metadata"] == {"n": 1, "tenant": "a"}
    shared.post("/v1/facts", json={"subject": "Otto Lind", "relation": "likes", "object": "tea"})
    assert shared.get("/v1/entity", params={"name": "Otto Lind"}).status_code == 200
    assert shared.get("/v1/entity", params={"name": "Otto Lind"}, headers=headers["b"]).status_code == 404
    assert shared.delete("/v1/documents/mine").status_code == 200
    facts = shared.get("/v1/documents", params={"where": '{"graphrag_fact.subject": {"exists": true}}'}).json()
    for fact in facts["documents"]:
        assert shared.delete(f"/v1/documents/{fact['id']}").status_code == 200


async def test_mcp_tools_return_what_they_would_with_other_names_of_the_other_tenant():
    import httpx2

    keys, headers = keys_of(a={"tenant": "a"}, b={"tenant": "b"})
    chance = random.Random(7)
    calls = []
    for _ in range(40):
        where, name = chance.choice(FILTERS), chance.choice(NAMES)
        scope = {} if where is None else {"where": where}
        question = body(chance)
        if question.get("method") == "agentic":
            del question["method"]
        calls.append(chance.choice([
            ("search", question), ("ask", {key: value for key, value in question.items() if key != "method"}),
            ("entity", {**scope, "name": name}), ("neighbours", {**scope, "name": name}),
            ("path", {**scope, "start": name, "end": chance.choice(NAMES)}),
        ]))  # fmt: skip
    found = []
    for documents in ([*THEIRS, *OURS], [*RENAMED, *OURS]):
        gateway = Gateway(index_of(documents), keys=keys)
        with served(mcp_app(gateway)) as url:
            async with (
                httpx2.AsyncClient(headers=headers["a"], timeout=LIMIT) as http,
                Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
            ):
                results = [await client.call_tool(name, arguments) for name, arguments in calls]
            found.append([result.model_dump_json() for result in results])
            async with httpx.AsyncClient() as nobody:
                refused = await nobody.post(f"{url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
            assert refused.status_code == 401
    for (name, arguments), text, other in zip(calls, *found, strict=True):
        assert text == other, name
        if MARK not in json.dumps(arguments).lower():
            assert MARK not in text.lower(), name
    assert sum('"is_error":false' in text for text in found[0]) > 5
