"""Published fits of measured times, usable as a cross-check where their hardware is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import checks

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["distserve_opt13b_a100_prefill_ms"]


def distserve_opt13b_a100_prefill_ms(prompt_tokens: Sequence[int], pipeline: int = 1) -> float:
    """Return DistServe's fitted prefill time in ms of a batch of prompts for OPT-13B on an A100.

    A constant, a linear and a quadratic term in the batch's tokens, over `pipeline` stages, one ms a stage.
    """
    checks.whole("pipeline", pipeline)
    if not prompt_tokens:
        raise checks.InputError("prompt tokens", "no prompt is given", "give one length a prompt")
    lengths = [checks.whole("prompt tokens", tokens) for tokens in prompt_tokens]
    linear = sum(lengths)
    square = sum(tokens * tokens for tokens in lengths)
    return (18.10254647 + 0.10191226 * linear + 7.122264e-6 * square) / pipeline + pipeline
