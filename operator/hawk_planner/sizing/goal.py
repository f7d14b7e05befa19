"""Where the replicas should go: nowhere while what is there fits, else to what the load takes.

Groups that can replace each other are one side: prefill and decode by themselves, or all groups together
where some take both roles. A side grows when it can't carry the load over (1 + tolerance), and shrinks when
something cheaper carries (1 + tolerance) times the load; in both cases to the cheapest that carries the load.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import Role
from hawk_planner.sizing.allocate import Side, fill_decode, size
from hawk_planner.sizing.demand import DEFAULT_SHARE
from hawk_planner.sizing.mix import Prompts, Stage, cheapest_mix, enough
from hawk_planner.sizing.prompts import prompts_of, stages_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hawk_planner.sizing.demand import OfferedLoad
    from hawk_planner.sizing.needs import Needs
    from hawk_planner.sizing.problem import Problem, SizedGroup

    Counts = Mapping[str, int]


@dataclass(frozen=True)
class Situation:
    """The search space of a goal: needs, the most that each group may have, and the present replicas."""

    problem: Problem
    needs: Needs
    caps: Counts
    present: Counts

    @property
    def sides(self) -> Iterator[tuple[SizedGroup, ...]]:
        """Groups that can replace each other."""
        if self.problem.side(Role.BOTH):
            yield self.problem.groups
        else:
            yield from (side for role in (Role.PREFILL, Role.DECODE) if (side := self.problem.side(role)))

    def goal(self, *, reserve: bool, unseen: float = 1.0) -> dict[str, int]:
        """Replicas wanted, with what bursts need or without; `unseen` is how much more load there may be."""
        band = 1.0 + self.problem.tolerance
        low, high = (self._carrying(factor, reserve) for factor in (1.0 / band, band * unseen))
        wanted = dict(self.present)
        for side in self.sides:
            if not low.carried(side, self.present):
                found = self._carrying(1.0, reserve).cheapest
            elif high.cheaper(side):
                found = self._carrying(unseen, reserve).cheapest
            else:
                continue
            wanted.update({group.name: found[group.name] for group in side})
        return wanted

    def _carrying(self, factor: float, reserve: bool) -> _Carrying:
        return _Carrying(self, self.needs.load.scaled(factor), reserve)


@dataclass(frozen=True)
class _Carrying:
    """The demand: a load, and the bursts that may come on top."""

    at: Situation
    load: OfferedLoad
    reserve: bool

    @property
    def _decode_rates(self) -> list[float]:
        problem = self.at.problem
        share = problem.itl.share if problem.itl else DEFAULT_SHARE
        return [self.load.decode_rate, *([self.load.burst_rate(share)] if self._bursts else [])]

    @property
    def _bursts(self) -> bool:
        problem = self.at.problem
        return self.reserve and problem.burst_reserve and bool(self.load.levels) and problem.ttft is not None

    @cached_property
    def _least(self) -> dict[str, int]:
        """Minima, and what decode takes."""
        at = self.at
        return fill_decode(at.problem, Side(at.needs.decode, max(self._decode_rates)), at.caps)

    @cached_property
    def _stages(self) -> list[Stage]:
        at = self.at
        return stages_of(
            at.problem, at.needs, self.load, counts=self._least, caps=at.caps, present=at.present
        )

    @cached_property
    def _prompts(self) -> list[Prompts]:
        """The share that has to be in time: at the rate of the load, and over the bursts."""
        at, load = self.at, self.load
        rates = [((load.prefill_rate, 1.0),), *([load.levels] if self._bursts else [])]
        return [
            prompts_of(at.problem, at.needs, load, self._stages, rate) for rate in rates if rate[-1][0] > 0
        ]

    @cached_property
    def cheapest(self) -> dict[str, int]:
        """The cheapest replicas that carry it; of nearly equal ones those nearest to what is there."""
        at = self.at
        if at.problem.ttft is None:
            prefill = Side(at.needs.prefill, self.load.prefill_rate)
            return size(at.problem, prefill, Side(at.needs.decode, self.load.decode_rate), at.caps)
        chosen = cheapest_mix(self._prompts, self._stages, at.present, at.problem.tolerance)
        return {name: max(count, chosen.get(name, 0)) for name, count in self._least.items()}

    def carried(self, side: tuple[SizedGroup, ...], counts: Counts) -> bool:
        """True if one side's `counts` carry it."""
        at = self.at
        if any(counts[group.name] < group.least for group in side):
            return False
        if at.problem.ttft is None:
            return all(counts[group.name] >= self.cheapest[group.name] for group in side)
        decodes = [group.name for group in side if group.role is not Role.PREFILL]
        rate = max(self._decode_rates)
        if (
            decodes
            and rate > sum(at.needs.decode[name].carries(counts[name]) for name in decodes) * _ROUNDING
        ):
            return False
        if all(group.role is Role.DECODE for group in side):
            return True
        return all(enough(prompts, self._stages, counts) for prompts in self._prompts)

    def cheaper(self, side: tuple[SizedGroup, ...]) -> bool:
        """True if something near what is there costs less and carries it: one replica less, or exchanged."""
        present = self.at.present
        for group in side:
            if present[group.name] <= group.least:
                continue
            less = {**present, group.name: present[group.name] - 1}
            if self.carried(side, less):
                return True
            for other in side:
                more = _exchanged(self.at.problem, group, other)
                if more and self.carried(side, {**less, other.name: less[other.name] + more}):
                    return True
        return False


_ROUNDING = 1.0 + 1e-9


def _exchanged(problem: Problem, group: SizedGroup, other: SizedGroup) -> int:
    """Replicas of another group that together cost clearly less than one of `group`."""
    price, theirs = (problem.price(one) for one in (group, other))
    if other is group or theirs <= 0:
        return 0
    return max(0, int((price / theirs) * (1.0 - 1e-9)))
