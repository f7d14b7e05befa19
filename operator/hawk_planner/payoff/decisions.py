"""Decisions that only the present load can answer, as pure functions.

Each takes estimates in seconds, names what it compared, and says what would turn it round.
None of them counts requests as load: a request's remaining work is tokens, and output length is an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from . import checks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "DecodeLoad",
    "Offload",
    "Path",
    "PrefixChoice",
    "PrefixCosts",
    "decide_offload",
    "mean_residual_tokens",
    "path_problem",
    "place_prefix",
]


@dataclass(frozen=True)
class DecodeLoad:
    """The load that one more decode meets on a device now."""

    step_seconds: float
    """One decode step with the requests that are there, this one included."""
    queue_seconds: float = 0.0
    """Until it gets a place: batch slots and KV space."""
    others: int = 0
    """Requests whose steps this one lengthens."""
    slowdown_seconds: float = 0.0
    """By how much this request lengthens each step of the others."""


@dataclass(frozen=True)
class Offload:
    """The decision to move one decode or not, and its reason."""

    move: bool
    stay_seconds: float
    """Completion here, from now."""
    move_seconds: float
    """Completion there, the exposed transfer included."""
    relief_seconds: float
    """Time the others here get back, less the time the others there lose, summed over requests."""
    break_even_tokens: float | None
    """Remaining output at which both complete together; None when no length changes the order."""
    reason: str


def decide_offload(
    here: DecodeLoad,
    there: DecodeLoad,
    *,
    remaining_tokens: float,
    exposed_transfer_seconds: float,
    weight_of_others: float = 0.0,
) -> Offload:
    """Return whether a decode completes sooner on the other device at both devices' present load.

    `weight_of_others` (0 to 1) adds that share of the others' relief to the scale:
    0 looks at this request alone, 1 protects all equally.
    """
    tokens = checks.positive("remaining tokens", remaining_tokens)
    exposed = checks.at_least("exposed transfer", exposed_transfer_seconds)
    weight = checks.share("weight of others", weight_of_others)
    for name, load in (("here", here), ("there", there)):
        checks.positive(f"decode step {name}", load.step_seconds)
        checks.at_least(f"queue {name}", load.queue_seconds)
    stay = here.queue_seconds + tokens * here.step_seconds
    move = exposed + there.queue_seconds + tokens * there.step_seconds
    relief = tokens * (here.others * here.slowdown_seconds - there.others * there.slowdown_seconds)
    gain = stay - move + weight * relief
    per_token = here.step_seconds - there.step_seconds
    per_token += weight * (here.others * here.slowdown_seconds - there.others * there.slowdown_seconds)
    fixed = exposed + there.queue_seconds - here.queue_seconds
    turn = fixed / per_token if per_token != 0 and fixed / per_token > 0 else None
    word = "sooner" if gain > 0 else "not sooner"
    return Offload(
        move=gain > 0,
        stay_seconds=stay,
        move_seconds=move,
        relief_seconds=relief,
        break_even_tokens=turn,
        reason=(
            f"{word} there: {move:.3f} s against {stay:.3f} s here over {tokens:.0f} more tokens, "
            f"{exposed * 1e3:.1f} ms of transfer exposed"
        ),
    )


def mean_residual_tokens(lengths: Sequence[int], produced: int) -> float | None:
    """Return the mean tokens still to come for a request that has produced some, from past output lengths.

    None when no past request was longer: the estimate has run out, and the caller must say so.
    """
    longer = [length - produced for length in lengths if length > produced]
    return sum(longer) / len(longer) if longer else None


@dataclass(frozen=True)
class Path:
    """A way for state between two devices, as measured end to end."""

    layouts_agree: bool
    """Equal, or translated in flight by something that was compiled and proved."""
    precision_agrees: bool
    sharding_agrees: bool
    owner_agrees: bool
    """Both sides name the same request and epoch as the owner of the blocks."""
    bytes_per_second: float | None
    """Measured over whole transfers, detection and scheduling included; None if never measured."""


def path_problem(path: Path) -> str | None:
    """Return why a path can't be used, or None: owning two devices is not a path."""
    for agrees, what in (
        (path.layouts_agree, "layouts differ and no translation is compiled"),
        (path.precision_agrees, "precisions differ"),
        (path.sharding_agrees, "head shards differ"),
        (path.owner_agrees, "the owner or its epoch differs"),
    ):
        if not agrees:
            return what
    if path.bytes_per_second is None or path.bytes_per_second <= 0:
        return "its rate was never measured end to end"
    return None


class PrefixChoice(StrEnum):
    """The decision about a prefix that is cached elsewhere."""

    USE = "use"
    """Send the request to where the prefix is."""
    FETCH = "fetch"
    """Bring the prefix's state here."""
    RECOMPUTE = "recompute"
    """Prefill it again here."""


@dataclass(frozen=True)
class PrefixCosts:
    """Seconds to the first token for each choice, and the choice; a missing way isn't in `seconds`."""

    choice: PrefixChoice
    seconds: Mapping[PrefixChoice, float]
    unusable: Mapping[PrefixChoice, str]


def place_prefix(
    *,
    prefix_bytes: float,
    path: Path,
    suffix_seconds_here: float,
    suffix_seconds_there: float,
    queue_seconds_here: float,
    queue_seconds_there: float,
    recompute_seconds: float,
) -> PrefixCosts:
    """Return where the prefix should be used, with each way's time to the first token.

    The suffix is computed in every case; waiting differs by place; a path with a problem can't fetch.
    """
    checks.positive("prefix bytes", prefix_bytes)
    for name, value in (
        ("suffix time here", suffix_seconds_here),
        ("suffix time there", suffix_seconds_there),
        ("queue here", queue_seconds_here),
        ("queue there", queue_seconds_there),
        ("recompute time", recompute_seconds),
    ):
        checks.at_least(name, value)
    seconds = {
        PrefixChoice.USE: queue_seconds_there + suffix_seconds_there,
        PrefixChoice.RECOMPUTE: queue_seconds_here + recompute_seconds + suffix_seconds_here,
    }
    unusable: dict[PrefixChoice, str] = {}
    problem = path_problem(path)
    if problem is None and path.bytes_per_second is not None:
        fetch = prefix_bytes / path.bytes_per_second
        # Waiting for a place here and fetching go on at the same time.
        seconds[PrefixChoice.FETCH] = max(queue_seconds_here, fetch) + suffix_seconds_here
    else:
        unusable[PrefixChoice.FETCH] = problem or "its rate was never measured end to end"
    choice = min(seconds, key=lambda way: seconds[way])
    return PrefixCosts(choice, seconds, unusable)
