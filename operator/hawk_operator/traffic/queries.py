"""PromQL for one window, as one query, and for the bins of the last hour, as another.

Every part carries a `hawk_signal` label and is joined by `or`.

One round trip a window matters: an operator with a thousand pools asks every few seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_operator.traffic.source import DECODE, PREFILL, GroupTarget, Source, label_matchers, targets_of
from hawk_planner.traffic import signal_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TAG = "hawk_signal"
HISTORY_S = 3600.0
"""How far back traffic is read in bins, seconds."""
REQUESTS, PROMPTS, OUTPUTS = "bins/requests", "bins/prompt_tokens", "bins/output_tokens"

LINK = "link/rate"
TRANSFERS_S = 600.0
"""How far back transfers are read, seconds: the path's rate holds while no request comes."""

HISTOGRAMS = {
    PREFILL: (signal_names.PROMPT, signal_names.TTFT, signal_names.PREFILL_TIME),
    DECODE: (signal_names.OUTPUT, signal_names.ITL, signal_names.TTFT),
}
"""The histograms that each side is asked for."""


def build_queries(source: Source, groups: Sequence[GroupTarget], window: float) -> str:
    """Return the query for both sides; custom signals are left out (they are asked one by one)."""
    parts: list[str] = []
    for side in (PREFILL, DECODE):
        found = label_matchers(source, targets_of(side, groups))
        if found:
            parts += _side(source, side, found, duration(window))
    if parts:
        parts.append(tag(LINK, _transfer_rate(max(window, TRANSFERS_S))))
    return "\nor ".join(parts)


def _transfer_rate(window: float) -> str:
    """Bytes a second of a chunk from its announcement to its checked arrival, as the agents count it."""
    span = duration(window)
    nbytes = f'sum(rate(hawk_agent_transferred_bytes_total{{side="receive"}}[{span}]))'
    return f"({nbytes} / (sum(rate(hawk_agent_chunk_seconds_sum[{span}])) > 0))"


def _side(source: Source, side: str, found: Sequence[str], window: str) -> Iterable[str]:
    for signal in HISTOGRAMS[side]:
        names = source.names[signal]
        if names and signal not in source.queries:
            yield from _histogram(side, signal, names, found, window)
    arrivals = source.names[signal_names.ARRIVALS]
    if signal_names.ARRIVALS not in source.queries:
        yield tag(f"{side}/{signal_names.ARRIVALS}", f"sum({_ranged('rate', arrivals, found, window)})")
    yield from _gauges(source, side, found, window)


def _histogram(
    side: str, signal: str, names: Sequence[str], found: Sequence[str], window: str
) -> Iterable[str]:
    for suffix, by in (("bucket", "by (le) "), ("sum", ""), ("count", "")):
        series = _ranged("rate", [f"{name}_{suffix}" for name in names], found, window)
        yield tag(f"{side}/{signal}/{suffix}", f"sum {by}({series})")


def _gauges(source: Source, side: str, found: Sequence[str], window: str) -> Iterable[str]:
    for signal in signal_names.GAUGES:
        names = source.names[signal]
        if names and signal not in source.queries:
            fold = "max" if signal == signal_names.KV_USAGE else "sum"
            yield tag(f"{side}/{signal}", f"{fold} by (pod) ({_instant(names, found)})")
    if signal_names.WAITING not in source.queries:
        growth = _ranged("deriv", source.names[signal_names.WAITING], found, window)
        yield tag(f"{side}/waiting_growth", f"sum({growth})")
    running = source.names[signal_names.RUNNING]
    counted = _ranged("count_over_time", running, found, window)
    yield tag(f"{side}/samples", f"max({counted})")
    stamps = _prefer([_union([f"timestamp({name}{match})" for match in found]) for name in running])
    yield tag(f"{side}/age", f"time() - max({stamps})")


def history_query(source: Source, groups: Sequence[GroupTarget], width: float) -> str:
    """The query for the last hour in bins of `width` seconds, as a matrix; empty where it can't be asked.

    It counts pods that are gone as well: what they served was traffic of this pool.
    """
    if signal_names.ARRIVALS in source.queries:
        return ""
    found = label_matchers(source, targets_of(PREFILL, groups), gone=True)
    outputs = label_matchers(source, targets_of(DECODE, groups), gone=True)
    if not found or not outputs:
        return ""
    span = duration(width)
    parts = [
        tag(REQUESTS, f"sum({_ranged('increase', source.names[signal_names.ARRIVALS], found, span)})"),
        tag(PROMPTS, f"sum({_ranged('increase', _sums(source, signal_names.PROMPT), found, span)})"),
        tag(OUTPUTS, f"sum({_ranged('increase', _sums(source, signal_names.OUTPUT), outputs, span)})"),
    ]
    return f"({' or '.join(parts)})[{duration(HISTORY_S)}:{span}]"


def _sums(source: Source, signal: str) -> list[str]:
    return [f"{name}_sum" for name in source.names[signal]]


def duration(seconds: float) -> str:
    """Spell seconds as PromQL does: whole milliseconds."""
    return f"{round(seconds * 1000)}ms"


def tag(name: str, expression: str) -> str:
    """Mark what an expression answers, so that the parts of one answer can be told apart."""
    return f'label_replace({expression}, "{TAG}", "{name}", "", "")'


def _ranged(function: str, names: Sequence[str], found: Sequence[str], window: str, ago: str = "") -> str:
    offset = f" offset {ago}" if ago else ""
    return _prefer(
        [_union([f"{function}({name}{match}[{window}]{offset})" for match in found]) for name in names]
    )


def _instant(names: Sequence[str], found: Sequence[str]) -> str:
    return _prefer([_union([f"{name}{match}" for match in found]) for name in names])


def _union(parts: Sequence[str]) -> str:
    return " or ".join(parts)


def _prefer(alternatives: Sequence[str]) -> str:
    """The first name a pod exports; later names count only for pods that lack the earlier ones."""
    chosen = alternatives[0]
    for other in alternatives[1:]:
        chosen = f"({chosen}) or (({other}) unless on (pod, instance) ({chosen}))"
    return chosen
