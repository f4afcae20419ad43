"""Fake OpenAI-compatible servers in this process: one that answers chats, one that streams them, one that embeds."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from graphrag_core.testing import HashEmbedder

EMBEDDER = HashEmbedder(48)
ANSWER = {
    "entities": [{"name": "Tide Feed", "type": "service", "description": "Water levels."}, {"name": "Bergen"}],
    "relations": [{"source": "Tide Feed", "target": "Bergen", "type": "serves", "strength": 7}],
}


class ModelServer:
    """Records bodies and API keys. ``status`` lists the HTTP statuses of the next responses."""

    def __init__(self):
        self.bodies, self.keys, self.status = [], [], []
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                """Print nothing."""

            def do_GET(self):
                self.send(401 if outer.status[:1] == [401] else 200, {"data": []})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._lock:
                    outer.bodies.append(body)
                    outer.keys.append(self.headers.get("Authorization", ""))
                    number = len(outer.bodies)
                outer.answer(self, body, number)

            def send(self, status, value):
                data = (value if isinstance(value, str) else json.dumps(value)).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.send_header("Retry-After-Ms", "1")
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    self.close_connection = True  # the client is gone

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def next_status(self):
        with self._lock:
            return self.status.pop(0) if self.status else 200

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class ChatServer(ModelServer):
    """``content`` is what the model says."""

    content = json.dumps(ANSWER)

    def answer(self, handler, _body, _number):
        handler.send(self.next_status(), {"choices": [{"message": {"content": self.content}}]})


class StreamServer(ModelServer):
    """Streams ``pieces``.

    ``cut_after`` ends the connection after so many pieces, for the number of times in ``cuts`` (None: always).
    ``stall_after`` waits for the client to close the connection after so many pieces; ``gone`` is set when it has.
    """

    def __init__(self):
        self.pieces = ["It delegates ", "to the OAuth Provider [", "1].", ""]
        self.cut_after = self.stall_after = self.error = self.cuts = None
        self.stalled, self.gone = threading.Event(), threading.Event()
        super().__init__()

    def answer(self, handler, _body, _number):
        if (status := self.next_status()) != 200:
            handler.send(status, {"error": {"message": "no"}})
        else:
            handler.send_response(200)
            handler.send_header("Content-Type", "text/event-stream")
            handler.send_header("Connection", "close")
            handler.end_headers()
            handler.close_connection = True
            try:
                for event in self._events(handler.connection):
                    handler.wfile.write(b"data: " + event.encode() + b"\n\n")
                    handler.wfile.flush()
            except OSError:
                self.gone.set()

    def _events(self, connection):
        for number, piece in enumerate(self.pieces):
            if number == self.cut_after and (self.cuts is None or self.cuts > 0):
                self.cuts = None if self.cuts is None else self.cuts - 1
                return
            if number == self.stall_after:
                self.stalled.set()
                connection.settimeout(120)
                if not connection.recv(1):  # the client closes the connection
                    self.gone.set()
                    return
            yield json.dumps({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
        if self.error:
            yield json.dumps({"error": {"message": self.error}})
            return
        yield json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        yield "[DONE]"


class EmbeddingServer(ModelServer):
    """Answers with hashed words, or with ``value``. ``down`` refuses all requests."""

    def __init__(self):
        self.down, self.value = False, None
        super().__init__()

    @property
    def sizes(self):
        """How many texts each request had."""
        return [len(body["input"]) for body in self.bodies]

    def answer(self, handler, body, _number):
        if handler.path != "/v1/embeddings":
            handler.send(404, {"error": {"message": f"no such path: {handler.path}"}})
        elif (status := 503 if self.down else self.next_status()) != 200:
            handler.send(status, {"error": {"message": f"the server says {status}"}})
        else:
            vectors = [EMBEDDER.embed_query(text).tolist() for text in body["input"]]
            rows = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
            handler.send(200, self.value or {"object": "list", "data": rows[::-1], "model": body["model"], "usage": {}})
