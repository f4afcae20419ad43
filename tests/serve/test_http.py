"""The HTTP API with a real uvicorn and httpx: what each route returns, and what it refuses."""

from __future__ import annotations

import json
import re

import httpx
import pytest
from serving import DOCUMENTS, QUESTION, client_of, index_of, keys_of, served
from starlette.applications import Starlette
from starlette.routing import Mount

from graphrag_apps.serve import Gateway, Limits, create_app, make_key
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import DatabaseError, EmbedderError
from graphrag_core.testing import HashEmbedder


@pytest.fixture
def writable():
    with client_of(Gateway(index_of(), write=True)) as opened:
        yield opened


@pytest.fixture(scope="module")
def client():
    with client_of(Gateway(index_of())) as opened:
        yield opened


def error(response) -> tuple[int, str]:
    found = response.json()
    assert set(found) == {"error"}
    assert set(found["error"]) == {"type", "message"}
    assert found["error"]["message"]
    return response.status_code, found["error"]["type"]


def test_a_query_returns_what_the_retriever_returns(client):
    found = client.post("/v1/query", json={"question": QUESTION, "k": 2, "context_tokens": 200}).json()
    with index_of() as index:
        expected = GraphRetriever(index).retrieve(QUESTION, k=2)
        assert [(hit["id"], hit["score"]) for hit in found["hits"]] == [
            (hit.chunk.id, hit.score) for hit in expected.hits
        ]
        assert found["context"] == expected.context(200)
    assert found["hits"][0]["text"] == DOCUMENTS[1].text
    assert found["hits"][0]["metadata"] == {"team": "identity", "year": 2021}
    assert [entity["name"] for entity in found["entities"]] == ["OAuth Provider"]


def test_a_query_takes_the_conversation_before_it(client):
    body = {"question": "And who runs it?", "history": ["What is the OAuth Provider?", "It logs people in."]}
    found = client.post("/v1/query", json=body).json()
    assert found["decided"].startswith("the conversation names OAuth Provider")
    assert found["hits"][0]["document_id"] == "oauth"
    answer = client.post("/v1/ask", json={**body, "answer_threshold": 0}).json()
    assert answer["citations"][0]["document_id"] == "oauth"
    for history in (["x"] * 51, ["x" * 20_001], [3], "What is the OAuth Provider?"):
        assert client.post("/v1/query", json={**body, "history": history}).status_code == 422


def test_a_query_sets_numbers_by_their_path(client):
    body = {"question": QUESTION, "method": "vector", "set": {"gate.min_score": 1}}
    assert client.post("/v1/query", json=body).json()["hits"] == []
    assert client.post("/v1/ask", json=body).status_code == 200
    body = {"question": QUESTION, "context_tokens": 200, "set": {"context.style": "passages"}}
    assert client.post("/v1/query", json=body).json()["context"].startswith("[Score: ")
    body = {"question": QUESTION, "design": "confident", "set": {"gate.min_score": 0.1, "graph.hops": 2}}
    assert client.post("/v1/query", json=body).json()["hits"]
    for given, said in (
        ({"gate.min_scor": 1}, "gate.min_score"),
        ({"candidates": 5}, "cannot be changed by set"),
        ({"gate.min_score": 1e9}, "less than or equal"),
    ):
        refused = client.post("/v1/query", json={"question": QUESTION, "set": given})
        assert refused.status_code in (400, 422)
        assert said in refused.text


def test_explain_returns_a_report_or_a_page(client):
    found = client.post("/v1/explain", json={"question": QUESTION}).json()
    assert found["decided"].startswith("the graph led: the question names ")
    assert found["decided"] in found["explanation"]
    assert found["trust"].startswith("trust ")
    assert found["confidence"] is None
    page = client.post("/v1/explain", params={"format": "html"}, json={"question": QUESTION})
    assert page.headers["content-type"].startswith("text/html")
    assert "Content-Security-Policy" in page.text


def test_documents_are_listed_page_by_page_read_added_and_deleted(writable):
    first = writable.get("/v1/documents", params={"limit": 2}).json()
    assert [one["id"] for one in first["documents"]] == ["auth", "oauth"]
    rest = writable.get("/v1/documents", params={"limit": 2, "after": first["next"]}).json()
    assert ([one["id"] for one in rest["documents"]], rest["next"]) == (["teams/mara"], None)
    assert writable.get("/v1/documents/teams/mara").json()["text"] == DOCUMENTS[2].text
    body = {"documents": [{"id": "new", "text": "Keyring stores secrets.", "metadata": {"team": "vault"}}]}
    assert writable.post("/v1/documents", json=body).json()["added"] == 1
    assert writable.post("/v1/documents", json=body).json()["unchanged"] == 1
    assert writable.get("/v1/documents", params={"where": '{"team": "vault"}'}).json()["documents"][0]["id"] == "new"
    assert writable.delete("/v1/documents/new").json() == {"deleted": 1}
    assert error(writable.get("/v1/documents/new")) == (404, "NotFound")
    assert error(writable.delete("/v1/documents/new")) == (404, "NotFound")


def test_the_graph_can_be_walked(client):
    names = [entity["name"] for entity in client.get("/v1/entities", params={"prefix": "oauth"}).json()["entities"]]
    assert names == ["OAuth Provider"]
    entity = client.get("/v1/entity", params={"name": "oauth provider"}).json()
    assert entity["entity"]["mentions"] == 2
    assert DOCUMENTS[1].text in [fact["text"] for fact in entity["facts"]]
    assert "oauth" in [passage["document_id"] for passage in entity["passages"]]
    around = client.get("/v1/neighbours", params={"name": "OAuth Provider", "limit": 1}).json()
    assert len(around["neighbours"]) == 1
    assert around["total"] == len(client.get("/v1/neighbours", params={"name": "OAuth Provider"}).json()["neighbours"])
    path = client.get("/v1/path", params={"start": "Auth Service", "end": "mara lindqvist"}).json()
    assert path["found"]
    assert [path["entities"][at]["name"] for at in (0, -1)] == ["Auth Service", "Mara Lindqvist"]
    assert len(path["facts"]) == len(path["entities"]) - 1
    assert not client.get("/v1/path", params={"start": "Auth Service", "end": "mara lindqvist", "max_hops": 1}).json()[
        "found"
    ]
    assert isinstance(client.get("/v1/communities").json()["communities"], list)


def test_stats_health_schema_and_the_page_of_the_api(client):
    stats = client.get("/v1/stats").json()
    assert (stats["documents"], stats["chunks"]) == (3, 3)
    assert client.get("/health").json()["status"] == "ok"
    schema = client.get("/openapi.json").json()
    assert {"/v1/query", "/v1/ask", "/v1/path", "/v1/documents/{document_id}"} <= set(schema["paths"])
    page = client.get("/docs")
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    files = re.findall(r'(?:src|href)="(docs/[^"]+)"', page.text)
    assert {client.get(f"/{file}").status_code for file in files} == {200}
    assert len(files) == 2


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"question": QUESTION, "where": {"year": {"near": 2000}}}, 400, "FilterError"),
        ({"question": QUESTION, "where": {"and": []}}, 400, "FilterError"),
        ({"question": QUESTION, "k": 101}, 400, "InputError"),
        ({"question": QUESTION, "as_of": "soon"}, 400, "InputError"),
        ({"question": "a" * 10_001}, 413, "TooLarge"),
        ({"question": QUESTION, "k": 0}, 422, "ValidationError"),
        ({"question": QUESTION, "wher": {}}, 422, "ValidationError"),
        ({"question": 7}, 422, "ValidationError"),
        ({}, 422, "ValidationError"),
    ],
)
def test_a_bad_request_is_refused(client, body, status, kind):
    assert error(client.post("/v1/query", json=body)) == (status, kind)
    if set(body) <= {"question", "where", "k"} and status != 422:
        assert error(client.post("/v1/ask", json=body)) == (status, kind)
        assert error(client.post("/v1/ask", json={**body, "stream": True})) == (status, kind)


def test_a_filter_by_a_field_that_no_document_has_finds_nothing_and_says_so(client):
    for where in ({"yeer": 2000}, {"yeer": {"ne": 2000}}):
        body = {"question": QUESTION, "where": where}
        found = client.post("/v1/query", json=body).json()
        assert (found["hits"], found["advice"][:43]) == ([], "no document has the metadata key 'yeer': ch")
        assert client.post("/v1/ask", json=body).status_code == 200
        assert client.get("/v1/entities", params={"where": json.dumps(where)}).json() == {"entities": []}
        assert client.get("/v1/stats", params={"where": json.dumps(where)}).json()["documents"] == 0


def test_a_body_that_is_too_large_is_refused_with_and_without_a_length():
    with client_of(Gateway(index_of(), limits=Limits(body_bytes=1_000))) as client:
        assert error(client.post("/v1/query", json={"question": "a" * 2_000})) == (413, "TooLarge")
        chunks = (b"a" * 100 for _ in range(20))
        assert error(client.post("/v1/query", content=chunks)) == (413, "TooLarge")
        assert client.post("/v1/query", json={"question": QUESTION}).status_code == 200


def test_a_server_without_keys_answers_this_machine_only(client):
    for headers in ({"Host": "["}, {"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example:80"}, {"Host": ""}):
        assert client.get("/v1/stats", headers=headers).status_code == 400
    page = {"Origin": "https://evil.example", "Content-Type": "text/plain"}  # a page may send this without asking first
    refused = client.post("/v1/query", content=b'{"question": "x"}', headers=page)
    assert (refused.status_code, "send the body as JSON" in refused.text) == (415, True)
    assert "access-control-allow-origin" not in client.options("/v1/query", headers=page).headers


def test_keys_are_needed_and_may_be_limited():
    keys, headers = keys_of(reads=None, writes=(None, True))
    with client_of(Gateway(index_of(), keys=keys, write=True)) as client:
        refused = client.get("/v1/stats")
        assert error(refused) == (401, "NotAuthenticated")
        assert refused.headers["www-authenticate"] == "Bearer"
        assert error(client.get("/v1/stats", headers={"Authorization": "Bearer guessed"})) == (401, "NotAuthenticated")
        assert error(client.get("/v1/stats", headers={"Authorization": "Basic guessed"})) == (401, "NotAuthenticated")
        secret = headers["reads"]["Authorization"].removeprefix("Bearer ")
        assert client.get("/v1/stats", headers={"X-API-Key": secret}).status_code == 200
        assert client.get("/health").status_code == 200
        body = {"documents": [{"id": "new", "text": "New."}]}
        assert error(client.post("/v1/documents", json=body, headers=headers["reads"])) == (403, "NotAllowed")
        assert error(client.delete("/v1/documents/auth", headers=headers["reads"])) == (403, "NotAllowed")
        assert client.post("/v1/documents", json=body, headers=headers["writes"]).status_code == 200
    with client_of(Gateway(index_of(), keys=keys)) as client:
        assert error(client.post("/v1/documents", json=body, headers=headers["writes"])) == (403, "NotAllowed")


def test_an_application_that_mounts_the_api_does_not_vouch_for_its_clients():
    keys, headers = keys_of(a=None)
    gateway = Gateway(index_of(), keys=keys)
    inner = create_app(gateway)

    async def outer(scope, receive, send):
        if scope["type"] == "http":
            scope["state"]["key"] = make_key("somebody")
        await Starlette(routes=[Mount("/kb", inner)])(scope, receive, send)

    with served(outer) as url, httpx.Client(base_url=url, timeout=60) as client:
        body = {"question": QUESTION}
        assert error(client.post("/kb/v1/query", json=body)) == (401, "NotAuthenticated")
        assert error(client.get("/kb/v1/stats")) == (401, "NotAuthenticated")
        assert client.post("/kb/v1/query", json=body, headers=headers["a"]).json()["hits"]


class Failing(HashEmbedder):
    """Raises when a question is embedded."""

    problem: Exception | None = None

    def embed_query(self, text):
        if self.problem is not None:
            raise self.problem
        return super().embed_query(text)


@pytest.mark.parametrize("restricted", [False, True])
def test_an_outage_is_503_and_tells_a_restricted_key_nothing(restricted):
    embedder = Failing()
    index = KnowledgeIndex(embedder)
    index.add([Document("a", "Ada Lovelace wrote.", metadata={"tenant": "a"})])
    keys, headers = keys_of(a={"tenant": "a"} if restricted else None)
    with client_of(Gateway(index, keys=keys), headers=headers["a"]) as client:
        for problem in (EmbedderError("host secret.internal"), DatabaseError("host secret.internal")):
            embedder.problem = problem
            refused = client.post("/v1/query", json={"question": "Ada"})
            assert refused.status_code == 503
            assert ("secret.internal" in refused.text) is not restricted
            assert int(refused.headers["retry-after"]) > 0
        embedder.problem = None
        assert client.post("/v1/query", json={"question": "Ada"}).status_code == 200


def test_a_request_that_takes_too_long_is_504():
    with client_of(Gateway(index_of(), limits=Limits(seconds=1e-9))) as client:
        for refused in (client.post("/v1/query", json={"question": QUESTION}), client.get("/v1/communities")):
            assert error(refused) == (504, "TimeLimit")
        assert client.get("/health").status_code == 200


def test_an_unexpected_failure_is_500_without_details(monkeypatch, caplog):
    gateway = Gateway(index_of())
    monkeypatch.setattr(gateway.index, "stats", lambda: 1 / 0)
    with client_of(gateway) as client:
        failed = client.get("/v1/stats")
        assert error(failed) == (500, "InternalError")
        assert "zero" not in failed.text
    assert "ZeroDivisionError" in caplog.text


def test_the_log_has_no_question_and_no_name(caplog):
    caplog.set_level("INFO", "graphrag_apps.serve")
    with client_of(Gateway(index_of())) as client:
        client.post("/v1/query", json={"question": "Who is the secretary?"})
        client.get("/v1/entity", params={"name": "Secretary"})
        client.get("/v1/documents/secretary.md")
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("graphrag_apps.serve")]
    assert [line.split(" ")[:3] for line in lines] == [
        ["POST", "/v1/query", "200"], ["GET", "/v1/entity", "404"], ["GET", "/v1/documents/{document_id:path}", "404"],
    ]  # fmt: skip
    assert not any("secretary" in line.lower() for line in lines)
