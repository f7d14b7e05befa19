"""Models: what their KV cache and weights take, from presets, a config.json, or an explicit geometry."""

from hawk_api.models.config import ModelConfigError, from_config, parse_config
from hawk_api.models.geometry import Geometry, Weights
from hawk_api.models.layers import Attention, Ffn, Layer
from hawk_api.models.presets import preset, presets
from hawk_api.models.resolve import from_spec, resolve

__all__ = [
    "Attention",
    "Ffn",
    "Geometry",
    "Layer",
    "ModelConfigError",
    "Weights",
    "from_config",
    "from_spec",
    "parse_config",
    "preset",
    "presets",
    "resolve",
]
