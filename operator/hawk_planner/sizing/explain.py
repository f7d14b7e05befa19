"""The words and numbers of a decision: what binds, what is expected, what it rests on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from hawk_api import duration
from hawk_planner.sizing.allocate import totals
from hawk_planner.sizing.history import CORRECTION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hawk_planner.sizing.demand import DecodeNeed, PrefillNeed
    from hawk_planner.sizing.needs import Needs
    from hawk_planner.sizing.problem import Problem
    from hawk_planner.traffic import Window

Values = dict[str, float | str]


def inputs(problem: Problem, needs: Needs, window: Window, corrections: Mapping[str, float]) -> Values:
    """The numbers that a decision on traffic rests on."""
    load = needs.load
    found: Values = {
        "requestRate": load.rate,
        "promptTokensMean": load.prompt.mean,
        "promptTokensP95": load.prompt.quantile(0.95),
        "outputTokensMean": load.output.mean,
        "contextTokens": load.context,
        "dispersion": load.dispersion,
        "prefillBacklog": load.prefill_backlog,
        "decodeBacklog": load.decode_backlog,
        "windowSeconds": window.seconds,
        "tolerance": problem.tolerance,
    }
    for name, objective in (("ttft", problem.ttft), ("itl", problem.itl)):
        if objective:
            found[f"{name}Target"] = (
                f"P{objective.share * 100:.0f} {duration.format_duration(objective.target)}"
            )
    for name, factor in corrections.items():
        found[f"{name}{CORRECTION}"] = factor
    for side, usage in (("prefill", window.prefill), ("decode", window.decode)):
        for signal, state in (("Running", usage.running), ("KvUsage", usage.kv_usage)):
            if state.known:
                found[f"{side}{signal}"] = state.get()
    if window.link.known:
        found["transferBytesPerSecond"] = window.link.get()
    if problem.link_bytes_per_second:
        found["linkBytesPerSecond"] = problem.link_bytes_per_second
    return found


def prediction(problem: Problem, needs: Needs, replicas: Mapping[str, int]) -> Values:
    """The predictions for when the replicas are ready: seconds, shares, US dollars an hour."""
    found: Values = {}
    prefill, many = _main(problem, needs.prefill, replicas)
    if prefill is not None:
        queue = prefill.queue(needs.load.rate, max(1, many))
        share = problem.ttft.share if problem.ttft else 0.95
        latency = queue.latency(share) if many else math.inf
        found["ttftSeconds"] = latency if math.isfinite(latency) else "unbounded"
        found["prefillSeconds"] = prefill.mean_service
        found["prefillUtilisation"] = queue.utilisation if many else "unbounded"
        if problem.ttft:
            found["ttftAttained"] = queue.attained(problem.ttft.target) if many else 0.0
            found["ttftAttainable"] = prefill.attainable
    decode, many = _main(problem, needs.decode, replicas)
    if decode is not None:
        mean, peak = decode.sequences(needs.load.rate)
        found["itlSeconds"] = decode.step_s
        found["decodeBatch"] = decode.batch
        found["decodeSequences"] = mean
        found["decodeSequencesPeak"] = peak
        found["decodeUtilisation"] = mean / (many * decode.batch) if many else "unbounded"
    cost = problem.usd_per_hour(replicas)
    if cost is not None:
        found["costUsdPerHour"] = cost
    found["devices"] = problem.devices(replicas)
    watts = [group.watts for group in problem.groups if replicas.get(group.name)]
    if watts and all(w is not None for w in watts):
        found["watts"] = sum((g.watts or 0.0) * replicas.get(g.name, 0) for g in problem.groups)
    return found


_Need = TypeVar("_Need", "PrefillNeed", "DecodeNeed")


def _main(
    problem: Problem, needs: Mapping[str, _Need], replicas: Mapping[str, int]
) -> tuple[_Need | None, int]:
    """The need of the group with most replicas on a side, and the replicas of the whole side."""
    names = [group.name for group in problem.groups if group.name in needs]
    if not names:
        return None, 0
    return needs[max(names, key=lambda name: replicas.get(name, 0))], sum(replicas.get(n, 0) for n in names)


def sizing(problem: Problem, needs: Needs, replicas: Mapping[str, int]) -> str:
    """One sentence a side: how many, and what binds."""
    parts = []
    load = needs.load
    prefill, decode = totals(problem, replicas)
    need, _ = _main(problem, needs.prefill, replicas)
    if need is not None:
        parts.append(
            f"prefill {prefill}: {load.rate:.3g} requests/s of {load.prompt.mean:.0f} tokens, "
            f"{need.mean_service * 1000:.0f} ms each, bound by {_prefill_limit(problem, need, load.rate)}"
        )
    held, _ = _main(problem, needs.decode, replicas)
    if held is not None:
        parts.append(
            f"decode {decode}: {held.sequences(load.rate)[1]:.0f} sequences at the peak, "
            f"bound by {held.limit}"
        )
    return "; ".join(parts)


def _prefill_limit(problem: Problem, need: PrefillNeed, rate: float) -> str:
    if need.link_binds(rate):
        return "the link"
    if problem.ttft is None:
        return "utilisation"
    text = f"TTFT P{problem.ttft.share * 100:.0f} of {duration.format_duration(problem.ttft.target)}"
    if need.attainable < problem.ttft.share:
        text += f" (prefill alone keeps it for {need.attainable:.0%} of the prompts)"
    return text


def reserves(needs: Needs, groups: Sequence[str], kept: Mapping[str, int]) -> list[str]:
    """Which groups have more than the present rate asks for, and what for."""
    burst = max((rate for rate, _ in needs.load.levels), default=0.0)
    why = f"for bursts of up to {burst:.3g} requests/s as in the last hour"
    return [f"{name}: {kept[name]} are kept {why}" for name in groups]


def infeasible(problem: Problem, needs: Needs) -> str:
    """Which objective no number of replicas can meet; empty when all can be met."""
    for name, prefill in needs.prefill.items():
        if problem.ttft and prefill.attainable < problem.ttft.share:
            target = (
                f"TTFT P{problem.ttft.share * 100:.0f} of {duration.format_duration(problem.ttft.target)}"
            )
            late = f"{1 - prefill.attainable:.0%} of the prompts"
            return f"group {name}: {target} is shorter than the prefill alone of {late}"
    for name, decode in needs.decode.items():
        if not decode.feasible:
            return f"group {name}: {decode.limit}"
    return ""
