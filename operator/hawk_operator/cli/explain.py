"""What `hawk layout explain` says: a nest in numbers, and the table that people read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from hawk_agent.layouts import engine
from hawk_agent.plans import choose, gather_writes, key_plans, scatter_reads, strategies
from hawk_agent.plans.strategies import LOCAL, REMOTE
from hawk_operator.cli.output import rows

if TYPE_CHECKING:
    from hawk_agent.layouts import Layout, Nest
    from hawk_agent.layouts.loops import Program
    from hawk_agent.plans import Costs, KeyPlan, Limits
    from hawk_agent.plans.keys import Key


def describe(nest: Nest, limits: Limits, costs: Costs) -> dict[str, Any]:
    """Everything that `explain` prints, as plain values with their units in the keys."""
    found = strategies(nest, costs, limits)
    writes, reads = gather_writes(nest, limits), scatter_reads(nest, limits)
    return {
        "source": _side(nest.source),
        "destination": _side(nest.destination),
        "engine": engine(),
        "payload_bytes": nest.payload_nbytes,
        "padding_bytes": sum(zero.nbytes for zero in nest.zeros),
        "runs": nest.runs,
        "nest": [_program(move) for move in nest.moves],
        "work_requests": writes.work_requests,
        "sges": writes.sges,
        "scatter_reads": reads.work_requests,
        "scatter_sges": reads.sges,
        "keys": [_keys(plan) for plan in key_plans(nest, limits)],
        "strategies": [
            {
                "name": strategy.name,
                "predicted_ms": round(strategy.seconds * 1e3, 3),
                "limited_by": strategy.limited_by,
                "work_requests": strategy.work_requests,
                "sges": strategy.sges,
                "keys": strategy.keys,
                "rkeys": strategy.remote_keys,
                "refused": strategy.refused or None,
            }
            for strategy in found
        ],
        "chosen_local": choose(found, among=LOCAL).name,
        "chosen_remote": choose(found, among=REMOTE).name,
    }


def _side(layout: Layout) -> dict[str, Any]:
    return {
        "notation": str(layout.notation),
        "sizes": layout.sizes,
        "dtype": layout.dtype,
        "bytes": layout.nbytes,
        "fingerprint": layout.fingerprint,
    }


def _program(program: Program) -> dict[str, Any]:
    return {
        "source_offset_bytes": program.source,
        "destination_offset_bytes": program.destination,
        "run_bytes": program.run,
        "loops": [
            {
                "count": loop.count,
                "source_stride_bytes": loop.source,
                "destination_stride_bytes": loop.destination,
                "source_table_step": loop.source_step,
                "destination_table_step": loop.destination_step,
            }
            for loop in program.loops
        ],
    }


def _shape(key: Key | None) -> dict[str, int] | None:
    if key is None:
        return None
    return {"entries": key.entries, "bytes": key.nbytes, "skip_bytes": key.skip, "repeat": key.repeat}


def table(answer: dict[str, Any]) -> Group:
    """The answer of `describe` for people."""
    pair = f"{answer['source']['notation']}  ->  {answer['destination']['notation']}"
    facts = (
        f"{answer['source']['dtype']}, {answer['payload_bytes']:,} bytes"
        f" and {answer['padding_bytes']:,} of padding"
        f"; engine {answer['engine']}; compiled and proved in {answer['compile_ms']} ms"
    )
    parts: list[Any] = [Text(pair), Text(facts), ""]
    for number, move in enumerate(answer["nest"], 1):
        loops = [
            (
                f"{loop['count']:,}",
                _stride(loop["source_stride_bytes"], loop["source_table_step"]),
                _stride(loop["destination_stride_bytes"], loop["destination_table_step"]),
            )
            for loop in move["loops"]
        ]
        run = f"{move['run_bytes']:,}"
        title = f"nest, part {number}" if len(answer["nest"]) > 1 else "nest"
        parts += [rows(title, ["#loop", "#source", "#destination"], [*loops, ("run", run, run)]), ""]
    parts.append(
        f"gather writes: {answer['work_requests']:,} of {answer['sges']:,} pieces; "
        f"scatter reads: {answer['scatter_reads']:,} of {answer['scatter_sges']:,} pieces"
    )
    parts += [_keys_line(keys) for keys in answer["keys"]]
    measured = any("measured_ms" in strategy for strategy in answer["strategies"])
    columns = ["strategy", "#predicted ms", *(["#measured ms"] if measured else []), "limited by", ""]
    lines = [
        (
            strategy["name"],
            f"{strategy['predicted_ms']:,.3f}",
            *([strategy.get("measured_ms")] if measured else []),
            strategy["limited_by"],
            strategy["refused"] or _mark(strategy["name"], answer),
        )
        for strategy in answer["strategies"]
    ]
    return Group(*parts, "", rows(None, columns, lines))


def _keys_line(keys: dict[str, Any]) -> str:
    line = (
        f"{keys['kind']} keys: {keys['writes']:,} writes of {keys['write_bytes']:,} bytes, "
        f"{keys['keys']:,} keys, {keys['rkeys']:,} rkeys to exchange, {keys['invalidations']:,} invalidations"
    )
    return f"{line}; refused: {keys['refused']}" if keys["refused"] else line


def _stride(stride: int, step: int) -> str:
    return f"table +{step}" if step else f"{stride:,}"


def _mark(name: str, answer: dict[str, Any]) -> str:
    chosen = {answer["chosen_local"]: "chosen on one host", answer["chosen_remote"]: "chosen between hosts"}
    return chosen.get(name, "")


def _keys(plan: KeyPlan) -> dict[str, Any]:
    return {
        "kind": plan.name,
        "writes": plan.writes,
        "write_bytes": plan.write_nbytes,
        "keys": plan.source_keys + plan.destination_keys,
        "source_keys": plan.source_keys,
        "rkeys": plan.destination_keys,
        "invalidations": plan.invalidations,
        "source_shape": _shape(plan.source),
        "destination_shape": _shape(plan.destination),
        "refused": plan.refused or None,
    }
