"""A model process: it prefills or decodes, keeps its KV in memory of its own, and talks to its node's agent.

    python -m tests.e2e.demo.worker ROLE AGENT-SOCKET CONTROL-SOCKET SCALE

The demo is its router: it sends one request at a time over the control socket and gets one answer. When
the demo is gone, the connection is, and the worker ends. When the agent is gone, the worker connects again
and registers its memory again, as an engine does.
"""

import os
import sys
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Self

from hawk_agent.client import AgentClient, LeaseHandle, Transfer, allocate_shared, layer_events
from hawk_agent.errors import HawkAgentError
from tests.support.supervisor import Process, Supervisor

from .caches import TILE, RowMajorCache, TileCache
from .llama import Halves, Llama
from .scale import SCALES, Scale

MODEL_SEED = 11
DTYPE = "float16"
POOL = "default/demo"
RECONNECT_SECONDS = 0.2
START_SECONDS = 180.0
ANSWER_SECONDS = 90.0
ACCEPT_POLL_SECONDS = 0.2


def sizes(scale: Scale) -> dict[str, int]:
    """The logical axes of one sequence's KV."""
    shape = scale.shape
    return {"l": shape.layers, "c": 2, "h": shape.kv_heads, "s": scale.capacity, "d": shape.head_dim}


class Memory:
    """A region: memory of this process, registered with the agent and, if that restarts, with the next."""

    def __init__(
        self,
        role: str,
        agent: Path,
        scale: Scale,
        cache: type[RowMajorCache | TileCache],
        levels: Mapping[str, int],
    ) -> None:
        self.descriptor, self.mapping = allocate_shared(role, cache(scale.shape, scale.capacity).array.nbytes)
        self.cache = cache(scale.shape, scale.capacity, memoryview(self.mapping))
        self._role, self._agent = role, agent
        self._patience = scale.patience
        self._layout = (cache.NOTATION, {**sizes(scale), **levels}, DTYPE)
        self._engine: AgentClient | None = None
        self._ready = threading.Condition()
        threading.Thread(target=self._keep_registered, daemon=True).start()

    def engine(self) -> AgentClient:
        """The connection to the agent that runs now, once the region is registered there."""
        timeout = ANSWER_SECONDS * self._patience
        with self._ready:
            if not self._ready.wait_for(lambda: self._engine is not None, timeout):
                raise TimeoutError(f"no agent took the region at {self._agent} within {timeout:g} s")
            assert self._engine is not None
            return self._engine

    def _keep_registered(self) -> None:
        while True:
            try:
                with AgentClient(self._agent, name=self._role) as engine:
                    engine.register(
                        self._role, self.descriptor, *self._layout,
                        pool=POOL, group=self._role, worker=f"{self._role}-0",
                    )  # fmt: skip
                    self._set(engine)
                    while engine.alive:
                        time.sleep(RECONNECT_SECONDS)
            except HawkAgentError as error:
                print(error, flush=True)
            self._set(None)
            time.sleep(RECONNECT_SECONDS)

    def _set(self, engine: AgentClient | None) -> None:
        with self._ready:
            self._engine = engine
            self._ready.notify_all()


class Prefill:
    """Runs the prompt, layer by layer, while the agent sends what is done."""

    def __init__(self, agent: Path, scale: Scale) -> None:
        self.memory = Memory("prefill", agent, scale, RowMajorCache, {})
        self.model = Llama(scale.shape, MODEL_SEED)
        self._patience = scale.patience
        self._transfer: Transfer | None = None

    def prefill(self, prompt: list[int], ticket: bytes, chunk_layers: int) -> dict[str, Any]:
        """Prefill while the agent pushes; returns the first token and the seconds that computing took."""
        events = layer_events(self.model.shape.layers)
        try:
            windows = {"s": (0, len(prompt))}
            engine = self.memory.engine()
            self._transfer = engine.push(ticket, "prefill", chunk_layers, events, windows=windows)
            started = time.monotonic()
            first = self.model.forward(prompt, 0, _Signalling(self.memory.cache, events))
            return {"first": first, "compute_seconds": time.monotonic() - started}
        finally:
            for event in events:
                os.close(event)

    def result(self) -> dict[str, Any]:
        """How the transfer went, once both sides are done with it."""
        assert self._transfer is not None
        result = self._transfer.result(timeout=ANSWER_SECONDS * self._patience)
        return {
            "outcome": result.outcome.label,
            "ok": result.outcome.ok,
            "message": result.message,
            "bytes": result.nbytes,
            "chunks": len(result.chunks),
            "verified": all(chunk.verified for chunk in result.chunks) and bool(result.chunks),
            "digest": result.digest.hex(),
            "hidden_share": result.hidden_share,
            "exposed_ms": result.exposed_seconds * 1e3,
            "transport": result.transport,
        }


class _Signalling:
    """A cache that signals a layer's event when the layer's K and V are in memory, and not before."""

    def __init__(self, cache: RowMajorCache | TileCache, events: list[int]) -> None:
        self._cache, self._events = cache, events

    def store(self, layer: int, position: int, k: Halves, v: Halves) -> None:
        self._cache.store(layer, position, k, v)
        os.eventfd_write(self._events[layer], 1)

    def load(self, layer: int, tokens: int) -> tuple[Halves, Halves]:
        return self._cache.load(layer, tokens)


class Decode:
    """Grants leases on its memory, and decodes on the layers that have arrived."""

    def __init__(self, agent: Path, scale: Scale) -> None:
        self.memory = Memory("decode", agent, scale, TileCache, {"s0": TILE, "d0": TILE})
        self.model = Llama(scale.shape, MODEL_SEED)
        self._patience = scale.patience
        self._lease: LeaseHandle | None = None
        self._tokens = 0

    def epoch(self) -> str:
        """The incarnation of the agent that the memory is registered with now."""
        return self.memory.engine().epoch

    def reserve(self, request: str, tokens: int) -> bytes:
        """Clear the memory, so that nothing of an earlier request can help, and grant a lease on it."""
        engine = self.memory.engine()
        self.memory.cache.array[:] = 0
        self._tokens = tokens
        self._lease = engine.reserve("decode", request, windows={"s": (0, tokens)}, verify="Always")
        return bytes(self._lease.ticket)

    def decode(self, first: int, count: int) -> dict[str, Any]:
        """Decode `count` tokens, of which the prefill side made the first; says what arrived."""
        engine, lease = self.memory.engine(), self._lease
        assert lease is not None
        try:
            engine.wait(lease, self.model.shape.layers - 1, timeout=ANSWER_SECONDS * self._patience)
            whole = self.memory.cache.digest(self._tokens)
            tokens = self.model.generate(first, self._tokens, count, self.memory.cache)
            engine.acknowledge(lease)
        finally:
            engine.release(lease)
        return {"tokens": tokens, "sha256": whole}


class Alone:
    """The same model in one process, without agents: what the other two must agree with."""

    def __init__(self, agent: Path, scale: Scale) -> None:
        del agent  # it has no part in this
        self.model = Llama(scale.shape, MODEL_SEED)
        self._capacity = scale.capacity

    def generate(self, prompt: list[int], count: int) -> dict[str, Any]:
        """Prefill and decode; the SHA-256 is of the prompt's KV, laid out in tiles by plain numpy."""
        cache = TileCache(self.model.shape, self._capacity)
        first = self.model.forward(prompt, 0, cache)
        whole = cache.digest(len(prompt))
        return {"tokens": self.model.generate(first, len(prompt), count, cache), "sha256": whole}


class Worker:
    """The demo's handle of a model process."""

    def __init__(self, process: Process, connection: Connection, patience: float) -> None:
        self.process = process
        self._connection = connection
        self._patience = patience

    @classmethod
    def start(
        cls, supervisor: Supervisor, role: str, agent: Path, scale: str, environment: Mapping[str, str]
    ) -> Self:
        """Start the process and wait until it is connected (it may still wait for its agent)."""
        control = supervisor.folder / f"{role}.control"
        command = [sys.executable, "-m", "tests.e2e.demo.worker", role, agent, control, scale]
        patience = SCALES[scale].patience
        with Listener(str(control)) as listener:
            process = supervisor.spawn(command, name=f"{role}-model", env=environment)
            return cls(process, _accept(listener, process, START_SECONDS * patience), patience)

    def start_ask(self, do: str, **arguments: Any) -> None:
        """Send a request whose answer is fetched later."""
        self._connection.send({"do": do, **arguments})

    def answer(self) -> Any:
        """The answer to the request under way; raises RuntimeError with the worker's words if it failed."""
        timeout = 2 * ANSWER_SECONDS * self._patience
        if not self._connection.poll(timeout):
            self.process.check()
            raise TimeoutError(f"{self.process.name} gave no answer in {timeout:g} s")
        answer = self._connection.recv()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    def ask(self, do: str, **arguments: Any) -> Any:
        """Send a request and wait for its answer."""
        self.start_ask(do, **arguments)
        return self.answer()

    def close(self) -> None:
        """Let it end."""
        self._connection.close()


def environment() -> dict[str, str]:
    """Environment in which the demo's processes import the tests package from the checkout."""
    root = str(Path(__file__).parents[3])
    # One thread each: three numpy processes on two cores would only fight.
    return {
        "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]),
        "OPENBLAS_NUM_THREADS": "1",
    }


def _accept(listener: Listener, process: Process, timeout: float) -> Connection:
    accepted: list[Connection] = []
    thread = threading.Thread(target=lambda: accepted.append(listener.accept()), daemon=True)
    thread.start()
    deadline = time.monotonic() + timeout
    while not accepted:
        process.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{process.name} did not connect within {timeout:g} s")
        thread.join(ACCEPT_POLL_SECONDS)
    return accepted[0]


def main() -> None:
    """Answer requests until the demo is gone."""
    role, agent, control, scale = sys.argv[1], Path(sys.argv[2]), sys.argv[3], SCALES[sys.argv[4]]
    with Client(control) as connection:
        worker = {"prefill": Prefill, "decode": Decode, "alone": Alone}[role](agent, scale)
        while True:
            try:
                request = connection.recv()
            except (EOFError, OSError):
                return
            try:
                connection.send({"value": getattr(worker, request.pop("do"))(**request)})
            except (HawkAgentError, TimeoutError) as error:
                connection.send({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
