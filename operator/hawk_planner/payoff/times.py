"""How long an engine takes: the roofline, corrected by what was measured of it.

A measured time stands for itself where it was measured. Elsewhere on the same class (more devices a replica,
a chunk among decodes, a round of drafts) the roofline's time is taken, times measured over roofline.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from hawk_planner.perf.steps import prompt_seconds
from hawk_planner.perf.steps import step_timer as timer_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_planner.perf.rates import Rates
    from hawk_planner.perf.work import DecodeWork, PromptWork

    from .scenario import Replica, Scenario

__all__ = ["first_token_limit", "prefill_factor", "prefill_seconds", "slots", "step_timer"]


def prefill_seconds(scenario: Scenario, replica: Replica) -> float:
    """Return the time of one prompt alone."""
    return _roofline(scenario, replica) * prefill_factor(scenario, replica)


def first_token_limit(scenario: Scenario) -> float:
    """Return the seconds within which a first token is due; infinite without an objective.

    A stretch counts from the declared prefill replica alone, however a way of serving prefills, so that all
    are held to the same.
    """
    ttft = scenario.targets.ttft
    if ttft is None:
        return inf
    if not ttft.stretch:
        return ttft.target
    return ttft.limit(prefill_seconds(scenario, scenario.prefill.replica))


def _roofline(scenario: Scenario, replica: Replica) -> float:
    work = scenario.work.on(replica.devices).prompt(scenario.workload.prompt_tokens)
    return prompt_seconds(work, replica.rates(scenario.efficiency))


def prefill_factor(scenario: Scenario, replica: Replica) -> float:
    """Return measured over roofline for one prompt; 1 where prefill wasn't measured."""
    measured = replica.measured
    if measured is None or not measured.prefill:
        return 1.0
    seconds = measured.prefill_seconds(scenario.workload.prompt_tokens)
    return seconds / _roofline(scenario, replica.sized(measured.devices))


def step_timer(
    scenario: Scenario,
    replica: Replica,
    step: DecodeWork,
    context: float,
    *,
    overhead: float | None = None,
    beside: PromptWork | None = None,
) -> Callable[[float], float]:
    """Return seconds of a decode step as a function of the batch; `beside` is a chunk of a prompt in it.

    `step` is the scenario's model at `context`. A step with a chunk is as much off the roofline as a prefill,
    one without as a plain step.
    """
    efficiency = scenario.efficiency
    seconds = timer_of(step, _with_overhead(replica.rates(efficiency), overhead), beside)
    measured = replica.measured
    if measured is None:
        return seconds
    if beside is not None:
        factor = prefill_factor(scenario, replica)
        return lambda batch: seconds(batch) * factor
    if not measured.steps:
        return seconds
    known = measured
    work = scenario.work.on(known.devices)
    plain = timer_of(work.decode(context), replica.sized(known.devices).rates(efficiency))

    def corrected(batch: float) -> float:
        least = max(batch, known.batches[0])
        return seconds(batch) * known.step_seconds(least, context) / plain(least)

    return corrected


def _with_overhead(rates: Rates, overhead: float | None) -> Rates:
    return rates if overhead is None else replace(rates, overhead_s=overhead)


def slots(scenario: Scenario, replica: Replica) -> int:
    """Return the sequences that a replica decodes at once: no more than were measured together."""
    most = replica.most_sequences or scenario.efficiency.most_sequences
    measured = replica.measured
    return most if measured is None or not measured.steps else min(most, int(measured.batches[-1]))
