"""Sequences that an engine decodes at once, as its pod template sets them. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hawk_api.checks.template import container_words

if TYPE_CHECKING:
    from hawk_api.v1alpha1.group import GroupSpec

__all__ = ["declared_sequences"]

_SETTING = re.compile(
    r"--(?:max-num-seqs"  # vLLM
    r"|max-running-requests"  # SGLang
    r"|max[-_]batch[-_]size)"  # trtllm-serve
    r"(?:=|\s+)[\"']?0*([1-9]\d{0,5})\b"
)


def declared_sequences(group: GroupSpec) -> int | None:
    """Return the last setting in the template's commands and arguments; None where there is none."""
    if group.template is None:
        return None
    text = "\n".join(container_words(group.template.get("spec")))
    found = _SETTING.findall(text)
    return int(found[-1]) if found else None
