"""Learning from what was measured: how much longer prompts wait than the queueing formula says.

Batches that come at once, or prompts of unlike length in one queue, show in no counter that is scraped
every few seconds, but they do in the time to first token. The factor moves slowly and in its logarithm, so
that one odd window changes little, and only where a wait is long enough to be told from noise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from hawk_operator.sizing.needs import WAIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_operator.sizing.demand import PrefillNeed
    from hawk_operator.traffic import Window

_PACE = 0.1
"""How far one look moves the factor's logarithm."""
_FORGETTING = 0.03
"""The same where waits are too short to tell, towards no correction; over the dispersion, since bursts
come back.
"""
_SLOWEST = 0.002
_RANGE = (1.0, 32.0)
_NOTICED = 0.05
"""Waits below this share of the target and of the service time are noise, or the roofline's own error."""
_FULLEST = 0.95
"""Above this use the formula's wait is too sensitive to learn from."""


def learn(
    corrections: Mapping[str, float], need: PrefillNeed | None, window: Window, rate: float, ready: int
) -> dict[str, float]:
    """The corrections after one more look at `ready` prefill workers under `rate` requests/s."""
    ttft = window.prefill.ttft
    if need is None or need.target is None or not ttft.known or not ready or rate <= 0:
        return dict(corrections)
    alone = window.prefill.prefill_time
    service = alone.get().mean if alone.known else need.mean_service
    measured = max(0.0, ttft.get().mean - service)
    queue = replace(need.queue(rate, ready), wait_factor=1.0)
    expected = queue.mean_wait if queue.utilisation < _FULLEST else math.inf
    floor = _NOTICED * (need.target + need.mean_service)
    if not math.isfinite(expected):
        return dict(corrections)
    noticed = max(measured, expected) >= floor
    seen = (measured + floor) / (expected + floor) if noticed else 1.0
    pace = _PACE if noticed else max(_SLOWEST, _FORGETTING / need.load_dispersion)
    before = math.log(corrections.get(WAIT, 1.0))
    aim = math.log(min(max(seen, _RANGE[0]), _RANGE[1]))
    return {**corrections, WAIT: math.exp(before + pace * (aim - before))}
