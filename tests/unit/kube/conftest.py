"""An API server that does as a test says."""

from __future__ import annotations

import copy
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hawk_kube import client
from hawk_kube.config import Endpoint
from hawk_kube.credentials import Fixed, Login


class Server(ThreadingHTTPServer):
    """`answer(request)` is called for each request and writes what it wants; `seen` holds them all."""

    daemon_threads = True

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.seen = []
        self.clients = []

    def handle_error(self, request, client_address):
        """Clients that go away are what these tests are about."""

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def client(self, credentials=None, **more):
        credentials = credentials or Fixed(Login())
        self.clients.append(
            client.connect_client("test", endpoint=Endpoint("test", self.address, credentials), **more)
        )
        return self.clients[-1]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_one_request(self):
        self.body = None
        super().handle_one_request()

    def _take(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.body = json.loads(self.rfile.read(length)) if length else None
        self.server.seen.append(copy.copy(self))  # one handler serves all calls of a connection
        self.server.answer(self)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _take  # noqa: N815

    def reply(self, code=200, body=None, **headers):
        content = body if isinstance(body, bytes) else json.dumps(body if body is not None else {}).encode()
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def begin(self):
        """The head of an answer in chunks, which `chunk` writes; an empty one ends it."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, *_):
        pass


@pytest.fixture
def serving():
    @contextmanager
    def start(answer):
        server = Server(answer)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            for connected in server.clients:
                connected.close()
            server.shutdown()
            thread.join()
            server.server_close()

    return start
