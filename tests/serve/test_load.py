"""100 requests at once while documents change: all are answered, each from one generation of the index."""

from __future__ import annotations

import asyncio
import threading

import httpx
from serving import DOCUMENTS, LIMIT, client_of, keys_of, served

from graphrag_apps.serve import Gateway, Limits, create_app
from graphrag_core import KnowledgeIndex
from graphrag_core.testing import HashEmbedder

REQUESTS = 100
ROUNDS = 8
QUESTION = {"question": "Which version do the Beacon and the Lantern report?", "k": 2}


def pair(version: int) -> list[dict]:
    """Two documents that are always replaced together."""
    return [
        {"id": name, "text": f"The {name} reports version {version}.", "metadata": {"version": version}}
        for name in ("Beacon", "Lantern")
    ]


async def ask_at_once(url: str, headers: dict[str, str] | None = None, requests: int = REQUESTS) -> list[int]:
    """Send the requests; return the version that each answer has, in both of its passages."""
    limits = httpx.Limits(max_connections=REQUESTS)
    async with httpx.AsyncClient(base_url=url, timeout=LIMIT, limits=limits, headers=headers) as client:

        async def ask(number: int) -> int:
            # Each request is another one, so that the cache answers none of them.
            body = {**QUESTION, "question": f"{QUESTION['question']} ({number})"}
            response = await client.post("/v1/query", json=body)
            assert response.status_code == 200, response.text
            versions = {hit["metadata"]["version"] for hit in response.json()["hits"]}
            assert len(response.json()["hits"]) == 2
            assert len(versions) == 1, "an answer from two generations"
            return versions.pop()

        return await asyncio.gather(*(ask(number) for number in range(requests)))


async def test_100_requests_while_clients_change_documents():
    keys, headers = keys_of(reads=None, writes=(None, True))
    index = KnowledgeIndex(HashEmbedder())
    gateway = Gateway(index, keys=keys, write=True)
    with served(create_app(gateway)) as url:
        async with httpx.AsyncClient(base_url=url, timeout=LIMIT, headers=headers["writes"]) as writer:

            async def write(version: int) -> None:
                response = await writer.post("/v1/documents", json={"documents": pair(version)})
                assert response.status_code == 200, response.text

            async def change() -> None:
                for version in range(1, ROUNDS):
                    await write(version)

            await write(0)
            found, _ = await asyncio.gather(ask_at_once(url, headers["reads"]), change())
            assert len(found) == REQUESTS
            assert await ask_at_once(url, headers["reads"], 1) == [ROUNDS - 1]


class Slow(HashEmbedder):
    """Embeds no question of the word slow until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def embed_query(self, text: str):
        if "slow" in text:
            self.release.wait(LIMIT)
        return super().embed_query(text)


def test_requests_wait_for_a_thread_and_are_answered():
    embedder = Slow()
    index = KnowledgeIndex(embedder)
    index.add(DOCUMENTS)
    gateway = Gateway(index, limits=Limits(workers=1))
    with client_of(gateway) as client:
        statuses: list[int] = []

        def ask(at: int) -> None:
            statuses.append(client.post("/v1/query", json={"question": f"slow question {at}"}).status_code)

        threads = [threading.Thread(target=ask, args=(at,)) for at in range(5)]
        try:
            for thread in threads:
                thread.start()
            assert client.get("/health").status_code == 200, "it needs no thread"
        finally:
            embedder.release.set()
            for thread in threads:
                thread.join()
        assert statuses == [200] * 5
