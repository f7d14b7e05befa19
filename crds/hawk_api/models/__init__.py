"""Models: sizes of their KV cache and weights, from a preset, a config.json, or an explicit geometry."""

from hawk_api.models.config import from_config, parse_config
from hawk_api.models.formats import LayerFormats, WeightBytes, WeightFormat
from hawk_api.models.geometry import Geometry, Weights
from hawk_api.models.layers import Attention, Ffn, Layer
from hawk_api.models.presets import load_preset, preset_names
from hawk_api.models.reader import ModelConfigError
from hawk_api.models.resolve import from_spec, resolve_geometry

__all__ = [
    "Attention",
    "Ffn",
    "Geometry",
    "Layer",
    "LayerFormats",
    "ModelConfigError",
    "WeightBytes",
    "WeightFormat",
    "Weights",
    "from_config",
    "from_spec",
    "load_preset",
    "parse_config",
    "preset_names",
    "resolve_geometry",
]
