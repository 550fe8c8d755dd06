"""A server on loopback that records every body it receives, as an external telemetry service would."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Collector:
    """Replaces Sentry and an OpenTelemetry collector. Start it with `with`."""

    def __init__(self) -> None:
        received = self.received = list[tuple[str, bytes]]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                packed = self.headers.get("Content-Encoding") == "gzip"
                received.append((self.path, gzip.decompress(body) if packed else body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self.sentry_dsn = f"http://key@127.0.0.1:{self._server.server_port}/1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def to(self, words: str) -> bytes:
        """Return all requests to paths with these words in them."""
        return b"\n".join(body for path, body in list(self.received) if words in path)
