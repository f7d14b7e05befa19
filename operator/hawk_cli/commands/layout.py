"""hawk layout: translate a KV cache from one layout to another, or explain the translation."""

from __future__ import annotations

import math
import mmap
import os
import re
import time
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from hawk_agent.layouts import PRESETS, Layout, LayoutError, Nest, compile_nest
from hawk_agent.layouts.buffers import as_table
from hawk_agent.layouts.elements import BYTES
from hawk_agent.layouts.engines import engine
from hawk_agent.layouts.notation import AXES, parse_notation
from hawk_agent.layouts.presets import unknown_preset_message
from hawk_agent.plans import Costs, RequestLimits, calibrate_costs
from hawk_cli.commands.explain import PROVE_MOST, describe_nest, explanation_table, prove_keys
from hawk_cli.commands.ranks import list_ranks
from hawk_cli.support.files import mapped, replacing
from hawk_cli.support.output import Output, OutputOption, emit_output, fail, rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_agent.layouts.buffers import Blocks

_MEASURE_MOST = 1 << 30
_MEASURE_UNASKED = 64 << 20
_NAME = re.compile(r"(?=.*[A-Za-z].*[A-Za-z])[\w-]+")
_NUMBER = re.compile(r"[0-9]{1,99}")

app = typer.Typer(
    help="Translate a KV cache between layouts, or explain the translation.", no_args_is_help=True
)


app.command("ranks")(list_ranks)


def _preset_names() -> list[tuple[str, str]]:
    return [(name, preset.about) for name, preset in PRESETS.items()]


def _dtype_names() -> list[str]:
    return list(BYTES)


FromOption = Annotated[
    str,
    typer.Option(
        "--from",
        help="The source: a preset (listed by hawk layout presets), or a notation such as 'b h s d'.",
        autocompletion=_preset_names,
    ),
]
ToOption = Annotated[
    str, typer.Option("--to", help="The destination: a preset or a notation.", autocompletion=_preset_names)
]
SizesOption = Annotated[
    str, typer.Option(help="Sizes of axes and levels for both: b=1,h=8,s=37,d=128,s0=16,d0=16.")
]
FromSizesOption = Annotated[str, typer.Option(help="Sizes of the source only, where they differ.")]
ToSizesOption = Annotated[str, typer.Option(help="Sizes of the destination only, where they differ.")]
DtypeOption = Annotated[
    str, typer.Option(help=f"Element type: {', '.join(BYTES)}.", autocompletion=_dtype_names)
]
BlocksOption = Annotated[
    str, typer.Option(help="Block table: page numbers in order, such as 3,0,2. Default 0,1,2...")
]


@app.command("convert")
def convert_file(
    source_path: Annotated[Path, typer.Argument(metavar="IN", help="A raw file in the source's layout.")],
    target_path: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="The file to write. A new file is private; an existing one keeps its mode.",
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
        bool, typer.Option(help="Zero-pad the tails of pages and tiles; otherwise sizes must divide.")
    ] = True,
    output: OutputOption = Output.TABLE,
) -> None:
    """Translate a raw file into another layout and verify the result with a digest."""
    try:
        nest = _nest(source, target, sizes, own=(from_sizes, to_sizes), dtype=dtype, padding=padding)
        tables = (
            _blocks("--from-blocks", from_blocks, nest.source),
            _blocks("--to-blocks", to_blocks, nest.destination),
        )
        answer = _translate_file(nest, source_path, target_path, *tables)
    except LayoutError as error:
        fail(str(error))
    emit_output(answer, output, lambda: rows(None, ["", ""], [(key, answer[key]) for key in answer]))


@app.command("explain")
def explain_translation(
    *,
    source: FromOption,
    target: ToOption,
    sizes: SizesOption = "",
    from_sizes: FromSizesOption = "",
    to_sizes: ToSizesOption = "",
    dtype: DtypeOption = "float16",
    max_sge: Annotated[int, typer.Option(help="Scatter/gather entries (SGEs) of one work request.")] = 30,
    max_message_bytes: Annotated[int, typer.Option(help="Largest work request, bytes.")] = 1 << 30,
    link_gbps: Annotated[float, typer.Option(help="Link rate, Gb/s.")] = 400.0,
    key_uses: Annotated[int, typer.Option(help="Transfers per strided key, if it is kept.")] = 1,
    prove: Annotated[
        bool,
        typer.Option("--prove-keys", help="Execute strided keys on a model of the card (up to 64 MiB)."),
    ] = False,
    measure: Annotated[
        bool | None, typer.Option(help="Also run the fused copy (up to 1 GiB; by default up to 64 MiB).")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Explain a translation: its nest, its RDMA work requests, and a predicted time for each strategy."""
    counts = {"--max-sge": max_sge, "--max-message-bytes": max_message_bytes, "--key-uses": key_uses}
    for option, count in counts.items():
        if count < 1:
            fail(f"{option}: {count} is too small; give at least 1")
    if not (math.isfinite(link_gbps) and link_gbps > 0):
        fail(f"--link-gbps: {link_gbps} is not a link rate; give Gb/s above 0, such as 400")
    try:
        nest = _nest(source, target, sizes, own=(from_sizes, to_sizes), dtype=dtype)
        limits = RequestLimits(max_sge=max_sge, max_message_bytes=max_message_bytes)
        costs = calibrate_costs(Costs(link_bytes_per_s=link_gbps * 1e9 / 8, key_uses=key_uses))
        answer = describe_nest(nest, limits, costs)
    except LayoutError as error:
        fail(str(error))
    answer["compile_ms"] = _compile_ms(nest)
    if prove:
        proved = prove_keys(nest, limits)
        if None in proved.values():
            fail(f"--prove-keys: a side is larger than {PROVE_MOST} bytes; give fewer layers or tokens")
        for keys in answer["keys"]:
            keys["proved_on_model"] = proved.get(keys["kind"])
    answer["not_measured"] = None if measure is False else _too_large(nest, asked=bool(measure))
    if measure is not False and answer["not_measured"] is None:
        measured = _measure_copy(nest)
        for strategy in answer["strategies"]:
            strategy["measured_ms"] = measured if strategy["name"] == "fused-copy" else None
    emit_output(answer, output, lambda: explanation_table(answer))


@app.command("presets")
def list_presets(*, output: OutputOption = Output.TABLE) -> None:
    """List the layouts that have names: notation, page and tile sizes, and meaning."""
    known = [
        {"name": name, "notation": preset.notation, "sizes": dict(preset.sizes), "about": preset.about}
        for name, preset in PRESETS.items()
    ]
    lines = [(name, p.notation, _sizes(p.sizes), p.about) for name, p in PRESETS.items()]
    emit_output(
        {"presets": known}, output, lambda: rows(None, ("preset", "notation", "sizes", "meaning"), lines)
    )


def _sizes(sizes: Mapping[str, int]) -> str:
    return ",".join(f"{key}={value}" for key, value in sizes.items())


class _Side(NamedTuple):
    """One side's layout, the shared sizes that it took, and its axes that nothing gave a size."""

    layout: Layout
    taken: set[str]
    unsized: set[str]


def _nest(
    source: str, target: str, sizes: str, *, own: tuple[str, str], dtype: str, padding: bool = True
) -> Nest:
    shared = _pairs("--sizes", sizes)
    left = _side("--from", source, shared, _pairs("--from-sizes", own[0]), dtype)
    right = _side("--to", target, shared, _pairs("--to-sizes", own[1]), dtype)
    for key in shared:
        if key not in left.taken | right.taken:
            fail(f"--sizes: {key!r} is not an axis or level of {source!r} or {target!r}; remove it")
    _refuse_unsized(left, right)
    return compile_nest(left.layout, right.layout, padding=padding)


def _refuse_unsized(left: _Side, right: _Side) -> None:
    """Say which sizes are missing where the two sides differ only because one was left to its default."""
    missing = [
        axis
        for axis in AXES
        if axis in left.unsized | right.unsized
        and left.layout.extent(axis).size != right.layout.extent(axis).size
    ]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        add = ",".join(f"{axis}=..." for axis in missing)
        fail(f"--sizes: {' and '.join(missing)} {are} missing; add {add}")


def _side(option: str, text: str, shared: dict[str, int], own: dict[str, int], dtype: str) -> _Side:
    preset = PRESETS.get(text)
    if preset is None and _NAME.fullmatch(text):
        fail(
            f"{option}: {unknown_preset_message(text)}; "
            "or write a notation with spaces between its axes, such as 'b h s d'"
        )
    notation = preset.notation if preset else text
    try:
        names = {term.name for term in parse_notation(notation).terms} | set(AXES)
        taken = {key: value for key, value in shared.items() if key in names}
        sizes = {**(preset.sizes if preset else {}), **taken, **own}
        layout = Layout.parse(notation, sizes, dtype)
    except LayoutError as error:
        raise LayoutError(f"{option}: {error}") from error
    tops = {axis: levels[-1] for axis in AXES if (levels := layout.levels(axis))}
    unsized = {axis for axis, top in tops.items() if not {axis, f"{axis}{top.level}"} & sizes.keys()}
    return _Side(layout, set(taken), unsized)


def _pairs(option: str, text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = word.partition("=")
        if not equals or not _NUMBER.fullmatch(value.strip()) or key.strip() in found:
            fail(f"{option}: can't read {word!r}; write each size once, such as h=8,s=37")
        found[key.strip()] = int(value)
    return found


def _blocks(option: str, text: str, layout: Layout) -> Blocks:
    """A block table, checked before the files are mapped."""
    if layout.table is None:
        if text:
            fail(f"{option}: {str(layout.notation)!r} has no block table; remove it")
        return None
    if not text:
        return list(range(layout.table.size))
    words = [word.strip() for word in text.split(",")]
    if not all(_NUMBER.fullmatch(word) for word in words):
        fail(f"{option}: can't read {text!r}; write page numbers, such as 3,0,2")
    return as_table(option, layout, [int(word) for word in words], unique=option == "--to-blocks")


def _translate_file(
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
            fail(f"{target}: its digest would differ from the source's; memory or disk is faulty", 1)
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


def _too_large(nest: Nest, *, asked: bool) -> str | None:
    """Why the fused copy isn't measured, where it moves more than it may: less if nobody asked."""
    most, remedy = (
        (_MEASURE_MOST, "give fewer layers or tokens")
        if asked
        else (_MEASURE_UNASKED, f"--measure takes up to {_MEASURE_MOST >> 20:,} MiB")
    )
    larger = max(nest.source.nbytes, nest.destination.nbytes)
    return f"a side has {larger:,} bytes, more than {most >> 20:,} MiB; {remedy}" if larger > most else None


def _measure_copy(nest: Nest) -> float:
    """Milliseconds of the fused copy in anonymous memory, the fastest of three."""
    read, write = (_blocks("", "", side) for side in (nest.source, nest.destination))
    data, memory = mmap.mmap(-1, nest.source.nbytes), mmap.mmap(-1, nest.destination.nbytes)
    data.write(bytes(nest.source.nbytes))  # mapped pages, not the one zero page
    taken = []
    for _ in range(4):  # the first maps the pages
        start = time.perf_counter()
        nest.run(data, memory, source_blocks=read, destination_blocks=write)
        taken.append(time.perf_counter() - start)
    return round(min(taken) * 1e3, 3)
