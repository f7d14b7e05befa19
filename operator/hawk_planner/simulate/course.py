"""The content of a comparison's picture: traffic and replicas over time, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hawk_planner.simulate.score import prompt_groups

if TYPE_CHECKING:
    from hawk_planner.simulate.score import Score
    from hawk_planner.simulate.traces import Trace
    from hawk_planner.sizing import Problem

BIN_S = 60.0


@dataclass(frozen=True)
class BinnedLoad:
    """Traffic in bins of `bin_seconds`, each number a second's, to three digits."""

    bin_seconds: float
    requests: tuple[float, ...]
    prompt_tokens: tuple[float, ...]
    output_tokens: tuple[float, ...]

    @classmethod
    def of(cls, trace: Trace, bin_seconds: float = BIN_S) -> BinnedLoad:
        """Count a trace."""
        bins = int(trace.seconds / bin_seconds) + 1
        counts = [[0, 0, 0] for _ in range(bins)]
        for request in trace.requests:
            count = counts[int(request.arrival / bin_seconds)]
            count[0] += 1
            count[1] += request.prompt
            count[2] += request.output
        rates = ([float(f"{c[i] / bin_seconds:.3g}") for c in counts] for i in range(3))
        return cls(bin_seconds, *map(tuple, rates))


@dataclass(frozen=True)
class Course:
    """Workers that a policy asked for: (seconds, for prefill, for decode), where that changes and at the end.

    Prefill are the groups that prompts go to first: those for prefill alone, else those of role Both.
    """

    policy: str
    steps: tuple[tuple[float, int, int], ...]

    @classmethod
    def of(cls, found: Score, problem: Problem) -> Course:
        """The course of a scored run."""
        first = {group.name for group in prompt_groups(problem)}
        steps: list[tuple[float, int, int]] = []
        for when, wanted, _ in found.timeline:
            prefill = sum(count for name, count in wanted.items() if name in first)
            step = (when, prefill, sum(wanted.values()) - prefill)
            if not steps or steps[-1][1:] != step[1:]:
                steps.append(step)
        if steps:
            steps.append((found.timeline[-1][0], *steps[-1][1:]))
        return cls(found.policy, tuple(steps))
