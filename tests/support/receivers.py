"""A web server that keeps what webhooks send."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class Receiver(HTTPServer):
    """A web server on this machine that keeps what it is sent."""

    def __init__(self) -> None:
        self.taken: list[dict[str, object]] = []
        super().__init__(("127.0.0.1", 0), _Taking)


class _Taking(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.taken.append(json.loads(self.rfile.read(length)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A server that runs in a thread of its own."""
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
