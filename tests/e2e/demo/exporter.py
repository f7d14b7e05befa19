"""Traffic for the demo: a process that counts requests as vLLM's metrics do, for Prometheus to scrape.

    python -m tests.e2e.demo.exporter --folder FOLDER --seed 7

It writes its port to FOLDER/port and plays the mix that stands in FOLDER/mix.json, whenever that changes.
No engine serves these requests: the demo's pods are kwok's. What is real is the path from the counters
on: scrape, PromQL, decision.
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

TOKENS = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768]
TICK = 0.1
SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24]


@dataclass(frozen=True)
class Mix:
    """Requests of one kind: how many a second, and how long their prompts and outputs are on average."""

    name: str
    requests_per_second: float
    prompt_tokens: float
    output_tokens: float

    def play(self, folder: Path) -> None:
        """Have the exporter of `folder` play this mix from now on."""
        draft = folder / "mix.draft"
        draft.write_text(json.dumps(asdict(self)))
        draft.rename(folder / "mix.json")


class Traffic:
    """Draws arrivals from a seed and counts them."""

    def __init__(self, seed: int, model: str) -> None:
        self._rng = np.random.default_rng(seed)
        self._due = 0.0
        self.registry = CollectorRegistry()

        def histogram(name: str, buckets: list[float]) -> Histogram:
            family = Histogram(
                name, f"As vLLM exports {name}.", ["model_name"], buckets=buckets, registry=self.registry
            )
            return family.labels(model)

        def simple(kind: type[Counter] | type[Gauge], name: str) -> Counter | Gauge:
            family = kind(name, f"As vLLM exports {name}.", ["model_name"], registry=self.registry)
            return family.labels(model)

        self._prompt = histogram("vllm:request_prompt_tokens", TOKENS)
        self._output = histogram("vllm:request_generation_tokens", TOKENS)
        self._ttft = histogram("vllm:time_to_first_token_seconds", SECONDS)
        self._itl = histogram("vllm:inter_token_latency_seconds", SECONDS)
        self._prompt_tokens = simple(Counter, "vllm:prompt_tokens")
        self._output_tokens = simple(Counter, "vllm:generation_tokens")
        self._finished = simple(Counter, "vllm:request_success")
        self._running = simple(Gauge, "vllm:num_requests_running")
        self._waiting = simple(Gauge, "vllm:num_requests_waiting")
        self._usage = simple(Gauge, "vllm:kv_cache_usage_perc")

    def count(self, mix: Mix, seconds: float) -> None:
        """Count the requests that come in `seconds`."""
        for prompt, output in self._arrivals(mix, seconds):
            self._count(prompt, output)

    def _arrivals(self, mix: Mix, seconds: float) -> Iterator[tuple[int, int]]:
        # Evenly in time: a window of seconds sees the mix's rate, where a Poisson process would blur it.
        self._due += mix.requests_per_second * seconds
        while self._due >= 1:
            self._due -= 1
            # A gamma of shape 4: skewed as real lengths are, with the stated mean.
            prompt, output = self._rng.gamma(4.0, [mix.prompt_tokens / 4, mix.output_tokens / 4])
            yield max(1, round(prompt)), max(1, round(output))

    def _count(self, prompt: int, output: int) -> None:
        self._prompt.observe(prompt)
        self._output.observe(output)
        self._ttft.observe(0.02 + prompt * 1e-5)
        self._itl.observe(0.012)
        self._prompt_tokens.inc(prompt)
        self._output_tokens.inc(output)
        self._finished.inc()


def serve(registry: CollectorRegistry) -> int:
    """Answer scrapes from a thread; returns the port.

    In the plain text format: in the OpenMetrics one the library writes the colons of vLLM's names as
    underscores, which the engine itself does not.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = generate_latest(registry)
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE_LATEST)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """A line a scrape would be noise."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--model", default="demo-llama")
    arguments = parser.parse_args()
    traffic = Traffic(arguments.seed, arguments.model)
    (arguments.folder / "port").write_text(str(serve(traffic.registry)))
    file, mix, stamp, last = arguments.folder / "mix.json", None, 0, time.monotonic()
    while True:
        time.sleep(TICK)
        if file.exists() and (changed := file.stat().st_mtime_ns) != stamp:
            mix, stamp = Mix(**json.loads(file.read_text())), changed
        now = time.monotonic()
        if mix:
            traffic.count(mix, now - last)
        last = now


if __name__ == "__main__":
    main()
