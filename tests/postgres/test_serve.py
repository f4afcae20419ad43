"""The HTTP server over PostgreSQL: two servers of one index see what the other writes, and keys keep tenants apart."""

from __future__ import annotations

from contextlib import ExitStack

from postgres_server import running_server
from serving import QUESTION, client_of, keys_of

from graphrag_apps.serve import Gateway
from graphrag_core import Document, KnowledgeIndex
from graphrag_core.engine import postgres
from graphrag_core.testing import HashEmbedder

OURS = [
    Document("auth", "The Auth Service delegates logins to the OAuth Provider.", "Auth Service", {"tenant": "a"}),
    Document("oauth", "The OAuth Provider is run by Mara Lindqvist.", "OAuth Provider", {"tenant": "a"}),
]
THEIRS = [Document("theirs", "The OAuth Provider is run by Zqsecret Corp.", "OAuth Provider", {"tenant": "b"})]


def test_two_servers_share_an_index_and_keys_keep_tenants_apart(urls):
    keys, headers = keys_of(a=({"tenant": "a"}, True), b=({"tenant": "b"}, True))
    addresses = urls(), urls()
    for address, documents in zip(addresses, ([*THEIRS, *OURS], OURS), strict=True):
        with KnowledgeIndex.open(address, HashEmbedder()) as index:
            index.add(documents)
    with ExitStack() as stack:
        first, second, alone = (
            stack.enter_context(
                client_of(
                    Gateway(KnowledgeIndex.open(address, HashEmbedder()), keys=keys, write=True), headers=headers["a"]
                )
            )
            for address in (addresses[0], addresses[0], addresses[1])
        )
        for path in ("/v1/stats", "/v1/documents", "/v1/entities", "/v1/entity?name=oauth provider", "/v1/communities",
                     "/v1/path?start=auth service&end=mara lindqvist", "/v1/documents/theirs",
                     "/v1/documents/oauth"):  # fmt: skip
            assert first.get(path).text == alone.get(path).text
            assert "zqsecret" not in first.get(path).text.lower()
        found, expected = (one.post("/v1/query", json={"question": QUESTION}).json() for one in (first, alone))
        assert [hit["document_id"] for hit in found["hits"]] == [hit["document_id"] for hit in expected["hits"]]
        assert "zqsecret" not in str(found).lower()
        body = {"documents": [{"id": "new", "text": "Keyring stores secrets."}]}
        assert first.post("/v1/documents", json=body).status_code == 200
        assert second.get("/v1/documents/new").json()["metadata"] == {"tenant": "a"}
        assert second.get("/v1/documents/new", headers=headers["b"]).status_code == 404
        assert second.post("/v1/documents", json=body, headers=headers["b"]).status_code == 409


def test_a_server_that_is_gone_is_reported_as_unavailable_and_used_again_when_it_is_back(monkeypatch):
    monkeypatch.setattr(postgres, "_PATIENCE", 1.0)  # well below the time limit of a request
    with running_server() as server:
        address = f"{server.url}?schema=graphrag"
        with KnowledgeIndex.open(address, HashEmbedder()) as index:
            index.add(OURS)
        with client_of(Gateway(KnowledgeIndex.open(address, HashEmbedder()))) as client:
            assert client.post("/v1/query", json={"question": QUESTION}).status_code == 200
            server.kill()
            gone = client.post("/v1/query", json={"question": QUESTION})
            assert gone.status_code == 503
            assert "cannot be reached" in gone.text
            server.start()
            assert client.post("/v1/query", json={"question": QUESTION}).status_code == 200
