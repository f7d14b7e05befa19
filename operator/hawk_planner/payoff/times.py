"""How long an engine takes: the roofline, corrected by what was measured of it.

A measured time stands for itself where it was measured. Elsewhere on the same class (more devices a replica,
a chunk among decodes, a round of drafts) the roofline's time is taken, times measured over roofline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .roofline import run_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from .roofline import Work
    from .scenario import Replica, Scenario
    from .work import DecodeStep

__all__ = ["prefill_factor", "prefill_seconds", "slots", "step_timer"]


def prefill_seconds(scenario: Scenario, replica: Replica) -> float:
    """Return the time of one prompt alone."""
    return _roofline(scenario, replica) * prefill_factor(scenario, replica)


def _roofline(scenario: Scenario, replica: Replica) -> float:
    work = scenario.work.prefill(scenario.workload.prompt_tokens)
    return run_time(work, replica.machine(scenario.efficiency)) + scenario.efficiency.step_seconds


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
    step: DecodeStep,
    context: int,
    *,
    overhead: float | None = None,
    beside: Work | None = None,
) -> Callable[[float], float]:
    """Return seconds of a decode step as a function of the batch; `beside` is a chunk of a prompt in it.

    `step` is the scenario's model at `context`. A step with a chunk is as much off the roofline as a prefill,
    one without as a plain step.
    """
    efficiency = scenario.efficiency
    overhead = efficiency.step_seconds if overhead is None else overhead
    seconds = step.timer(replica.machine(efficiency), overhead, beside)
    measured = replica.measured
    if measured is None:
        return seconds
    if beside is not None:
        factor = prefill_factor(scenario, replica)
        return lambda batch: seconds(batch) * factor
    if not measured.steps:
        return seconds
    known = measured
    plain = scenario.work.decode(context).timer(
        replica.sized(known.devices).machine(efficiency), efficiency.step_seconds
    )

    def corrected(batch: float) -> float:
        least = max(batch, known.batches[0])
        return seconds(batch) * known.step_seconds(least, context) / plain(least)

    return corrected


def slots(scenario: Scenario, replica: Replica) -> int:
    """Return the sequences that a replica decodes at once: no more than were measured together."""
    most = scenario.efficiency.most_sequences
    measured = replica.measured
    return most if measured is None or not measured.steps else min(most, int(measured.batches[-1]))
