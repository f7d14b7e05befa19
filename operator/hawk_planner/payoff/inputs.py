"""Inputs of the bare arithmetic: one dataclass a split, whose fields are the options of its command."""

# ruff: noqa: RUF009 -- `_asked` is `field` with one argument fewer

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from hawk_api.v1alpha1 import DataType

from . import checks
from .handoff import Emitter  # noqa: TC001 -- the command line reads the annotations

__all__ = ["AfdInputs", "PdInputs", "PipelineInputs", "TdInputs", "bounded"]


MOST = 1e12
"""Beyond every size, rate and time that is asked about: each result stays a number."""
LONGEST = 1024
"""Most candidates of a draft: each is a step of the sums."""


def _asked(default: Any, text: str, most: float = MOST) -> Any:
    """Return a field with a default, the help of its option, and the most that it may be."""
    return field(default=default, metadata={"help": text, "most": most})


LINK = "Link rate in Gb/s (of one rail)."
HIDDEN = "Share of the transfer that is hidden, 0 to 1."
KV_DTYPE = "Element type of the KV cache."


@dataclass(frozen=True)
class PdInputs:
    """Calculate a prefill/decode split: transfer, exposed time and break-evens of one request."""

    prompt_tokens: int = _asked(16_384, "Prompt length, tokens.")
    output_tokens: int = _asked(128, "Output length, tokens.")
    link_gbps: float = _asked(200.0, LINK)
    decode_saving_ms_per_token: float = _asked(
        0.0, "Time that a decode step saves on the receiver, ms; negative if slower."
    )
    hidden: float = _asked(0.0, HIDDEN)
    first_token: Emitter = _asked("decode", "The side that emits the first token.")
    requests_per_second: float | None = _asked(None, "Requests per second, for the link's load.")
    kv_dtype: DataType = _asked(DataType.FLOAT16, KV_DTYPE)


@dataclass(frozen=True)
class AfdInputs:
    """Calculate an attention/FFN split: the exchange of one step, and the value of the freed memory."""

    batch: int = _asked(128, "Sequences per decode step.")
    link_gbps: float = _asked(200.0, LINK)
    ffn_saving_ms: float = _asked(0.0, "Time that the FFN of one step saves, ms.")
    hidden: float = _asked(0.0, HIDDEN)
    context_tokens: int = _asked(16_384, "Context length of a request, tokens.")
    ffn_ranks: int | None = _asked(None, "FFN devices that share the experts; default one.")
    waiting_requests: float | None = _asked(None, "Requests waiting for KV space.")
    tokens_per_expert_limit: float | None = _asked(None, "Tokens per step that fill an expert.")
    kv_dtype: DataType = _asked(DataType.FLOAT16, KV_DTYPE)


@dataclass(frozen=True)
class TdInputs:
    """Calculate a draft/target split: messages of a round, and its time if step times are given."""

    draft_tokens: int = _asked(8, "Draft tokens per round.", LONGEST)
    feature_vectors: int = _asked(0, "Hidden vectors sent to the drafter per round.")
    link_gbps: float = _asked(200.0, LINK)
    acceptance: float | None = _asked(None, "Probability that a draft token is accepted, 0 to 1.")
    accepted_tokens: float | None = _asked(
        None, "Mean accepted draft tokens per round, as engines report it; instead of --acceptance."
    )
    draft_ms_per_token: float | None = _asked(None, "Time per draft token, ms.")
    verify_ms: float | None = _asked(None, "Time per verification, ms.")
    target_ms_per_token: float | None = _asked(None, "Time per step of the target alone, ms.")
    verify_ms_per_draft: float = _asked(0.0, "Time that each draft token adds to a verification, ms.")
    synchronisation_ms: float = _asked(0.0, "Start-up and synchronization per round, ms.")
    draft_overlap: float = _asked(0.0, "Share of drafting that overlaps verification, 0 to 1.")
    longest: int = _asked(8, "Longest draft to consider, tokens.", LONGEST)


@dataclass(frozen=True)
class PipelineInputs:
    """Calculate chunks of layers on rails: the part of the transfer that is left when prefill ends."""

    tokens: int = _asked(32_768, "Prompt length, tokens.")
    chunk_layers: int = _asked(16, "Layers per chunk.")
    compute_ms_per_chunk: float | None = _asked(
        None, "Compute time per chunk, ms; instead of --prefill-tflops."
    )
    prefill_tflops: float = _asked(
        4747.0, "Arithmetic that prefill reaches, TFLOP/s; the default is 60% of 8 H100."
    )
    rails: int = _asked(1, "Network ports per request.")
    link_gbps: float = _asked(400.0, LINK)
    overhead_us_per_chunk: float = _asked(0.0, "Time to post and detect a chunk, us.")
    kv_dtype: DataType = _asked(DataType.FLOAT16, KV_DTYPE)


Inputs = TypeVar("Inputs", PdInputs, AfdInputs, TdInputs, PipelineInputs)


def bounded(inputs: Inputs) -> Inputs:
    """Return inputs whose every number is one, and none too large; raises InputError with the option."""
    for one in fields(inputs):
        value, most = getattr(inputs, one.name), one.metadata["most"]
        if isinstance(value, int | float):
            checks.within("--" + one.name.replace("_", "-"), value, -most, most)
    return inputs
