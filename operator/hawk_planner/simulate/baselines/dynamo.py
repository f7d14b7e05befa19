"""NVIDIA Dynamo's planner as a policy: its own code, from its published wheel.

The wheel is pure Python and is taken without its dependencies (a GPU runtime among them) into an environment
of its own in the user's cache, which is made at the first use. The planner gets what it gets in a cluster:
traffic every interval, forward-pass figures of each worker, worker counts; and the simulator's exact step
times as its profile. Its load mode looks every 15 s here, as everybody does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hawk_api.v1alpha1.enums import Role
from hawk_planner.simulate import cache
from hawk_planner.simulate.policies import decode_side
from hawk_planner.simulate.workers import StepCost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_planner.simulate.meter import Gauges
    from hawk_planner.sizing import GroupObservation, Problem
    from hawk_planner.traffic import Window

VERSION = "1.6.1"
_NEEDED = (
    "aiohttp",
    "grpcio",
    "msgspec",
    "numpy",
    "packaging",
    "prometheus-client",
    "protobuf",
    "pydantic",
    "pyyaml",
)
_HOST = Path(__file__).with_name("planner_host.py")


class PeerUnavailableError(RuntimeError):
    """The baseline's environment can't be made; the message says why."""


def environment() -> Path:
    """The planner's interpreter; makes its environment at the first use, or raises PeerUnavailableError."""
    home = cache.root() / f"dynamo-planner-{VERSION}"
    python, done = home / "bin" / "python", home / ".complete"
    if done.exists():
        return python
    sys.stderr.write(f"making an environment for ai-dynamo {VERSION} in {home} (a minute)\n")
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        venv.create(home, clear=True, with_pip=True)
        for words in (["--no-deps", f"ai-dynamo=={VERSION}"], list(_NEEDED)):
            subprocess.run([*install, *words], check=True, timeout=600, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as error:
        raise PeerUnavailableError(f"ai-dynamo {VERSION} can't be installed in {home}: {error}") from error
    done.touch()
    return python


@dataclass(frozen=True)
class DynamoSettings:
    """The settings that a sweep may vary: seconds between adjustments, load mode, minima, and the TTFT
    aimed at (ms)."""

    interval: int = 60
    load: bool = False
    least_prefill: int = 1
    least_decode: int = 1
    ttft_ms: float = 250.0
    itl_ms: float = 25.0
    most: int = 64


class Host:
    """The planner's process, from the first question on; one serves any number of runs, one after another."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            words = [str(environment()), "-P", str(_HOST)]  # -P: this folder has a module of the same name
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PATH": os.defpath}
            )
        return self._process

    def ask(self, **question: Any) -> dict[str, Any]:
        """Send a question, wait for the answer; raises PeerUnavailableError when the planner ended."""
        process = self._started()
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise PeerUnavailableError(f"ai-dynamo {VERSION}'s planner ended; its own words are above")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Dynamo:
    """One run of the planner on a pool with one prefill and one decode group."""

    name = "dynamo"

    def __init__(self, problem: Problem, host: Host, settings: DynamoSettings) -> None:
        self.host = host
        self.problem = problem
        self.settings = settings
        self._begun = False
        self.prefill = problem.side(Role.PREFILL)[0].name
        self.decodes = decode_side(problem)[0].name
        self._rates: deque[float] = deque(maxlen=max(1, settings.interval // 15))
        self._lengths = 1.0, 1.0

    @property
    def key(self) -> str:
        """The planner's version, how it is run, and its settings."""
        return f"{VERSION} {cache.code('hawk_planner.simulate.baselines')} {self.settings}"

    def decide(
        self, window: Window, gauges: Gauges, observed: Mapping[str, GroupObservation], now: float
    ) -> Mapping[str, int]:
        """Let the planner take the ticks that are due."""
        if not self._begun:
            self.host.ask(start=_start(self.problem, self.settings))
            self._begun = True
        self._rates.append(window.arrivals.otherwise(0.0))
        if window.prefill.prompt.known and window.decode.output.known:
            self._lengths = window.prefill.prompt.get().mean, window.decode.output.get().mean
        first, second = observed[self.prefill], observed[self.decodes]
        wanted = self.host.ask(
            look={
                "now": now,
                "rate": sum(self._rates) / len(self._rates),
                "isl": self._lengths[0],
                "osl": self._lengths[1],
                "prefill": first.replicas,
                "decode": second.replicas,
                "ready_prefill": first.ready,
                "ready_decode": second.ready,
                "waiting": gauges.prefill_waiting,
                "running": gauges.prefill_running,
                "decoding": gauges.decode_running,
            }
        )
        least = self.settings.least_prefill, self.settings.least_decode
        return {
            self.prefill: min(self.settings.most, max(least[0], wanted["prefill"])),
            self.decodes: min(self.settings.most, max(least[1], wanted["decode"])),
        }


def _start(problem: Problem, settings: DynamoSettings) -> dict[str, Any]:
    model = problem.model
    assert model is not None
    prefill, decode = problem.side(Role.PREFILL)[0], decode_side(problem)[0]
    cost = StepCost.of(decode, model)
    tokens = [2**i for i in range(5, 18)]
    return {
        "costs": {
            "prefill": [[n, 1e3 * prefill.worker.prefill_seconds(model, n)] for n in tokens],
            "decode": {
                "base": cost.base,
                "exchange": cost.exchange,
                "arithmetic": cost.arithmetic,
                "weights": cost.weights + sum(whole for whole, _ in cost.experts),
                "read": cost.read,
                "compute": cost.compute,
            },
        },
        "engine": {
            "num_gpu": 1,
            "max_num_batched_tokens": 16_384,
            "max_num_seqs": cost.most_sequences,
            "context_length": 131_072,
            "max_kv_tokens": int(cost.memory_bytes / max(1.0, cost.kv_token)),
        },
        "config": {
            "ttft_ms": settings.ttft_ms,
            "itl_ms": settings.itl_ms,
            "max_gpu_budget": 2 * settings.most,
            "prefill_min_endpoint": settings.least_prefill,
            "decode_min_endpoint": settings.least_decode,
            "min_endpoint": 1,
            "throughput_adjustment_interval_seconds": settings.interval,
            "load_adjustment_interval_seconds": 15,
            "enable_load_scaling": settings.load,
            "load_predictor": "constant",
        },
    }
