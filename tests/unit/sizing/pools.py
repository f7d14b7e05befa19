"""Pools, windows and loads for tests, from plain numbers."""

from __future__ import annotations

import math
import random

from hawk_api.models import load_preset
from hawk_api.v1alpha1.enums import Role
from hawk_planner.perf.objectives import LatencyObjective
from hawk_planner.perf.work import ModelWork
from hawk_planner.sizing import GroupObservation, Problem, SizedGroup, Worker
from hawk_planner.traffic import SideTraffic, Window, distribution, signals

MODEL = ModelWork.of(load_preset("mistral-7b-instruct-v0.2"), "float16")
GPU = Worker(flops=989e12, bandwidth=3.35e12, memory=80e9)
NPU = Worker(flops=180e12, bandwidth=1.8e12, memory=128e9)


def group(name: str, role: Role, least: int = 1, most: int = 16, **more) -> SizedGroup:
    """A group of GPUs where it prefills, of NPUs where it decodes."""
    worker = more.pop("worker", NPU if role is Role.DECODE else GPU)
    price = more.pop("usd_per_hour", 0.8 if role is Role.DECODE else 3.0)
    return SizedGroup(name, role, least, most, worker, usd_per_hour=price, **more)


def pool(**more) -> Problem:
    """One group a role, TTFT P95 of 1.2 s, ITL P99 of 25 ms."""
    groups = more.pop("groups", (group("prefill", Role.PREFILL), group("decode", Role.DECODE)))
    more = {"ttft": LatencyObjective(0.95, 1.2), "itl": LatencyObjective(0.99, 0.025), **more}
    return Problem(MODEL, groups, **more)


def lengths(mean: float, seed: int = 1, spread: float = 0.5) -> distribution.Distribution:
    """A log-normal mix of lengths with exactly this mean."""
    made = random.Random(seed)
    drawn = [made.lognormvariate(math.log(mean), spread) for _ in range(40)]
    return distribution.of({x * mean * len(drawn) / sum(drawn): 1.0 for x in drawn})


def window(rate: float, prompt: float = 4000, output: float = 300, now: float = 0.0, **more) -> Window:
    """A window with everything known."""
    prefill = {"arrivals": signals.value(rate), "prompt": signals.value(lengths(prompt))}
    decode = {"arrivals": signals.value(rate), "output": signals.value(lengths(output, 2))}
    if rate == 0:
        nothing = signals.not_a_number("nothing was counted in the window")
        prefill["prompt"], decode["output"] = nothing, nothing
    return Window(
        now,
        60.0,
        SideTraffic(**prefill, **more.pop("prefill", {})),
        SideTraffic(**decode, **more.pop("decode", {})),
        burstiness=signals.value(more.pop("dispersion", 1.0)),
        **more,
    )


def seen(**replicas: int) -> dict[str, GroupObservation]:
    """All replicas are there and ready."""
    return {name: GroupObservation(n, n, n) for name, n in replicas.items()}


RAG = {"rate": 4.0, "prompt": 12_000, "output": 300}
AGENT = {"rate": 24.0, "prompt": 1_500, "output": 600}
