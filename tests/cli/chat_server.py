"""A fake OpenAI-compatible LLM server in this process."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = {
    "entities": [{"name": "Tide Feed", "type": "service", "description": "Water levels."}, {"name": "Bergen"}],
    "relations": [{"source": "Tide Feed", "target": "Bergen", "type": "serves", "strength": 7}],
}


class ChatServer:
    """Records prompts and API keys.

    ``content`` is what the model says, ``body`` replaces the whole response. ``status`` lists the
    HTTP statuses of the next responses. Calls after number ``hold_after`` wait for ``release``.
    """

    def __init__(self):
        self.prompts = []
        self.keys = []
        self.status = []
        self.hold_after = None
        self.holding = threading.Event()
        self.release = threading.Event()
        self.content = json.dumps(ANSWER)
        self.body = None
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                """Print nothing."""

            def do_GET(self):
                refused = outer.status and outer.status[0] == 401
                self._send(401 if refused else 200, {"data": []})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked(body, self.headers.get("Authorization", ""))
                status = outer.next_status()
                self._send(status, outer.body or {"choices": [{"message": {"content": outer.content}}]})

            def _send(self, status, value):
                data = (value if isinstance(value, str) else json.dumps(value)).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    if status != 200:
                        self.send_header("Retry-After-Ms", "1")
                    self.end_headers()
                    self.wfile.write(data)
                except BrokenPipeError:
                    pass  # the client is gone

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def asked(self, body, key):
        with self._lock:
            self.prompts.append(body["messages"][0]["content"])
            self.keys.append(key)
            wait = self.hold_after is not None and len(self.prompts) > self.hold_after
        if wait:
            self.holding.set()
            self.release.wait(120)

    def next_status(self):
        with self._lock:
            return self.status.pop(0) if self.status else 200

    def close(self):
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
