"""A small HTTP server that answers like an OpenAI-compatible embeddings endpoint."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from graphrag_core.testing import HashEmbedder

EMBEDDER = HashEmbedder(48)


class EmbeddingServer(ThreadingHTTPServer):
    """Answers with hashed words. ``failures`` are HTTP codes for the next requests; ``down`` refuses all of them."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.failures: list[int] = []
        self.down = False
        self.answer = None  # instead of embeddings
        self.requests: list[dict] = []
        self.keys: list[str | None] = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def sizes(self):
        """How many texts each request had."""
        return [len(request["input"]) for request in self.requests]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        server.requests.append(request)
        server.keys.append(self.headers.get("Authorization"))
        if self.path != "/v1/embeddings":
            self.send(404, {"error": {"message": f"no such path: {self.path}"}})
        elif server.failures or server.down:
            code = server.failures.pop(0) if server.failures else 503
            self.send(code, {"error": {"message": f"the server says {code}"}})
        elif server.answer is not None:
            self.send(200, server.answer)
        else:
            vectors = [EMBEDDER.embed_query(text).tolist() for text in request["input"]]
            rows = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
            self.send(200, {"object": "list", "data": rows[::-1], "model": request["model"], "usage": {}})

    def send(self, code, value):
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def embedding_server():
    server = EmbeddingServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
