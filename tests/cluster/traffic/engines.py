"""Engines for a real Prometheus to scrape: one page a pod, counters that a test moves."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Engine:
    """One pod's metrics as a page: requests of fixed lengths, counted by `serve`."""

    def __init__(self, prompt: int = 1500, output: int = 100, kv: str = "vllm:kv_cache_usage_perc") -> None:
        self.prompt = prompt
        self.output = output
        self.requests = 0
        self.gauges = {"vllm:num_requests_running": 0.0, "vllm:num_requests_waiting": 0.0, kv: 0.25}
        self.broken = False
        self.underscores = False
        """True if names come as an exporter writes them that negotiated OpenMetrics."""
        self._lock = threading.Lock()

    def serve(self, requests: int) -> None:
        """Count requests as served."""
        with self._lock:
            self.requests += requests

    def restart(self) -> None:
        """Start all counters again."""
        with self._lock:
            self.requests = 0

    def page(self) -> str:
        """The page in the text format."""
        with self._lock:
            lines = [f"{name} {value}" for name, value in self.gauges.items()]
            for name, tokens in (
                ("vllm:request_prompt_tokens", self.prompt),
                ("vllm:request_generation_tokens", self.output),
            ):
                lines += [
                    f'{name}_bucket{{le="{edge}"}} {self.requests if tokens <= edge else 0}'
                    for edge in (50, 200, 500, 1000, 2000, 5000)
                ]
                lines += [
                    f'{name}_bucket{{le="+Inf"}} {self.requests}',
                    f"{name}_sum {tokens * self.requests}",
                    f"{name}_count {self.requests}",
                ]
        page = "\n".join(lines) + "\n"
        return page.replace("vllm:", "vllm_") if self.underscores else page


@contextmanager
def fleet(engines: dict[str, Engine]) -> Iterator[int]:
    """Serve every engine's page under /NAME; yields the port."""

    class Request(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            engine = engines.get(self.path.strip("/"))
            found = engine is not None and not engine.broken
            body = engine.page().encode() if found and engine else b"gone"
            self.send_response(200 if found else 500)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
