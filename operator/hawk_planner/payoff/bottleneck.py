"""Which split to try first, from what is observed: the bottleneck names its candidate.

An observation is a measured figure; one that is None was not observed, and its row says so.
A candidate here is a thing to measure, with what the measurement must show, never a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

from .candidate import ServingMode

__all__ = ["Observed", "Suggestion", "suggest_splits"]


@dataclass(frozen=True)
class Observed:
    """The observations of a running or planned pool; shares are 0 to 1."""

    prefill_share_of_decode_gaps: float | None = None
    """Share of inter-token time that prefills on the same device take."""
    decode_fits_other_device: bool | None = None
    """True if weights and KV of the whole decode fit the second device, and it is as fast or cheaper."""
    waiting_for_kv: float | None = None
    """Requests that wait for KV space."""
    tokens_per_expert: float | None = None
    tokens_per_expert_limit: float | None = None
    draft_acceptance: float | None = None
    decode_utilisation: float | None = None
    other_device_utilisation: float | None = None
    idle_share: float | None = None
    """Capacity of specialised pools that the real arrivals leave idle."""


@dataclass(frozen=True)
class Suggestion:
    """A split to try, the figure that suggests it, and what a benchmark has to show."""

    kind: ServingMode
    observed: str
    must_show: str


INTERRUPTS = 0.2
"""Prefill's share of decode gaps from which prefills count as interrupting."""
PREDICTS_WELL = 0.6
CONTENDS = 0.85
HAS_ROOM = 0.6
IDLE = 0.35


def suggest_splits(observed: Observed) -> list[Suggestion]:
    """Return the splits that what was observed suggests, the strongest reason against splitting first."""
    found: list[Suggestion] = []
    if observed.idle_share is not None and observed.idle_share >= IDLE:
        found.append(
            Suggestion(
                ServingMode.FLEXIBLE,
                f"the traffic leaves {observed.idle_share:.0%} of two pools idle",
                "less idle specialisation at the real arrival rate, colocated or with roles that change",
            )
        )
    share = observed.prefill_share_of_decode_gaps
    if share is not None and share >= INTERRUPTS:
        found.append(
            Suggestion(
                ServingMode.SPLIT,
                f"prefills take {share:.0%} of the time between tokens",
                "TTFT and ITL under mixed load, the handoff included",
            )
        )
    if observed.decode_fits_other_device:
        found.append(
            Suggestion(
                ServingMode.SPLIT,
                "a second device suits the whole decode",
                "weights and KV fit; savings repay the exposed transfer",
            )
        )
    found += _capacity(observed) + _drafting(observed) + _offload(observed)
    return found


def _capacity(observed: Observed) -> list[Suggestion]:
    waiting, tokens, limit = (
        observed.waiting_for_kv,
        observed.tokens_per_expert,
        observed.tokens_per_expert_limit,
    )
    if waiting is None or tokens is None or limit is None or waiting < 1 or tokens >= limit:
        return []
    return [
        Suggestion(
            ServingMode.ATTENTION_FFN,
            f"{waiting:g} requests wait for KV space while an expert sees {tokens:.1f} of {limit:.1f} tokens",
            "freed space makes useful batches that repay the exchanges",
        )
    ]


def _drafting(observed: Observed) -> list[Suggestion]:
    acceptance = observed.draft_acceptance
    if acceptance is None or acceptance < PREDICTS_WELL:
        return []
    return [
        Suggestion(
            ServingMode.TARGET_DRAFT,
            f"a drafter predicts {acceptance:.0%} of the tokens",
            "tokens a round repay drafting, verifying and feedback",
        )
    ]


def _offload(observed: Observed) -> list[Suggestion]:
    busy, room = observed.decode_utilisation, observed.other_device_utilisation
    if busy is None or room is None or busy < CONTENDS or room > HAS_ROOM:
        return []
    return [
        Suggestion(
            ServingMode.OFFLOAD,
            f"decode is {busy:.0%} busy here and {room:.0%} on the accelerator",
            "completion time, or protection of others, under load",
        )
    ]
