"""hawk layout ranks: the heads that each prefill rank sends to each decode rank (tensor parallelism)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hawk_agent.layouts import LayoutError, head_exchanges
from hawk_cli.support.output import Output, OutputOption, emit_output, fail, rows

if TYPE_CHECKING:
    from rich.table import Table

_MOST = 1 << 16


def list_ranks(
    *,
    heads: Annotated[int, typer.Option(min=1, max=_MOST, help="Key-value heads of the model.")],
    source_ranks: Annotated[int, typer.Option(min=1, max=_MOST, help="Tensor-parallel ranks of prefill.")],
    destination_ranks: Annotated[
        int, typer.Option(min=1, max=_MOST, help="Tensor-parallel ranks of decode.")
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """List the heads that each prefill rank sends to each decode rank, and where each rank holds them.

    Windows are [start, stop) on a rank's own head axis; they narrow its layout.
    """
    try:
        found = head_exchanges(heads, source_ranks, destination_ranks)
    except LayoutError as error:
        fail(f"--source-ranks, --destination-ranks: {error}")

    def table() -> Table:
        lines = (
            (
                one.source_rank,
                one.destination_rank,
                *(f"[{a}, {b})" for a, b in (one.heads, one.source, one.destination)),
            )
            for one in found
        )
        return rows(
            None, ("#from rank", "#to rank", "heads", "window at the source", "at the destination"), lines
        )

    emit_output({"exchanges": found}, output, table)
