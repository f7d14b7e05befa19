"""A metrics store in this process, for what a real one can't be made to do on demand (fail, hang, lie)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

Handler = Callable[[str], object]


class Trickle:
    """An answer that comes one byte at a time."""


class Hang:
    """An answer that doesn't come."""


@contextmanager
def store(answer: Handler) -> Iterator[str]:
    """Serve `answer(query)`: a list of series, an int (a status code), bytes, or a misbehaviour."""
    stop = threading.Event()

    class Request(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/api/v1/query", "queries are long, and come in the body"
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            found = answer(parse_qs(form)["query"][0])
            if isinstance(found, type) and issubclass(found, Hang):
                stop.wait(30)
                return
            status, body = (found, b"out of order") if isinstance(found, int) else (200, _body(found))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self._send(body, slowly=isinstance(found, type))
            except OSError:
                self.close_connection = True

        def _send(self, body: bytes, *, slowly: bool) -> None:
            if not slowly:
                self.wfile.write(body)
                return
            for byte in body:
                if stop.is_set():
                    return
                self.wfile.write(bytes([byte]))
                time.sleep(0.02)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        stop.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _body(found: object) -> bytes:
    if isinstance(found, bytes):
        return found
    result = [] if isinstance(found, type) else found
    text = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})
    return (text + " " * 400).encode() if isinstance(found, type) else text.encode()


def series(signal: str, value: object, **labels: str) -> dict[str, object]:
    """One series of an answer, tagged as the product tags its parts."""
    return {"metric": {"hawk_signal": signal, **labels}, "value": [1.0, value]}
