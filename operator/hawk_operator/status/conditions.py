"""The conditions of a pool: a chain of pure steps from facts to a verdict each, and `Ready` over them.

Unknown is not False: it says that nothing was observed which could tell, and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hawk_api.conditions import ConditionType, make_condition
from hawk_api.reasons import Reason
from hawk_api.v1alpha1 import Verify
from hawk_operator.status.facts import Facts, GroupFacts, Judgement
from hawk_operator.wiring.links import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hawk_api.conditions import Condition
    from hawk_operator.workloads.pods import Pod

NEEDED_FOR_READY: Final = (
    ConditionType.LAYOUTS_COMPATIBLE,
    ConditionType.DEVICES_READY,
    ConditionType.MEMORY_REGISTERED,
    ConditionType.WIRED,
    ConditionType.TRANSFER_VERIFIED,
)
"""The conditions that a pool needs to serve. The others say how well it is run."""


_BROKEN: Final = {str(reason): reason for reason in (Reason.CANARY_FAILED, Reason.DIGEST_MISMATCH)}


def judge_conditions(facts: Facts) -> tuple[Condition, ...]:
    """Every condition of the pool, `Ready` first; without transition times."""
    verdicts = {kind: step(facts) for kind, step in _CHAIN.items()}
    ready = roll_up(facts, verdicts)
    generation = facts.pool.metadata.generation
    return tuple(
        make_condition(
            kind, verdict.status, verdict.reason, verdict.message or verdict.reason.meaning, generation
        )
        for kind, verdict in ((ConditionType.READY, ready), *verdicts.items())
    )


def roll_up(facts: Facts, verdicts: Mapping[ConditionType, Judgement]) -> Judgement:
    """False if something needed is False, else Unknown if something is Unknown, else True."""
    if facts.violations:
        first = facts.violations[0]
        return Judgement(False, first.reason, str(first))
    for status in (False, None):
        for kind in NEEDED_FOR_READY:
            verdict = verdicts[kind]
            if verdict.status is status and not _beside_the_point(kind, verdict):
                return Judgement(
                    status, verdict.reason, f"{kind}: {verdict.message or verdict.reason.meaning}"
                )
    counts = ", ".join(f"{group.name} {group.pods.capacity}/{group.desired}" for group in facts.groups)
    return Judgement(True, Reason.AS_EXPECTED, f"serving: {counts}")


def _beside_the_point(kind: ConditionType, verdict: Judgement) -> bool:
    """Verification that was switched off by choice doesn't keep a pool from being ready."""
    return kind is ConditionType.TRANSFER_VERIFIED and verdict.reason is Reason.VERIFICATION_OFF


def _layouts(facts: Facts) -> Judgement:
    return facts.layouts


def _devices(facts: Facts) -> Judgement:
    for group in facts.groups:
        if group.trouble:
            reason, message = group.trouble
            return Judgement(False, reason, f"group {group.name}: {message}")
    stuck = [(group, pod) for group in facts.groups for pod in group.pods.unschedulable]
    if stuck:
        group, pod = stuck[0]
        return Judgement(
            False, Reason.UNSCHEDULABLE, f"{len(stuck)} pods find no node; {group.name}: {pod.unschedulable}"
        )
    if not facts.groups or all(group.pods.requested is None for group in facts.groups):
        return Judgement(None, Reason.WAITING, "no workload exists yet")
    short = [
        group for group in facts.groups if group.pods.ready < min(max(group.least, 1), max(group.desired, 0))
    ]
    counts = ", ".join(f"{group.name} {group.pods.ready}/{group.desired}" for group in facts.groups)
    behind = short or [group for group in facts.groups if group.pods.ready < group.desired]
    reason, why = _why_behind(facts, behind) if behind else (Reason.AS_EXPECTED, "")
    return Judgement(not short, reason, f"ready: {counts}{why}")


def _why_behind(facts: Facts, behind: Sequence[GroupFacts]) -> tuple[Reason, str]:
    """Why groups have fewer ready workers than they should, from the surest evidence down."""
    waiting = [pod for group in behind for pod in group.pods.active if not pod.ready]
    for pod in waiting:
        if pod.problem:
            return Reason.PODS_NOT_READY, f"; {pod.name}: {pod.problem}"
    lost = {pod.node for pod in waiting if pod.node in facts.agents and not facts.agents[pod.node].live}
    if lost:
        return Reason.AGENT_LOST, f"; workers aren't ready on nodes whose agent is lost too: {listed(lost)}"
    return Reason.ROLLING_OUT, ""


def _memory(facts: Facts) -> Judgement:
    if not facts.agents_known:
        return Judgement(None, Reason.NOT_OBSERVED, "the operator may not read HawkNodes here")
    ready = [(group, pod) for group in facts.groups for pod in group.pods.active if pod.ready]
    if not ready:
        return Judgement(None, Reason.WAITING, "no worker is ready yet")
    bare = [pod for _, pod in ready if pod.node not in facts.agents or not facts.agents[pod.node].live]
    if bare:
        nodes = listed({pod.node for pod in bare})
        why = f"; {facts.agents_refused}" if facts.agents_refused else ""
        text = f"{len(bare)} of {len(ready)} workers have no live agent; nodes: {nodes}{why}"
        return Judgement(False, Reason.NO_AGENT, text)
    unregistered = [
        pod.name
        for group in facts.groups
        for pod in _without_region(facts, group, [pod for owner, pod in ready if owner is group])
    ]
    if unregistered:
        return Judgement(
            False,
            Reason.REGION_MISSING,
            f"{len(unregistered)} of {len(ready)} workers have no region: {listed(unregistered)}",
        )
    return Judgement(True, Reason.AS_EXPECTED, f"the regions of {len(ready)} workers are registered")


def _without_region(facts: Facts, group: GroupFacts, ready: Sequence[Pod]) -> list[Pod]:
    """The workers without a region: by name where workers are named like their pods, else by node."""
    pool = f"{facts.pool.metadata.namespace}/{facts.pool.metadata.name}"
    found = {
        (node, worker)
        for node, agent in facts.agents.items()
        if agent.live
        for owner, name, worker in agent.regions
        if (owner, name) == (pool, group.name)
    }
    workers, nodes = {worker for _, worker in found}, {node for node, _ in found}
    if workers & {pod.name for pod in group.pods.pods}:
        return [pod for pod in ready if pod.name not in workers]
    return [pod for pod in ready if pod.node not in nodes]


def _wired(facts: Facts) -> Judgement:
    if not facts.agents_known:
        return Judgement(None, Reason.NOT_OBSERVED, "the operator may not read HawkNodes here")
    if facts.links is None:
        return Judgement(None, Reason.NOT_OBSERVED)
    return Judgement(facts.links.proved, facts.links.reason, facts.links.message)


def _verified(facts: Facts) -> Judgement:
    if facts.pool.spec.transfer.verify is Verify.OFF:
        return Judgement(None, Reason.VERIFICATION_OFF)
    for name, agent in sorted(facts.agents.items()):
        for peer, reason, message in agent.problems:
            if reason in _BROKEN:
                return Judgement(False, _BROKEN[reason], f"{name} to {peer}: {message}")
    links = facts.links
    if links is None or not links.verified:
        return Judgement(None, Reason.NO_TRANSFERS, "no link has carried a proved transfer yet")
    return Judgement(
        True, Reason.VERIFIED, f"proof transfers over {links.verified} links arrived with the right digest"
    )


def _metrics(facts: Facts) -> Judgement:
    if facts.pool.spec.traffic is None:
        return Judgement(None, Reason.NOT_NEEDED, "spec.traffic is absent: the ratio stays at its start")
    window = facts.window
    if window is None:
        return Judgement(None, Reason.NOT_OBSERVED)
    lost = window.lost()
    if not lost:
        return Judgement(True, Reason.METRICS_FRESH, "; ".join(window.warnings))
    return Judgement(False, window.reason(), lost)


def _scaling(facts: Facts) -> Judgement:
    conflicts = [f"{group.name}: {group.conflict}" for group in facts.groups if group.conflict]
    if conflicts:
        return Judgement(False, Reason.CONFLICTED, "; ".join(conflicts))
    return facts.scaling


def _payoff(facts: Facts) -> Judgement:
    return facts.payoff


def _draining(facts: Facts) -> Judgement:
    if facts.draining:
        first = facts.draining[0]
        more = f" (and {len(facts.draining) - 1} more)" if len(facts.draining) > 1 else ""
        return Judgement(True, first.reason, f"{first.message}{more}")
    if facts.drain_timed_out:
        return Judgement(
            True, Reason.DRAIN_TIMED_OUT, f"removed with work left: {listed(facts.drain_timed_out)}"
        )
    return Judgement(False, Reason.IDLE)


_CHAIN: Final[Mapping[ConditionType, Callable[[Facts], Judgement]]] = {
    ConditionType.LAYOUTS_COMPATIBLE: _layouts,
    ConditionType.DEVICES_READY: _devices,
    ConditionType.MEMORY_REGISTERED: _memory,
    ConditionType.WIRED: _wired,
    ConditionType.TRANSFER_VERIFIED: _verified,
    ConditionType.METRICS_AVAILABLE: _metrics,
    ConditionType.SCALING: _scaling,
    ConditionType.PAYS_OFF: _payoff,
    ConditionType.DRAINING: _draining,
}
