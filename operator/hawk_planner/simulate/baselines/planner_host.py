"""Runs NVIDIA Dynamo's planner for the simulator; started by `dynamo.py` with the planner's own interpreter.

A line of JSON in, a line out: `{"start": …}` makes a planner, `{"look": …}` gives what it sees and is
answered with the replicas that it wants. What the planner imports and doesn't use offline (Kubernetes,
plots, forecasting packages) is stubbed, and the native performance model, which the registry has only a
placeholder of, is stood in for by the simulator's own cost of a step: a perfect profile.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.abc
import importlib.machinery
import json
import logging
import sys
import types
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

STUBBED = (
    "dynamo._core",
    "dynamo.llm",
    "dynamo.prometheus_names",
    "dynamo.runtime",
    "filterpy",
    "kubernetes",
    "pandas",
    "plotly",
    "pmdarima",
    "prometheus_api_client",
    "prophet",
    "requests",
    "sklearn",
    "uvloop",
    "zstandard",
)
COSTS: dict[str, Any] = {}
"""Step times of the pool at hand: `prefill` a table of (tokens, ms), `decode` the coefficients of a step."""


class _Anything(type):
    """A class with any attribute: each is another such class."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _anything(name)


def _anything(name: str) -> Any:
    return _Anything(name, (Exception,), {"__init__": lambda self, *a, **k: None})


class _Stub(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__path__ = []

        def attribute(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            if name.startswith("configure_"):
                return lambda *a, **k: None
            return _anything(name)

        module.__getattr__ = attribute  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        del path, target
        if any(name == stub or name.startswith(f"{stub}.") for stub in STUBBED):
            return importlib.machinery.ModuleSpec(name, _Stub(), is_package=True)
        return None


def _step_ms(kind: str, scheduled: Mapping[str, float]) -> float:
    if kind == "prefill":
        return _prefill_ms(scheduled["sum_prefill_tokens"])
    number, tokens = scheduled["num_decode_requests"], scheduled["sum_decode_kv_tokens"]
    if not number:
        return 0.0
    costs = COSTS["decode"]
    linear = max(costs["arithmetic"] * number, costs["weights"])
    attention = max(a * number + b * tokens for a, b in (costs["read"], costs["compute"]))
    return float(1e3 * (costs["base"] + costs["exchange"] * number + linear + attention))


def _prefill_ms(tokens: float) -> float:
    table = COSTS["prefill"]
    if tokens <= 0:
        return 0.0
    at = min(max(1, bisect_left(table, [tokens, 0.0])), len(table) - 1)
    (x0, y0), (x1, y1) = table[at - 1], table[at]
    return float(y0 + (y1 - y0) * (tokens - x0) / (x1 - x0))


class _Model:
    """Stands in for the native performance model: says what a step costs, exactly."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.seen = 0

    @classmethod
    def best_available(cls, config: dict[str, Any]) -> _Model:
        return cls(config["worker_type"])

    def tune_with_fpms(self, observations: Any) -> None:
        self.seen += len(observations)

    def diagnostics(self) -> dict[str, Any]:
        return {"readiness": "ready", "source": "exact", "retained_observations": self.seen}

    def estimate_forward_pass_time_ms(self, ranks: Any) -> float:
        each = ranks if isinstance(ranks, list) else [ranks]
        return max(_step_ms(self.kind, rank["scheduled_requests"]) for rank in each)


@dataclass
class _ModelConfig:
    """The model's configuration, of which only the kind of worker is used."""

    model: str = ""
    system: str = ""
    backend: str = "vllm"
    worker_type: str = "prefill"
    estimation_mode: str = "fpm_regression"
    tp: int = 1
    pp: int = 1
    estimator_config: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_legacy_engine_config(cls, config: Any, worker_type: str, options: Any) -> _ModelConfig:
        del config
        return cls(worker_type=worker_type, estimator_config={"options": dict(options)})


def _install() -> None:
    sys.meta_path.insert(0, _Finder())
    core, sdk = types.ModuleType("aisimulate_core"), types.ModuleType("aisimulate_core.sdk")
    core.__path__ = []
    sdk.ForwardPassPerfModelConfig = _ModelConfig  # type: ignore[attr-defined]
    sdk.RustForwardPassPerfModel = _Model  # type: ignore[attr-defined]
    sys.modules |= {"aisimulate_core": core, "aisimulate_core.sdk": sdk}
    logging.disable(logging.CRITICAL)


class Planner:
    """One planner, its clock the simulation's."""

    def __init__(self) -> None:
        self.types = importlib.import_module("dynamo.planner.core.types")
        self.metrics = importlib.import_module("dynamo.common.forward_pass_metrics")
        self.engine: Any = None
        self.tick: Any = None

    async def start(self, given: dict[str, Any]) -> None:
        """Make a planner for a pool (`costs`) with its settings (`config`)."""
        COSTS.update(given["costs"])
        if self.engine is not None:
            await self.engine.shutdown()
        config = importlib.import_module("dynamo.planner.config.planner_config").PlannerConfig(
            mode="disagg",
            environment="virtual",
            namespace="simulated",
            backend="mocker",
            optimization_target="sla",
            model_name="m",
            control_api_port=0,
            prefill_engine_num_gpu=1,
            decode_engine_num_gpu=1,
            **given["config"],
        )
        one = self.types.EngineCapabilities(**given["engine"])
        adapter = importlib.import_module("dynamo.planner.plugins.orchestrator.engine_adapter")
        clock = importlib.import_module("dynamo.planner.plugins.clock").VirtualClock()
        capabilities = self.types.WorkerCapabilities(prefill=one, decode=one)
        self.engine = adapter.OrchestratorEngineAdapter(config, capabilities, clock=clock)
        self.engine.install_regressions_from_fpms(
            prefill_fpms=[self._prefill(tokens, 0) for tokens, _ in COSTS["prefill"]],
            decode_fpms=[self._decode(n, n * c) for c in (500, 2000, 8000) for n in range(1, 257, 32)],
        )
        await self.engine.bootstrap_plugins(historical_traffic=None)
        self.tick = self.engine.initial_tick(0.0)

    def _prefill(self, tokens: float, queued: float) -> Any:
        m = self.metrics
        scheduled = m.ScheduledRequestMetrics(
            num_prefill_requests=int(tokens > 0), sum_prefill_tokens=int(tokens)
        )
        waiting = m.QueuedRequestMetrics(num_prefill_requests=int(queued > 0), sum_prefill_tokens=int(queued))
        return m.ForwardPassMetrics(
            wall_time=_prefill_ms(tokens) / 1e3, scheduled_requests=scheduled, queued_requests=waiting
        )

    def _decode(self, number: float, tokens: float) -> Any:
        m = self.metrics
        counts = {"num_decode_requests": int(number), "sum_decode_kv_tokens": int(tokens)}
        return m.ForwardPassMetrics(
            wall_time=_step_ms("decode", counts) / 1e3,
            scheduled_requests=m.ScheduledRequestMetrics(**counts),
        )

    async def look(self, seen: dict[str, Any]) -> dict[str, int]:
        """Every tick that is due by now, on what is seen now; the replicas wanted then."""
        t, now = self.types, seen["now"]
        wanted = {"prefill": seen["prefill"], "decode": seen["decode"]}
        while self.tick.at_s <= now + 1e-6:
            traffic = None
            if self.tick.need_traffic_metrics:
                span = self.tick.traffic_metrics_duration_s
                traffic = t.TrafficObservation(
                    duration_s=span,
                    num_req=seen["rate"] * span,
                    isl=seen["isl"],
                    osl=seen["osl"],
                    kv_hit_rate=0.0,
                )
            passes = self._passes(seen) if self.tick.need_worker_fpm else None
            counts = t.WorkerCounts(
                ready_num_prefill=seen["ready_prefill"],
                ready_num_decode=seen["ready_decode"],
                expected_num_prefill=wanted["prefill"],
                expected_num_decode=wanted["decode"],
            )
            given = t.TickInput(
                now_s=self.tick.at_s, traffic=traffic, worker_counts=counts, fpm_observations=passes
            )
            effect = await self.engine.tick(self.tick, given)
            if effect.scale_to:
                asked = {role: getattr(effect.scale_to, f"num_{role}") for role in wanted}
                wanted |= {role: count for role, count in asked.items() if count is not None}
            self.tick = effect.next_tick
        return wanted

    def _passes(self, seen: dict[str, Any]) -> Any:
        ready_p, ready_d = max(1, seen["ready_prefill"]), max(1, seen["ready_decode"])
        queued = seen["waiting"] * seen["isl"] / ready_p
        busy = seen["isl"] if seen["running"] else 0
        number = seen["decoding"] / ready_d
        tokens = number * (seen["isl"] + seen["osl"] / 2)
        return self.types.FpmObservations(
            prefill={(str(i), 0): self._prefill(busy, queued) for i in range(ready_p)},
            decode={(str(i), 0): self._decode(number, tokens) for i in range(ready_d)},
        )


async def _serve() -> None:
    planner = Planner()
    for line in sys.stdin:
        asked = json.loads(line)
        answer = {}
        if "start" in asked:
            await planner.start(asked["start"])
        else:
            answer = await planner.look(asked["look"])
        sys.__stdout__.write(json.dumps(answer) + "\n")  # type: ignore[union-attr]
        sys.__stdout__.flush()  # type: ignore[union-attr]


if __name__ == "__main__":
    _install()
    sys.stdout = sys.stderr
    asyncio.run(_serve())
