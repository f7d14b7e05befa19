"""Prefill here, decode there: what the move of a request's KV cache must repay.

The state of a prompt crosses the link once, each decode step after it is cheaper (or dearer) by a fixed time.
Splitting is sooner when the steps repay the part of the transfer that computing did not hide.
Overlap hides time; it removes no bytes, so the link's load is that of the whole transfer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from . import checks

__all__ = ["Emitter", "Handoff", "HandoffTimes", "LinkLoad", "link_load", "price_handoff"]

Emitter = Literal["decode", "prefill"]


@dataclass(frozen=True)
class Handoff:
    """One request whose KV cache moves from the prefill to the decode device."""

    state_bytes: float
    output_tokens: int
    link_bytes_per_second: float
    saving_seconds_per_token: float = 0.0
    """How much sooner one decode step ends on the receiver; negative when it is slower."""
    hidden: float = 0.0
    """Share of the transfer that prefill's own computing covers, 0 to 1."""
    emitter: Emitter = "decode"
    """Who emits the first output token; when prefill does, the receiver has one step fewer to repay in."""


@dataclass(frozen=True)
class HandoffTimes:
    """The cost and the gain of the split for one request, in seconds."""

    transfer_seconds: float
    exposed_seconds: float
    steps: int
    """Decode steps on the receiver."""
    saved_seconds: float
    delta_seconds: float
    """Split minus local: above 0 the split is later, below 0 sooner."""
    break_even_saving_seconds_per_token: float | None
    """Saving a step needs with nothing hidden; None when there is no step to save in."""
    break_even_saving_exposed_seconds_per_token: float | None
    """The same for the part that `hidden` leaves exposed."""
    break_even_hidden: float | None
    """Least share to hide; 0 when none is needed, None when no share suffices (a slower receiver)."""
    break_even_link_bytes_per_second: float | None
    """Slowest link at which the split isn't later, at this `hidden`; 0 if all is hidden, None if never."""
    break_even_output_tokens: float | None
    """Shortest output at which the split isn't later; None when a step saves nothing."""


@dataclass(frozen=True)
class LinkLoad:
    """The load of a stream of requests on the link."""

    bytes_per_second: float
    utilisation: float
    """Demand over capacity; 1 or more cannot be carried, whatever is hidden."""


def _checked(handoff: Handoff) -> Handoff:
    checks.positive("state bytes", handoff.state_bytes)
    checks.whole("output tokens", handoff.output_tokens)
    checks.positive("link bandwidth", handoff.link_bytes_per_second)
    checks.share("hidden", handoff.hidden)
    checks.at_least("saving per token", handoff.saving_seconds_per_token, least=-1e6)
    return handoff


def price_handoff(handoff: Handoff) -> HandoffTimes:
    """Return the times and break-evens of `handoff`; raises InputError for an impossible input."""
    _checked(handoff)
    transfer = handoff.state_bytes / handoff.link_bytes_per_second
    exposed = transfer * (1 - handoff.hidden)
    first_here = 1 if handoff.emitter == "prefill" else 0
    steps = handoff.output_tokens - first_here
    saved = handoff.saving_seconds_per_token * steps
    return HandoffTimes(
        transfer_seconds=transfer,
        exposed_seconds=exposed,
        steps=steps,
        saved_seconds=saved,
        delta_seconds=exposed - saved,
        break_even_saving_seconds_per_token=transfer / steps if steps else None,
        break_even_saving_exposed_seconds_per_token=exposed / steps if steps else None,
        break_even_hidden=break_even_hidden(transfer, saved),
        break_even_link_bytes_per_second=_break_even_link(handoff, saved),
        break_even_output_tokens=_break_even_output(exposed, handoff.saving_seconds_per_token, first_here),
    )


def break_even_hidden(transfer_seconds: float, saved_seconds: float) -> float | None:
    """Return the least share of a transfer to hide so that `saved_seconds` repay the rest."""
    if saved_seconds < 0:
        return None
    return max(0.0, 1 - saved_seconds / transfer_seconds)


def _break_even_link(handoff: Handoff, saved: float) -> float | None:
    exposed_bytes = handoff.state_bytes * (1 - handoff.hidden)
    if exposed_bytes == 0:
        return 0.0 if saved >= 0 else None
    return exposed_bytes / saved if saved > 0 else None


def _break_even_output(exposed: float, saving: float, first_here: int) -> float | None:
    if saving > 0:
        return exposed / saving + first_here
    return float(1 + first_here) if exposed == 0 and saving == 0 else None


def link_load(state_bytes: float, requests_per_second: float, link_bytes_per_second: float) -> LinkLoad:
    """Return the load that `requests_per_second` transfers of `state_bytes` put on a link."""
    checks.positive("state bytes", state_bytes)
    checks.at_least("requests per second", requests_per_second)
    checks.positive("link bandwidth", link_bytes_per_second)
    demand = state_bytes * requests_per_second
    return LinkLoad(bytes_per_second=demand, utilisation=demand / link_bytes_per_second)
