"""The time of a prompt and of a decode step: one formula for sizing, plans and simulation. Pure.

A step runs its linear layers and its attention one after the other. Each takes the longer of its arithmetic
and of the bytes it moves, which overlap within a kernel and not across kernels:

    seconds = overhead + max(linear FLOPs, weights) + max(attention FLOPs, retained state) + exchanges

`max(all FLOPs, all bytes)` would hide the reading of the state behind the linear layers' arithmetic: at large
batches it promises steps of 0.71 times AIConfigurator's tables of timed kernels, where this formula stays
above 0.91. Counting attention's arithmetic among the linear layers' and adding the reading of the state to it
overshoots (1.42 times, against 1.38), most where attention is bound by arithmetic, as over a latent (MLA).
`docs/payoff.md` says how the comparison was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_planner.perf.rates import Rates
    from hawk_planner.perf.work import DecodeWork, PromptWork

__all__ = ["prompt_seconds", "step_timer"]


def prompt_seconds(work: PromptWork, rates: Rates) -> float:
    """Seconds of a prompt alone, in one pass."""
    linear = max(work.linear_flops / rates.flops, work.weight_bytes / rates.bytes_per_second)
    exchange = work.exchange_bytes * rates.wire_s + work.exchanges * rates.exchange_s
    return rates.overhead_s + linear + _attention_seconds(work, rates) + exchange


def _attention_seconds(work: PromptWork, rates: Rates) -> float:
    return max(work.attention_flops / rates.attention_flops, work.state_bytes / rates.bytes_per_second)


def step_timer(work: DecodeWork, rates: Rates, beside: PromptWork | None = None) -> Callable[[float], float]:
    """Return the seconds of a decode step as a function of the batch, its constants computed once.

    With `beside`, a chunk of a prompt rides in the step: it shares the linear layers, and so the reading of
    the weights (its bytes hold them), and has its own attention.
    """
    linear = work.tokens * work.linear_flops / rates.flops
    attention = work.tokens * work.attention_flops / rates.attention_flops
    state = work.state_bytes / rates.bytes_per_second
    each = max(attention, state) + work.tokens * work.exchange_bytes * rates.wire_s
    base, fixed = 0.0, work.weight_bytes / rates.bytes_per_second
    rest = rates.overhead_s + work.exchanges * rates.exchange_s
    groups: list[tuple[float, float]] = []
    if beside is not None:
        base, fixed = beside.linear_flops / rates.flops, beside.weight_bytes / rates.bytes_per_second
        rest += _attention_seconds(beside, rates) + beside.exchange_bytes * rates.wire_s
    else:
        groups = [(group.nbytes / rates.bytes_per_second, group.missed) for group in work.experts]
    if not groups:
        return lambda batch: max(base + batch * linear, fixed) + batch * each + rest

    def seconds(batch: float) -> float:
        tokens = max(1.0, batch * work.tokens)
        routed: float = sum(whole * (1 - missed**tokens) for whole, missed in groups)
        return max(batch * linear, fixed + routed) + batch * each + rest

    return seconds
