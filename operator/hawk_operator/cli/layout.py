"""hawk layout: translate a KV cache from one layout to another, or explain what that takes."""

from __future__ import annotations

import math
import mmap
import os
import time
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hawk_agent.layouts import PRESETS, Layout, LayoutError, Nest, compile_nest
from hawk_agent.layouts.buffers import as_table
from hawk_agent.layouts.engines import engine
from hawk_agent.layouts.notation import AXES, parse
from hawk_agent.plans import Costs, Limits, calibrate
from hawk_operator.cli.explain import PROVE_MOST, describe, prove_keys, table
from hawk_operator.cli.files import mapped, replacing
from hawk_operator.cli.output import Output, OutputOption, emit, fail, rows

if TYPE_CHECKING:
    from hawk_agent.layouts.buffers import Blocks

_MEASURE_MOST = 1 << 30
_MEASURE_UNASKED = 64 << 20

app = typer.Typer(
    help="Translate a KV cache between layouts, or explain the translation.", no_args_is_help=True
)

FromOption = Annotated[
    str, typer.Option("--from", help="The source: a notation such as 'b h s d', or a preset.")
]
ToOption = Annotated[str, typer.Option("--to", help="The destination, in the same way.")]
SizesOption = Annotated[
    str, typer.Option(help="Sizes of axes and levels for both: b=1,h=8,s=37,d=128,s0=16,d0=16.")
]
FromSizesOption = Annotated[str, typer.Option(help="Sizes of the source alone, where they differ.")]
ToSizesOption = Annotated[str, typer.Option(help="Sizes of the destination alone, where they differ.")]
DtypeOption = Annotated[str, typer.Option(help="Element type: float16, bfloat16, float32, int8, float8.")]
BlocksOption = Annotated[
    str, typer.Option(help="Block table: page numbers in order, such as 3,0,2. Default 0,1,2...")
]


@app.command()
def convert(
    source_path: Annotated[Path, typer.Argument(metavar="IN", help="A raw file in the source's layout.")],
    target_path: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="The file to write; a new one is private, one that is replaced keeps its mode.",
        ),
    ],
    *,
    source: FromOption,
    target: ToOption,
    sizes: SizesOption = "",
    from_sizes: FromSizesOption = "",
    to_sizes: ToSizesOption = "",
    dtype: DtypeOption = "float16",
    from_blocks: BlocksOption = "",
    to_blocks: BlocksOption = "",
    padding: Annotated[
        bool, typer.Option(help="Zero-pad the tails of pages and tiles; without it they must divide.")
    ] = True,
    output: OutputOption = Output.TABLE,
) -> None:
    """Translate a raw file; the tails of pages and tiles are zero-padded, and a digest proves the result."""
    try:
        nest = _nest(source, target, sizes, own=(from_sizes, to_sizes), dtype=dtype, padding=padding)
        tables = (
            _blocks("--from-blocks", from_blocks, nest.source),
            _blocks("--to-blocks", to_blocks, nest.destination),
        )
        answer = _convert(nest, source_path, target_path, *tables)
    except LayoutError as error:
        fail(str(error))
    emit(answer, output, lambda: rows(None, ["", ""], [(key, answer[key]) for key in answer]))


@app.command()
def explain(
    *,
    source: FromOption,
    target: ToOption,
    sizes: SizesOption = "",
    from_sizes: FromSizesOption = "",
    to_sizes: ToSizesOption = "",
    dtype: DtypeOption = "float16",
    max_sge: Annotated[int, typer.Option(help="Pieces in one work request's list.")] = 30,
    max_message_bytes: Annotated[int, typer.Option(help="Bytes of one work request.")] = 1 << 30,
    link_gbps: Annotated[float, typer.Option(help="Rate of the network in Gb/s.")] = 400.0,
    key_uses: Annotated[int, typer.Option(help="Transfers that a strided key serves, if it is kept.")] = 1,
    prove: Annotated[
        bool,
        typer.Option("--prove-keys", help="Execute strided keys on a model of the card (up to 64 MiB)."),
    ] = False,
    measure: Annotated[
        bool | None, typer.Option(help="Also run the fused copy (up to 1 GiB; unless told, up to 64 MiB).")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """The nest of a translation, what a network card would be asked for, and a predicted time a strategy."""
    if not (math.isfinite(link_gbps) and link_gbps > 0):
        fail(f"--link-gbps: {link_gbps} is not a link rate; give Gb/s above 0, such as 400")
    try:
        nest = _nest(source, target, sizes, own=(from_sizes, to_sizes), dtype=dtype)
        limits = Limits(max_sge=max_sge, max_message_bytes=max_message_bytes)
        costs = calibrate(Costs(link_bytes_per_s=link_gbps * 1e9 / 8, key_uses=key_uses))
        answer = describe(nest, limits, costs)
    except LayoutError as error:
        fail(str(error))
    answer["compile_ms"] = _compile_ms(nest)
    if prove:
        proved = prove_keys(nest, limits)
        if None in proved.values():
            fail(f"--prove-keys: a side is larger than {PROVE_MOST} bytes; give fewer layers or tokens")
        for keys in answer["keys"]:
            keys["proved_on_model"] = proved.get(keys["kind"])
    small = max(nest.source.nbytes, nest.destination.nbytes) <= _MEASURE_UNASKED
    if measure or (measure is None and small):
        measured = _measure(nest)
        for strategy in answer["strategies"]:
            strategy["measured_ms"] = measured if strategy["name"] == "fused-copy" else None
    emit(answer, output, lambda: table(answer))


def _nest(
    source: str, target: str, sizes: str, *, own: tuple[str, str], dtype: str, padding: bool = True
) -> Nest:
    shared = _pairs("--sizes", sizes)
    left, used_left = _layout("--from", source, shared, _pairs("--from-sizes", own[0]), dtype)
    right, used_right = _layout("--to", target, shared, _pairs("--to-sizes", own[1]), dtype)
    for key in shared:
        if key not in used_left | used_right:
            fail(f"--sizes: {key!r} is no axis or level of {source!r} or {target!r}; leave it out")
    return compile_nest(left, right, padding=padding)


def _layout(
    option: str, text: str, shared: dict[str, int], own: dict[str, int], dtype: str
) -> tuple[Layout, set[str]]:
    """One side's layout, and which of the shared sizes it took."""
    preset = PRESETS.get(text)
    notation = preset.notation if preset else text
    try:
        names = {term.name for term in parse(notation).terms} | set(AXES)
        taken = {key: value for key, value in shared.items() if key in names}
        return Layout.parse(notation, {**(preset.sizes if preset else {}), **taken, **own}, dtype), set(taken)
    except LayoutError as error:
        raise LayoutError(f"{option}: {error}") from error


def _pairs(option: str, text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = word.partition("=")
        if not equals or not value.strip().isascii() or not value.strip().isdigit() or key.strip() in found:
            fail(f"{option}: can't read {word!r}; write each size once, such as h=8,s=37")
        found[key.strip()] = int(value)
    return found


def _blocks(option: str, text: str, layout: Layout) -> Blocks:
    """A block table, checked before the files are mapped."""
    if layout.table is None:
        if text:
            fail(f"{option}: {str(layout.notation)!r} has no block table; leave it out")
        return None
    if not text:
        return list(range(layout.table.size))
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        fail(f"{option}: can't read {text!r}; write page numbers, such as 3,0,2")
    return as_table(option, layout, [int(word) for word in words], unique=option == "--to-blocks")


def _convert(
    nest: Nest, source: Path, target: Path, from_blocks: Blocks, to_blocks: Blocks
) -> dict[str, Any]:
    path = engine()  # refused, if it is, before a file is touched
    takes = f"but {nest.source} takes {nest.source.nbytes}; check --sizes and --dtype"
    data = mapped(source, nest.source.nbytes, takes)
    key = int.from_bytes(os.urandom(8), "little")
    with replacing(target, nest.destination.nbytes, source=source) as memory:
        start = time.perf_counter()
        read = nest.run(data, memory, source_blocks=from_blocks, destination_blocks=to_blocks, key=key)
        taken = time.perf_counter() - start
        written = nest.digest_destination(memory, key, blocks=to_blocks)
        if read != written:
            fail(f"{target}: its digest would differ from the source's; the memory or the disk is faulty", 1)
    return {
        "source_bytes": nest.source.nbytes,
        "destination_bytes": nest.destination.nbytes,
        "payload_bytes": nest.payload_nbytes,
        "padding_bytes": sum(zero.nbytes for zero in nest.zeros),
        "engine": path,
        "translate_seconds": round(taken, 6),
        "verified": read == written,
    }


def _compile_ms(nest: Nest) -> float:
    """Milliseconds to compile and prove a nest once more, past what the first call loads."""
    start = time.perf_counter()
    compile_nest.__wrapped__(nest.source, nest.destination)
    return round((time.perf_counter() - start) * 1e3, 3)


def _measure(nest: Nest) -> float | None:
    """Milliseconds of the fused copy in anonymous memory, the fastest of three; None if it is too large."""
    if max(nest.source.nbytes, nest.destination.nbytes) > _MEASURE_MOST:
        return None
    read, write = (_blocks("", "", side) for side in (nest.source, nest.destination))
    data, memory = mmap.mmap(-1, nest.source.nbytes), mmap.mmap(-1, nest.destination.nbytes)
    data.write(bytes(nest.source.nbytes))  # mapped pages, not the one zero page
    taken = []
    for _ in range(4):  # the first maps the pages
        start = time.perf_counter()
        nest.run(data, memory, source_blocks=read, destination_blocks=write)
        taken.append(time.perf_counter() - start)
    return round(min(taken) * 1e3, 3)
