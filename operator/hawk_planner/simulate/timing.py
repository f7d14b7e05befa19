"""How long a decision takes: `python -m hawk_planner.simulate.timing [POOLS]`.

Every pool is decided on once, as in one interval of an operator: each its own traffic, an hour of bins with
bursts among them, roles apart or lent. One core; prints milliseconds of CPU.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import Role
from hawk_planner.simulate.meter import BIN_S, BINS, WINDOW_S
from hawk_planner.simulate.sample import sample_problem
from hawk_planner.sizing import GroupObservation, History, plan_replicas
from hawk_planner.traffic import SideTraffic, Window, bins, distribution, signals

if TYPE_CHECKING:
    from hawk_planner.sizing import Problem


def window(chance: random.Random) -> Window:
    """A window of arbitrary traffic with bursts in it."""
    rate, prompt, output = chance.uniform(0.5, 30), chance.uniform(300, 12_000), chance.uniform(20, 600)
    counts = [BIN_S * rate * chance.choice([0.8, 1.0, 1.0, 1.2, 4.0]) for _ in range(BINS)]
    lengths = [
        signals.value(distribution.of({mean * chance.lognormvariate(0, 0.6): 1.0 for _ in range(18)}))
        for mean in (prompt, output)
    ]
    return Window(
        0.0,
        WINDOW_S,
        SideTraffic(arrivals=signals.value(rate), prompt=lengths[0]),
        SideTraffic(arrivals=signals.value(rate), output=lengths[1]),
        burstiness=bins.dispersion(counts),
        burst_bin=BIN_S,
        bins=tuple(bins.Bin(count, count * prompt, count * output) for count in counts),
    )


def pools() -> list[tuple[str, Problem]]:
    """Pools of one class a role, and with decode workers that lend themselves."""
    apart = sample_problem()
    lent = tuple(replace(g, role=Role.BOTH) if g.role is Role.DECODE else g for g in apart.groups)
    return [("roles apart", apart), ("decode lends", replace(apart, groups=lent))]


def main(number: int = 1000) -> None:
    """Time one interval of `number` pools of each kind: at a first look, and where pools are as decided."""
    for name, problem in pools():
        chance = random.Random(1)  # noqa: S311 -- traffic, no secret
        first: list[float] = []
        again: list[float] = []
        for _ in range(number):
            found = window(chance)
            there = {group.name: GroupObservation(4, 4, 4) for group in problem.groups}
            for taken in (first, again):
                began = time.process_time()
                made = plan_replicas(found, problem, there, History(), 0.0)
                taken.append(1e3 * (time.process_time() - began))
                there = {group: GroupObservation(n, n, n) for group, n in made.replicas.items()}
        for when, taken in (("first look", first), ("as decided", again)):
            taken.sort()
            sys.stdout.write(
                f"{name}, {when}: {statistics.mean(taken):.2f} ms a decision "
                f"(P99 {taken[int(0.99 * number)]:.2f} ms), {sum(taken) / 1e3:.1f} s for {number} pools\n"
            )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
