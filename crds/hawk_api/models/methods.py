"""Methods of quantization as config.json and hf_quant_config.json spell them: a reader for each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hawk_api.models.formats import FLOAT8_BLOCKS, MXFP4, WeightFormat
from hawk_api.models.quantization import Quantization, name_patterns
from hawk_api.models.reader import ConfigReader, ModelConfigError
from hawk_api.v1alpha1.enums import Precision

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_REMEDY = "give spec.model.geometry and spec.model.weights instead"
_HALF, _SINGLE = 2.0, 4.0
"""Bytes of a scale."""

FP8 = WeightFormat(Precision.FLOAT8, 1.0)
INT8 = WeightFormat(Precision.INT8, 1.0)
MXFP8 = WeightFormat(Precision.FLOAT8, 1 + 1 / 32)
NVFP4 = WeightFormat(Precision.FLOAT4, 1 / 2 + 1 / 16)
"""Groups of 16 with a scale of one byte."""
_AWQ = WeightFormat(Precision.INT4, 1 / 2 + _HALF / 128)

_ALGORITHMS = {
    "FP8": FP8,
    "FP8_PB_WO": FLOAT8_BLOCKS,
    "FP8_PER_CHANNEL_PER_TOKEN": FP8,
    "INT8_SQ": INT8,
    "MXFP4": MXFP4,
    "MXFP8": MXFP8,
    "NVFP4": NVFP4,
    "NVFP4_AWQ": NVFP4,
    "W4A16_AWQ": _AWQ,
    "W4A16_MXFP4": MXFP4,
    "W4A16_NVFP4": NVFP4,
    "W4A8_AWQ": _AWQ,
    "W4A8_MXFP4_FP8": MXFP4,
    "W4A8_NVFP4_FP8": NVFP4,
    "W8A16": INT8,
}
"""Weights by ModelOpt's names of algorithms."""
_EXPERTS = re.compile(r".*\.experts(?:\..*)?$")


def read_quantization(own: object, separate: object, file: str) -> Quantization:
    """Return what `quantization_config` says, or where there is none, what hf_quant_config.json does.

    Raises ModelConfigError, which names the key.
    """
    if own is not None:
        name = f"{file}: quantization_config"
        config = _object(own, name)
        inner = config.get("quantization")
        read = ConfigReader({**config, **inner} if isinstance(inner, dict) else config, name)
        method = read.config.get("quant_method") or ("modelopt" if "quant_algo" in read.config else None)
        if not isinstance(method, str) or method not in _METHODS:
            raise ModelConfigError(
                f"{name}: quant_method {method!r} is not known; known are {', '.join(_METHODS)}; {_REMEDY}"
            )
        return _METHODS[method](read)
    name = "hf_quant_config.json"
    config = _object(separate, name)
    return _modelopt(ConfigReader(_object(config.get("quantization", config), f"{name}: quantization"), name))


def _object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ModelConfigError(f"{name}: not a JSON object; take the model's own file")
    return value


def _kept(read: ConfigReader) -> tuple[re.Pattern[str], ...]:
    return name_patterns([*read.listed("modules_to_not_convert"), *read.listed("ignored_layers")])


def _fp8(read: ConfigReader) -> Quantization:
    return Quantization(
        WeightFormat(Precision.FLOAT8, 1 + _block_scale(read, "weight_block_size")), ignored=_kept(read)
    )


def _block_scale(read: ConfigReader, key: str) -> float:
    """Bytes of a block's scale for each weight of it; 0 where there are no blocks."""
    block = read.listed(key)
    if not block:
        return 0.0
    if len(block) != 2 or not all(isinstance(side, int) and side > 0 for side in block):
        raise ModelConfigError(f"{read.name}: {key} is {block}; it must be two whole numbers from 1 up")
    return _SINGLE / float(block[0] * block[1])


def _mxfp4(read: ConfigReader) -> Quantization:
    """Routed experts alone."""
    return Quantization(patterns=((_EXPERTS, MXFP4),), ignored=_kept(read))


def _integers(read: ConfigReader, bits: int, group: object, *, zeros: bool) -> WeightFormat:
    """Whole numbers in groups, each with a scale in 16 bits and, if not symmetric, a zero point."""
    if bits not in {4, 8}:
        raise ModelConfigError(f"{read.name}: {bits} bits a weight; known are 4 and 8; {_REMEDY}")
    size = bits / 8
    if isinstance(group, int) and group > 0:
        size += (_HALF + (bits / 8 if zeros else 0)) / group
    return WeightFormat(Precision.INT4 if bits == 4 else Precision.INT8, size)


def _groups(read: ConfigReader) -> Quantization:
    """AWQ and GPTQ."""
    zeros = read.flag("zero_point", False) or read.config.get("sym") is False
    form = _integers(read, read.count("bits", 4), read.config.get("group_size"), zeros=zeros)
    dynamic = read.config.get("dynamic")
    skipped = [key[2:] for key in dynamic if key.startswith("-:")] if isinstance(dynamic, dict) else []
    return Quantization(form, ignored=_kept(read) + name_patterns(f"re:{one}" for one in skipped))


def _scheme(name: str, weights: Mapping[str, Any]) -> WeightFormat:
    """A scheme for weights of compressed-tensors."""
    read = ConfigReader(weights, f"{name}.config_groups.weights")
    bits, kind, group = read.count("num_bits", 8), weights.get("type", "int"), read.config.get("group_size")
    if kind == "int":
        return _integers(read, bits, group, zeros=weights.get("symmetric") is False)
    size = group if isinstance(group, int) and group > 0 else None
    if kind == "float" and bits == 4:
        return WeightFormat(Precision.FLOAT4, 1 / 2 + 1 / (size or 16))
    if kind == "float" and bits == 8:
        scale = _block_scale(read, "block_structure") or (1 / size if size else 0.0)
        return WeightFormat(Precision.FLOAT8, 1 + scale)
    raise ModelConfigError(f"{read.name}: {bits} bits of type {kind!r}; known are int and float of 4 and 8")


def _compressed_tensors(read: ConfigReader) -> Quantization:
    default, patterns = None, []
    for group in _object(read.config.get("config_groups"), f"{read.name}.config_groups").values():
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(weights, dict):
            continue
        form = _scheme(read.name, weights)
        for target in ConfigReader(group, f"{read.name}.config_groups").listed("targets") or ["Linear"]:
            if target == "Linear":
                default = form
            else:
                patterns += [(pattern, form) for pattern in name_patterns([target])]
    return Quantization(default, tuple(patterns), name_patterns(read.listed("ignore")))


def _modelopt(read: ConfigReader) -> Quantization:
    algorithm = read.config.get("quant_algo")
    ignored = name_patterns([*read.listed("exclude_modules"), *read.listed("ignore")])
    if algorithm != "MIXED_PRECISION":
        return Quantization(_algorithm(read, algorithm), ignored=ignored)
    layers = _object(read.config.get("quantized_layers"), f"{read.name}.quantized_layers")
    forms: dict[str, WeightFormat] = {}
    for name, scheme in layers.items():
        # Experts are listed one by one; the first stands for all of its layer.
        before, experts, _ = name.partition(".experts.")
        forms.setdefault(
            f"{before}.experts" if experts else name,
            _algorithm(read, scheme.get("quant_algo") if isinstance(scheme, dict) else None),
        )
    patterns = tuple((pattern, form) for name, form in forms.items() for pattern in name_patterns([name]))
    return Quantization(None, patterns, ignored)


def _algorithm(read: ConfigReader, algorithm: object) -> WeightFormat:
    if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
        known = ", ".join(_ALGORITHMS)
        raise ModelConfigError(
            f"{read.name}: quant_algo {algorithm!r} is not known; known are {known}; {_REMEDY}"
        )
    return _ALGORITHMS[algorithm]


def _bits_and_bytes(read: ConfigReader) -> Quantization:
    kept = name_patterns(read.listed("llm_int8_skip_modules"))
    if not read.flag("load_in_4bit", False):
        return Quantization(INT8, ignored=kept)
    twice = read.flag("bnb_4bit_use_double_quant", False)
    scales = 1 / 64 + _SINGLE / (64 * 256) if twice else _SINGLE / 64
    return Quantization(WeightFormat(Precision.FLOAT4, 1 / 2 + scales), ignored=kept)


_METHODS: dict[str, Callable[[ConfigReader], Quantization]] = {
    "awq": _groups,
    "bitsandbytes": _bits_and_bytes,
    "compressed-tensors": _compressed_tensors,
    "fbgemm_fp8": _fp8,
    "fp8": _fp8,
    "gptq": _groups,
    "modelopt": _modelopt,
    "mxfp4": _mxfp4,
}
