"""A fake OpenAI-compatible server that streams, breaks off, stalls, and notices when a client goes away."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class StreamServer:
    """Streams ``pieces``; records bodies and keys.

    ``status`` lists the HTTP statuses of the next responses. ``cut_after`` ends the connection after so many pieces,
    for the number of times in ``cuts`` (None: always). ``stall_after`` waits for ``release`` or for the client to close
    the connection after so many pieces; ``gone`` is set when the client has closed it. ``whole`` answers in one JSON.
    """

    def __init__(self):  # noqa: C901 - the handler is inside
        self.bodies, self.keys, self.status = [], [], []
        self.pieces = ["It delegates ", "to the OAuth Provider [", "1].", ""]
        self.cut_after = self.stall_after = self.error = None
        self.cuts = None
        self.whole = False
        self.stalled, self.release, self.gone = threading.Event(), threading.Event(), threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                """Print nothing."""

            def do_POST(self):
                outer.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                outer.keys.append(self.headers.get("Authorization", ""))
                status = outer.status.pop(0) if outer.status else 200
                if status != 200 or outer.whole:
                    answer = {"choices": [{"message": {"content": "".join(outer.pieces)}}]}
                    data = json.dumps(answer if status == 200 else {"error": {"message": "no"}}).encode()
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.send_header("Retry-After-Ms", "1")
                    self.end_headers()
                    self.wfile.write(data)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                try:
                    self._stream()
                except OSError:
                    outer.gone.set()

            def _stream(self):
                for number, piece in enumerate(outer.pieces):
                    if number == outer.cut_after and (outer.cuts is None or outer.cuts > 0):
                        outer.cuts = None if outer.cuts is None else outer.cuts - 1
                        return
                    if number == outer.stall_after:
                        outer.stalled.set()
                        self.connection.settimeout(120)
                        if not self.connection.recv(1):  # the client closes the connection
                            outer.gone.set()
                            return
                    self._event({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
                if outer.error:
                    self._event({"error": {"message": outer.error}})
                    return
                self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
                self.wfile.write(b"data: [DONE]\n\n")

            def _event(self, value):
                self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
                self.wfile.flush()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
