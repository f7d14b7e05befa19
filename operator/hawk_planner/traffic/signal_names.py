"""Names of the signals of one side of a pool."""

from __future__ import annotations

ARRIVALS = "arrivals"
PROMPT = "prompt_tokens"
OUTPUT = "output_tokens"
TTFT = "ttft"
ITL = "itl"
PREFILL_TIME = "prefill_time"
RUNNING = "running"
WAITING = "waiting"
KV_USAGE = "kv_usage"
LATE = "late"
"""Only by the user's own query: engines don't know what was promised."""

COUNTERS = (ARRIVALS,)
HISTOGRAMS = (PROMPT, OUTPUT, TTFT, ITL, PREFILL_TIME)
GAUGES = (RUNNING, WAITING, KV_USAGE)
SIGNALS = (*COUNTERS, *HISTOGRAMS, *GAUGES, LATE)
