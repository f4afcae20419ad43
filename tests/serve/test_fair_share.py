"""A key that sends much does not keep out the others, nor do clients that guess keys."""

from __future__ import annotations

import gzip
import threading
from concurrent.futures import CancelledError, Future

import httpx
import pytest
from serving import DOCUMENTS, LIMIT, QUESTION, client_of, index_of, keys_of, served, wait_until
from typing_extensions import Self

from graphrag_apps.serve import Gateway, Limits, create_app
from graphrag_apps.serve.errors import TooManyRequests, Unavailable
from graphrag_apps.serve.limits import _MOST_COUNTED, RateLimits, ThreadPool
from graphrag_apps.serve.tools import mcp_app
from graphrag_core import KnowledgeIndex
from graphrag_core.testing import HashEmbedder


class Pool:
    """A pool whose jobs wait until they are released, and the clients whose jobs began, in this order."""

    def __init__(self, workers: int, waiting: int) -> None:
        self.pool = ThreadPool("test", workers, waiting)
        self.began: list[str] = []
        self.release = threading.Semaphore(0)

    def submit(self, client: str) -> Future[None]:
        def job() -> None:
            self.began.append(client)
            self.release.acquire()

        return self.pool.submit(job, client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release.release(1_000)
        self.pool.close()


def test_a_client_leaves_a_thread_to_the_others():
    with Pool(3, 10) as pool:
        for client in "aaab":
            pool.submit(client)
        wait_until(lambda: len(pool.began) == 3)
        assert sorted(pool.began) == ["a", "a", "b"]
        assert pool.pool.jobs == 4


def test_jobs_without_a_client_use_all_threads_and_all_places():
    with Pool(2, 3) as pool:
        for _ in range(5):
            pool.submit("")
        wait_until(lambda: len(pool.began) == 2)
        with pytest.raises(Unavailable, match="busy"):
            pool.submit("")


def test_clients_take_turns():
    with Pool(1, 20) as pool:
        jobs = [pool.submit(client) for client in "aaaabbc"]
        pool.release.release(len(jobs))
        for job in jobs:
            job.result(LIMIT)
        assert pool.began == [*"aabcaba"]


def test_a_client_leaves_places_of_the_queue_to_the_others():
    with Pool(1, 10) as pool:
        for _ in range(6):  # one runs
            pool.submit("a")
        for client, more in (("a", 0), ("b", 2), ("a", 0), ("c", 1)):
            for _ in range(more):
                pool.submit(client)
            with pytest.raises(Unavailable):
                [pool.submit(client) for _ in range(10)]


def test_a_cancelled_job_leaves_its_place_and_does_not_run():
    with Pool(1, 1) as pool:
        pool.submit("a")
        wait_until(lambda: pool.began)
        waiting = pool.submit("b")
        assert waiting.cancel()
        assert pool.pool.jobs == 1
        last = pool.submit("c")
        pool.release.release(2)
        last.result(LIMIT)
        assert pool.began == ["a", "c"]


def test_closing_cancels_what_waits_and_ends_what_runs():
    pool = Pool(1, 5)
    running, waiting = pool.submit("a"), pool.submit("a")
    wait_until(lambda: pool.began)
    pool.release.release(2)
    pool.pool.close()
    running.result(LIMIT)
    with pytest.raises(CancelledError):
        waiting.result(LIMIT)
    with pytest.raises(Unavailable, match="closing"):
        pool.submit("b")


def test_a_job_that_fails_frees_its_thread():
    with Pool(1, 5) as pool:
        failed = pool.pool.submit(lambda: 1 / 0, "a")
        with pytest.raises(ZeroDivisionError):
            failed.result(LIMIT)
        pool.release.release()
        pool.submit("a").result(LIMIT)


class Slow(HashEmbedder):
    """Embeds no question of the word slow until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def embed_query(self, text: str):
        if "slow" in text:
            self.release.wait(LIMIT)
        return super().embed_query(text)


def test_slow_requests_of_one_key_do_not_keep_out_another():
    embedder = Slow()
    index = KnowledgeIndex(embedder)
    index.add(DOCUMENTS)
    keys, headers = keys_of(a=None, b=None)
    gateway = Gateway(index, keys=keys, limits=Limits(workers=2, waiting=8))
    with client_of(gateway) as client:
        statuses: list[int] = []

        def ask(at: int) -> None:
            body = {"question": f"slow question {at}"}
            statuses.append(client.post("/v1/query", json=body, headers=headers["a"]).status_code)

        threads = [threading.Thread(target=ask, args=(at,)) for at in range(12)]
        try:
            for thread in threads:
                thread.start()
            wait_until(lambda: len(statuses) == 7 and gateway.load["searches"] == 5)  # one runs, four wait
            assert set(statuses) == {503}
            assert client.post("/v1/query", json={"question": QUESTION}, headers=headers["b"]).status_code == 200
        finally:
            embedder.release.set()
            for thread in threads:
                thread.join()
        assert sorted(statuses) == [200] * 5 + [503] * 7


def test_answers_of_one_key_do_not_keep_out_another(model, llm):
    model.mode = "stall"
    keys, headers = keys_of(a=None, b=None)
    gateway = Gateway(index_of(), keys=keys, llm=llm, limits=Limits(answers=4))
    with client_of(gateway) as client:
        statuses: list[int] = []

        def ask(name: str) -> None:
            statuses.append(client.post("/v1/ask", json={"question": QUESTION}, headers=headers[name]).status_code)

        threads = [threading.Thread(target=ask, args=(name,)) for name in "aaa"]
        for thread in threads:
            thread.start()
        wait_until(lambda: statuses == [503] and gateway.load["answers"] == 2)
        threads.append(threading.Thread(target=ask, args=("b",)))
        threads[-1].start()
        wait_until(lambda: gateway.load["answers"] == 3)
        model.release.set()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, 200, 200, 503]


@pytest.mark.parametrize("make", [create_app, mcp_app])
def test_an_address_that_guesses_keys_is_refused_and_valid_keys_are_not(make):
    now = [0.0]
    keys, headers = keys_of(a=None)
    gateway = Gateway(index_of(), keys=keys, clock=lambda: now[0])
    path = "/v1/query" if make is create_app else "/mcp"
    with served(make(gateway), gateway) as url, httpx.Client(base_url=url, timeout=LIMIT) as client:

        def send(given: dict[str, str]) -> httpx.Response:
            return client.post(path, json={"question": QUESTION}, headers=given)

        guesses = [send({"X-API-Key": f"hgr_{at}"}) for at in range(62)]
        assert [guess.status_code for guess in guesses] == [401] * 60 + [429] * 2
        assert guesses[-1].headers["retry-after"] == "1"
        assert "unknown" in guesses[-1].json()["error"]["message"]
        assert send({}).status_code == 401, "no key is no guess"
        assert send(headers["a"]).status_code not in (401, 429)
        now[0] = 60.0
        assert send({"X-API-Key": "hgr_x"}).status_code == 401


def test_counts_of_many_addresses_take_little_memory():
    rates = RateLimits(lambda: 0.0)
    for at in range(_MOST_COUNTED + 100):
        rates.count(f"address {at}", 1)
    assert len(rates._left) == _MOST_COUNTED
    with pytest.raises(TooManyRequests):
        rates.count(f"address {at}", 1)


@pytest.mark.parametrize("make", [create_app, mcp_app])
def test_a_compressed_body_is_refused_before_it_is_read(make):
    gateway = Gateway(index_of())
    bomb = gzip.compress(b'{"question": "' + b"a" * 5_000_000 + b'"}')
    with served(make(gateway), gateway) as url:
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        for path in ("/v1/query", "/mcp"):
            refused = httpx.post(f"{url}{path}", content=bomb, headers=headers)
            assert (refused.status_code, refused.json()["error"]["type"]) == (415, "Compressed")
            assert "uncompressed" in refused.json()["error"]["message"]
