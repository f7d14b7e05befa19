"""hawk kv: sizes of a model's KV cache and weights, and the cache's transfer time."""

import math
from dataclasses import asdict, dataclass
from typing import Annotated

import typer
from rich.table import Table

from hawk_api.models import Geometry, load_preset, preset_names
from hawk_api.v1alpha1 import DataType
from hawk_cli.support.geometry import ConfigOption, ModelOption, chosen_geometry
from hawk_cli.support.output import Output, OutputOption, emit_output, fail, rows


@dataclass(frozen=True, slots=True)
class KvSize:
    """The answer. KV bytes are of one sequence; the transfer is at the nominal rate, with nothing hidden."""

    model: str
    attention: str
    dtype: str
    tokens: int
    layers: int
    kv_heads: int
    kv_bytes: int
    kv_bytes_per_token: int
    kv_bytes_fixed: int
    kv_bytes_per_layer: int
    parameters: int
    active_parameters: int
    weight_bytes: int
    """All weights, in the number formats that they were published in."""
    link_gbps: float
    transfer_ms: float


def size_kv(
    *,
    model: ModelOption = None,
    config: ConfigOption = None,
    tokens: Annotated[int, typer.Option(help="Context length, tokens.")] = 32_768,
    dtype: Annotated[DataType, typer.Option(help="Element type of the KV cache.")] = DataType.FLOAT16,
    link_gbps: Annotated[float, typer.Option(help="Link rate in Gb/s.")] = 400.0,
    list_models: Annotated[bool, typer.Option("--list", help="Print the known models.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print the sizes of a model's weights and of one sequence's KV cache, and its transfer time."""
    if list_models:
        _list_models(output)
        return
    geometry = chosen_geometry(model, config)
    if not 0 <= tokens <= 1 << 40:
        fail(f"--tokens: {tokens} is not a number of tokens; give a whole number from 0 up")
    if not (math.isfinite(link_gbps) and link_gbps > 0):
        fail(f"--link-gbps: {link_gbps} is not a link rate; give Gb/s above 0, such as 400")
    answer = measure_kv(geometry, tokens, dtype, link_gbps)
    emit_output(asdict(answer), output, lambda: _table(answer))


def measure_kv(geometry: Geometry, tokens: int, dtype: DataType, link_gbps: float) -> KvSize:
    """The sizes of `geometry` at `tokens` tokens, and the time at `link_gbps` (10**9 bits a second)."""
    size = geometry.kv_bytes(tokens, dtype)
    return KvSize(
        model=geometry.name,
        attention=str(geometry.attention),
        dtype=str(dtype),
        tokens=tokens,
        layers=geometry.layer_count,
        kv_heads=geometry.kv_heads,
        kv_bytes=size,
        kv_bytes_per_token=geometry.kv_bytes_per_token(dtype),
        kv_bytes_fixed=geometry.kv_bytes_fixed(dtype),
        parameters=geometry.weights.total,
        active_parameters=geometry.weights.active,
        weight_bytes=round(geometry.weights_bytes()),
        kv_bytes_per_layer=max(geometry.kv_bytes_by_layer(tokens, dtype)),
        link_gbps=link_gbps,
        transfer_ms=size * 8 / (link_gbps * 1e9) * 1e3,
    )


def _list_models(output: Output) -> None:
    known = [
        {
            "model": name,
            "attention": str(load_preset(name).attention),
            "parameters": load_preset(name).weights.total,
            "kv_bytes_per_token": load_preset(name).kv_bytes_per_token(),
        }
        for name in preset_names()
    ]
    columns = ("model", "attention", "#parameters", "#KV bytes a token (16 bit)")
    emit_output(
        {"models": known},
        output,
        lambda: rows(
            None,
            columns,
            (
                (m["model"], m["attention"], f"{m['parameters']:,}", f"{m['kv_bytes_per_token']:,}")
                for m in known
            ),
        ),
    )


def _table(answer: KvSize) -> Table:
    gib = answer.kv_bytes / 2**30
    return rows(
        None,
        ("", ""),
        (
            ("model", f"{answer.model}: {answer.layers} layers, {answer.attention} attention"),
            ("context", f"{answer.tokens:,} tokens, {answer.dtype}"),
            ("KV cache", f"{answer.kv_bytes:,} bytes ({gib:.2f} GiB, {answer.kv_bytes / 1e9:.2f} GB)"),
            ("a further token", f"{answer.kv_bytes_per_token:,} bytes"),
            ("fixed part", f"{answer.kv_bytes_fixed:,} bytes (full windows, states)"),
            (
                "weights",
                (
                    f"{answer.parameters:,} parameters, {answer.active_parameters:,} of them active, "
                    f"{answer.weight_bytes / 1e9:,.2f} GB as published"
                ),
            ),
            ("transfer", f"{answer.transfer_ms:,.3f} ms at {answer.link_gbps:g} Gb/s, nothing hidden"),
        ),
    )
