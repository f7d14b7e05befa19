"""Metric names of the engines, newest first.

Engines rename metrics between releases, and a fleet in the middle of a roll-out exports both names.
Each signal lists the names it went by; a pod that exports several is counted by the first of them. A
colon comes out as an underscore where newer exporters negotiate OpenMetrics, so both spellings are tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hawk_planner.traffic.signal_names import (
    ARRIVALS,
    ITL,
    KV_USAGE,
    OUTPUT,
    PREFILL_TIME,
    PROMPT,
    RUNNING,
    TTFT,
    WAITING,
)

Names = Mapping[str, tuple[str, ...]]


def _both_spellings(names: Names) -> Names:
    return MappingProxyType(
        {
            signal: (*known, *(name.replace(":", "_") for name in known if ":" in name))
            for signal, known in names.items()
        }
    )


VLLM: Names = _both_spellings(
    {
        ARRIVALS: ("vllm:request_prompt_tokens_count",),
        PROMPT: ("vllm:request_prompt_tokens",),
        OUTPUT: ("vllm:request_generation_tokens",),
        TTFT: ("vllm:time_to_first_token_seconds",),
        ITL: ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
        PREFILL_TIME: ("vllm:request_prefill_time_seconds",),
        RUNNING: ("vllm:num_requests_running",),
        WAITING: ("vllm:num_requests_waiting",),
        KV_USAGE: ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    }
)

SGLANG: Names = _both_spellings(
    {
        ARRIVALS: ("sglang:num_requests_total", "sglang:prompt_tokens_histogram_count"),
        PROMPT: ("sglang:prompt_tokens_histogram",),
        OUTPUT: ("sglang:generation_tokens_histogram",),
        TTFT: ("sglang:time_to_first_token_seconds",),
        ITL: ("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
        PREFILL_TIME: (),
        RUNNING: ("sglang:num_running_reqs",),
        WAITING: ("sglang:num_queue_reqs",),
        KV_USAGE: ("sglang:token_usage",),
    }
)

TGI: Names = MappingProxyType(
    {
        ARRIVALS: ("tgi_request_count",),
        PROMPT: ("tgi_request_input_length",),
        OUTPUT: ("tgi_request_generated_tokens",),
        TTFT: (),
        ITL: ("tgi_request_mean_time_per_token_duration",),
        PREFILL_TIME: (),
        RUNNING: ("tgi_batch_current_size",),
        WAITING: ("tgi_queue_size",),
        KV_USAGE: (),
    }
)

PRESETS: Mapping[str, Names] = MappingProxyType({"VLLM": VLLM, "SGLang": SGLANG, "TGI": TGI})
