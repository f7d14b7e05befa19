"""Engine times by NVIDIA's AIConfigurator, where that is installed, as rows of measured times.

It estimates an engine's step from kernels that were timed on the device. A prompt is its `static_ctx`
estimate of one sequence, a decode step its `static_gen` estimate; both in ms, neither with queueing.
Known to work: aiconfigurator 0.12.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Protocol

from . import checks
from .measured import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Asked", "Estimate", "estimator", "rows"]


@dataclass(frozen=True)
class Asked:
    """The subject of an estimate: one replica of `devices` devices in tensor parallel."""

    model: str
    """Our name of the model, for the rows."""
    model_path: str
    """Its name on Hugging Face, or a folder with its config.json."""
    device: str
    """Our accelerator class."""
    system: str
    """AIConfigurator's name of it, such as h100_sxm."""
    backend: str
    """vllm, sglang or trtllm."""
    devices: int
    prompts: Sequence[int]
    batches: Sequence[int]
    contexts: Sequence[int]


class Estimate(Protocol):
    """AIConfigurator's `cli_estimate`, as far as it is used: the result's ttft, tpot, backend_version."""

    def __call__(self, model_path: str, system_name: str, **options: Any) -> Any:
        """Return the estimate of one operating point."""


def estimator() -> tuple[Estimate, str]:
    """Return AIConfigurator's estimate and version; raises InputError where it isn't installed."""
    try:
        found = version("aiconfigurator")
        estimate = import_module("aiconfigurator.cli.api").cli_estimate
    except (PackageNotFoundError, ImportError, AttributeError) as error:
        raise checks.InputError(
            "AIConfigurator", f"can't be used here ({error})", "pip install aiconfigurator beside hawkpool"
        ) from error
    return estimate, found


def rows(estimate: Estimate, found: str, asked: Asked) -> list[Row]:
    """Return a row a prompt length, and one a batch and context; `found` is AIConfigurator's version."""
    made: list[Row] = []

    def add(milliseconds: float, of: Any, **point: Any) -> None:
        source = f"AIConfigurator {found}, {asked.system}, {asked.backend} {of.backend_version}"
        name, value = asked.model, checks.positive("estimated time", float(milliseconds))
        made.append(Row(name, asked.device, asked.devices, milliseconds=value, source=source, **point))

    def at(mode: str, **point: int) -> Any:
        options = {"backend_name": asked.backend, "tp_size": asked.devices, **point}
        try:
            return estimate(asked.model_path, asked.system, mode=mode, **options)
        except Exception as error:
            raise checks.InputError(
                "--system",
                f"has no {mode} of {asked.model_path} on {asked.system} at {point}: {error}",
                "choose a model, system and size that it knows (aiconfigurator cli support)",
            ) from error

    for tokens in asked.prompts:
        done = at("static_ctx", batch_size=1, isl=tokens, osl=1)
        add(done.ttft, done, phase="prefill", tokens=tokens)
    for batch in asked.batches:
        for context in asked.contexts:
            done = at("static_gen", batch_size=batch, isl=context, osl=2)
            add(done.tpot, done, phase="decode", batch=batch, context=context)
    return made
