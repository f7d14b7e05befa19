"""A worker without a model: it fills its KV cache with random numbers, hands it over, and tells what arrived.

It is written with hawk_agent.client and numpy alone. ROLE is prefill or decode; on port 8000 it takes

    GET  /ready                              200 while it is registered with the node's agent
    GET  /                                   its state
    POST /reserve  {request, tokens}         decode: a lease; the ticket for the prefill side
    POST /prefill  {ticket, tokens, seed}    prefill: make KV, push it layer by layer; how that ended
    POST /finish   {request}                 decode: wait for all layers, acknowledge, release; what is there

The prefill side keeps [layer, K or V, head, token, feature], the decode side tiles of 16 by 16. Both answer
with the SHA-256 of the cache in logical order, so equal digests mean that the translation was right.
"""

import base64
import hashlib
import json
import mmap
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import numpy as np

from hawk_agent.client import AgentClient, allocate_shared, layer_events

ROLE = os.environ["ROLE"]
LAYERS, HEADS, FEATURES, TILE = 4, 2, 64, 16
TOKENS = int(os.environ.get("TOKENS", "256"))
POPULATE = os.environ.get("POPULATE", "yes") == "yes"
WAIT_SECONDS = 30.0

PREFILL = ROLE == "prefill"
SIZES = {"l": LAYERS, "c": 2, "h": HEADS, "s": TOKENS, "d": FEATURES}
NOTATION = "l c h s d"
SHAPE = (LAYERS, 2, HEADS, TOKENS, FEATURES)
if not PREFILL:
    SIZES |= {"s0": TILE, "d0": TILE}
    NOTATION = "l c h s1 d1 s0 d0"
    SHAPE = (LAYERS, 2, HEADS, TOKENS // TILE, FEATURES // TILE, TILE, TILE)
NBYTES = int(np.prod(SHAPE)) * 2
if POPULATE:
    DESCRIPTOR, MEMORY = allocate_shared("kv", NBYTES)
else:
    DESCRIPTOR = os.memfd_create("kv", os.MFD_ALLOW_SEALING)
    os.ftruncate(DESCRIPTOR, NBYTES)
    MEMORY = mmap.mmap(DESCRIPTOR, NBYTES)
KV = np.frombuffer(MEMORY, np.float16).reshape(SHAPE)


class State:
    """The connection to the agent, made anew whenever it is gone, and the leases that are held."""

    engine: AgentClient | None = None
    error = ""
    registrations = 0
    leases: ClassVar[dict] = {}


def keep() -> None:
    """Stay registered."""
    while True:
        try:
            with AgentClient() as engine:
                engine.register("kv", DESCRIPTOR, NOTATION, SIZES, "float16")
                State.engine, State.error = engine, ""
                State.registrations += 1
                print(f"registered on {engine.node}, epoch {engine.epoch}", flush=True)
                while engine.alive:
                    time.sleep(0.1)
                State.error = "the agent is gone"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
            State.error = f"{type(error).__name__}: {error}"
        State.engine = None
        print(State.error, flush=True)
        time.sleep(0.5)


def engine() -> AgentClient:
    """The connection; RuntimeError when there is none."""
    if State.engine is None:
        raise RuntimeError(f"not registered: {State.error}")
    return State.engine


def reserve(request: str, tokens: int) -> dict:
    KV[:, :, :, : -(-tokens // TILE)] = 0
    lease = engine().reserve("kv", request, windows={"s": (0, tokens)}, verify="Always")
    State.leases[request] = lease, tokens
    return {"ticket": base64.b64encode(lease.ticket).decode()}


def prefill(ticket: str, tokens: int, seed: int) -> dict:
    events = layer_events(LAYERS)
    try:
        push = engine().push(base64.b64decode(ticket), "kv", 1, events, windows={"s": (0, tokens)})
        numbers = np.random.default_rng(seed)
        for layer in range(LAYERS):
            values = numbers.standard_normal((2, HEADS, tokens, FEATURES), np.float32)
            KV[layer, :, :, :tokens] = values
            os.eventfd_write(events[layer], 1)
        result = push.result(timeout=WAIT_SECONDS)
    finally:
        for event in events:
            os.close(event)
    return {
        "outcome": result.outcome.label,
        "ok": result.outcome.ok,
        "message": result.message,
        "transport": result.transport,
        "sha256": digest(KV[:, :, :, :tokens]),
    }


def finish(request: str) -> dict:
    lease, tokens = State.leases.pop(request)
    try:
        engine().wait(lease, LAYERS - 1, timeout=WAIT_SECONDS)
        tiles = KV[:, :, :, : -(-tokens // TILE)]
        straight = tiles.transpose(0, 1, 2, 3, 5, 4, 6).reshape(LAYERS, 2, HEADS, -1, FEATURES)
        engine().acknowledge(lease)
        return {"sha256": digest(straight[:, :, :, :tokens])}
    finally:
        engine().release(lease)


def digest(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        ready = State.engine is not None
        state = {
            "role": ROLE,
            "node": State.engine.node if State.engine else "",
            "error": State.error,
            "registrations": State.registrations,
        }
        self.answer(200 if ready or self.path != "/ready" else 503, state)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        work = {"/reserve": reserve, "/prefill": prefill, "/finish": finish}[self.path]
        try:
            self.answer(200, work(**body))
        except Exception as error:  # noqa: BLE001 - it is told
            self.answer(500, {"error": f"{type(error).__name__}: {error}"})

    def answer(self, status: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    threading.Thread(target=keep, daemon=True).start()
    ThreadingHTTPServer(("", 8000), Handler).serve_forever()
