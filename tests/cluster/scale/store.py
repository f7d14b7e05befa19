"""Plays a Prometheus that sees steady traffic in every pool: `python -m tests.cluster.scale.store PORT`.

It evaluates nothing: each signal that a query names (`hawk_signal`) is answered for a pool with this traffic,
with the scatter that counting in a window has. So the operator does all that it does for a thousand pools
with traffic, and no decision has to change.
"""

from __future__ import annotations

import functools
import math
import random
import re
import statistics
import sys
import time
from typing import Any, Final

from aiohttp import web

RATE: Final = 2.0
"""Requests a second in a pool."""
MEANS: Final = {
    "prompt_tokens": 1500.0,
    "output_tokens": 200.0,
    "ttft": 0.06,
    "prefill_time": 0.05,
    "itl": 0.02,
}
SPREAD: Final = 0.3
"""Standard deviation of the logarithm of each."""
EDGES: Final = 16
"""Buckets of a histogram: each half as wide again as the one below, the mean in the middle."""
GAUGES: Final = {"running": 3.0, "waiting": 0.0, "kv_usage": 0.2}
SCATTER: Final = 0.02
BINS, BIN_S = 120, 30
TOKENS: Final = {"bins/requests": 1.0, "bins/prompt_tokens": 1500.0, "bins/output_tokens": 200.0}

Series = dict[str, Any]


def scattered(number: float) -> float:
    """The number as it comes out in a window: more or fewer by chance."""
    return number * random.gauss(1.0, SCATTER)


def vector(signal: str, rate: float) -> list[Series]:
    """The series of one signal, such as prefill/ttft/bucket, at a rate of requests."""
    _, _, name = signal.partition("/")
    name, _, part = name.partition("/")
    if part == "bucket":
        return [series(signal, rate * share, le=edge) for edge, share in buckets(MEANS[name])]
    if part in {"sum", "count"}:
        return [series(signal, rate * (scattered(MEANS[name]) if part == "sum" else 1.0))]
    if name in GAUGES:
        return [series(signal, scattered(GAUGES[name]))]
    numbers = {"arrivals": rate, "samples": 4.0, "age": 3.0, "waiting_growth": 0.0}
    return [series(signal, numbers[name])] if name in numbers else []


def buckets(mean: float) -> list[tuple[str, float]]:
    """(upper edge, share below it) of lognormal values."""
    steps = [math.log(1.5) * (index - EDGES // 2) for index in range(EDGES)]
    shares = [statistics.NormalDist(0, SPREAD).cdf(step) for step in steps]
    return [
        *((f"{mean * math.exp(s):.6g}", share) for s, share in zip(steps, shares, strict=True)),
        ("+Inf", 1.0),
    ]


def series(signal: str, value: float, **labels: str) -> Series:
    """One series of an instant vector."""
    return {"metric": {"hawk_signal": signal, **labels}, "value": [0, str(value)]}


def matrix(signal: str, now: int) -> Series:
    """An hour of bins up to `now`, which counts bins; one that is over stays as it was."""
    points = [[BIN_S * moment, str(TOKENS[signal] * arrivals(moment))] for moment in range(now - BINS, now)]
    return {"metric": {"hawk_signal": signal}, "values": points}


@functools.lru_cache(2 * BINS)
def arrivals(moment: int) -> float:
    """Requests in a bin, as independent ones come."""
    mean = BIN_S * RATE
    return max(0.0, random.Random(moment).gauss(mean, math.sqrt(mean)))


async def answer(request: web.Request) -> web.Response:
    """A query's signals now."""
    form = await request.post()
    signals = re.findall(r'"hawk_signal", "([^"]+)"', str(form["query"]))
    if any(signal in TOKENS for signal in signals):
        now = int(time.time() / BIN_S)
        data = {"resultType": "matrix", "result": [matrix(signal, now) for signal in signals]}
    else:
        rate = scattered(RATE)
        found = [one for signal in signals for one in vector(signal, rate)]
        data = {"resultType": "vector", "result": found}
    return web.json_response({"status": "success", "data": data})


def main(port: int) -> None:
    """Serve until killed."""
    app = web.Application(client_max_size=1 << 20)
    app.router.add_post("/api/v1/query", answer)
    web.run_app(app, host="127.0.0.1", port=port, print=None)


if __name__ == "__main__":
    main(int(sys.argv[1]))
