"""What a server counts about its requests, for Prometheus."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from graphrag_core.serve.limits import ThreadPool

CONTENT_TYPE = CONTENT_TYPE_LATEST
_OTHER = "other"  # the route of a request that no route takes


class Metrics:
    """Requests by route and status, their duration, and the work that runs or waits.

    Labels have neither questions nor names of keys: those who read the metrics may not see them.
    """

    def __init__(self, pools: dict[str, ThreadPool]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "graphrag_requests", "Requests by route and status", ["method", "route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "graphrag_request_seconds", "Duration of requests by route", ["route"], registry=self._registry
        )
        jobs = Gauge("graphrag_jobs", "Requests that run or wait for a thread", ["pool"], registry=self._registry)
        for name, pool in pools.items():
            jobs.labels(name).set_function(partial(getattr, pool, "jobs"))

    def count(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method if route else _OTHER, route or _OTHER, status).inc()
        self._seconds.labels(route or _OTHER).observe(seconds)

    def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
