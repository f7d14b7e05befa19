"""The geometry that a Hugging Face config.json describes.

Families are told apart by `model_type`. One that isn't known is refused rather than guessed at: a wrong KV
size would plan wrong transfers.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hawk_api.models.families import DEFAULTS, FAMILIES, NESTED
from hawk_api.models.methods import read_quantization
from hawk_api.models.quantization import layer_formats
from hawk_api.models.reader import ConfigReader, ModelConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_api.models.geometry import Geometry

SEPARATE = "hf_quant_config.json"
MAX_BYTES = 8 << 20
"""Largest file that is read. Real ones have some kilobytes, a list of quantized modules up to a megabyte."""


def parse_config(text: str, name: str = "config.json", *, quantization: str | None = None) -> Geometry:
    """The geometry of a config.json's text. Raises ModelConfigError.

    `quantization`: the text of the hf_quant_config.json beside it, where there is one.
    """
    separate = None if quantization is None else _parse(quantization, SEPARATE)
    return from_config(_parse(text, name), name, quantization=separate)


def _parse(text: str, name: str) -> dict[str, Any]:
    if len(text) > MAX_BYTES:
        raise ModelConfigError(f"{name}: {len(text)} characters; such a file has at most {MAX_BYTES}")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelConfigError(f"{name}: not JSON ({error}); give the model's config.json") from error
    if not isinstance(config, dict):
        raise ModelConfigError(f"{name}: not a JSON object; give the model's config.json")
    return config


def from_config(
    config: Mapping[str, Any], name: str = "config.json", *, quantization: Mapping[str, Any] | None = None
) -> Geometry:
    """The geometry of a parsed config.json, with the formats in which its weights were published.

    `quantization` is the content of hf_quant_config.json, which ModelOpt writes beside it; config.json's own
    `quantization_config` has precedence. Raises ModelConfigError.
    """
    geometry = _shape(config, name)
    inner = config.get("text_config")
    own = config.get("quantization_config")
    if own is None and isinstance(inner, dict):
        own = inner.get("quantization_config")
    if own is None and quantization is None:
        return geometry
    found = read_quantization(own, quantization, name)
    return replace(geometry, layer_formats=layer_formats(geometry.layers, found))


def _shape(config: Mapping[str, Any], name: str) -> Geometry:
    """The geometry with every weight in 16 bits."""
    inner = config.get("text_config")
    if isinstance(inner, dict) and str(config.get("model_type")) in NESTED:
        tied = config.get("tie_word_embeddings", NESTED[str(config["model_type"])])
        config = {"tie_word_embeddings": tied, **inner}
    family = str(config.get("model_type"))
    config = {**DEFAULTS.get(family, {}), **config}
    if family not in FAMILIES:
        raise ModelConfigError(
            f"{name}: model_type {family!r} is not known; known are {', '.join(sorted(FAMILIES))}; "
            "give spec.model.geometry instead"
        )
    try:
        return FAMILIES[family](ConfigReader(config, name))
    except ModelConfigError:
        raise
    except ValueError as error:
        raise ModelConfigError(f"{name}: {error}") from error
