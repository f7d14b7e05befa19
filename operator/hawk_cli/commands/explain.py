"""The output of `hawk layout explain`: a nest in numbers, and the table that people read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rich.console import Group
from rich.text import Text

from hawk_agent.layouts.engines import engine
from hawk_agent.plans import (
    applicable_strategies,
    choose_strategy,
    gather_writes,
    keeping,
    key_plans,
    scatter_reads,
)
from hawk_agent.plans.strategies import KEYED, LOCAL, REMOTE
from hawk_agent.transports.verbs import mlx5_model
from hawk_cli.support.output import rows

if TYPE_CHECKING:
    from hawk_agent.layouts import Layout, Nest
    from hawk_agent.layouts.loops import Program
    from hawk_agent.plans import Costs, KeyPlan, RequestLimits
    from hawk_agent.plans.keys import StridedKey


UNSEEN: Final = (
    "strided keys need an mlx5 card; they were built for its driver's structures and executed on a model, "
    "hardware has not been seen, and no agent posts them yet"
)
PROVE_MOST: Final = 64 << 20
"""Bytes of either side up to which plans of keys are executed on the model."""


def describe_nest(nest: Nest, limits: RequestLimits, costs: Costs) -> dict[str, Any]:
    """Everything that `explain` prints, as plain values with their units in the keys."""
    found = applicable_strategies(nest, costs, limits)
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
        "keys": [_keys(nest, plan, limits) for plan in key_plans(nest, limits)],
        "keys_hardware_seen": False,
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
        "chosen_local": choose_strategy(found, among=LOCAL).name,
        "chosen_remote": choose_strategy(found, among=REMOTE).name,
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


def _shape(key: StridedKey | None) -> dict[str, int] | None:
    if key is None:
        return None
    return {"entries": key.entries, "bytes": key.nbytes, "skip_bytes": key.skip, "repeat": key.repeat}


def prove_keys(nest: Nest, limits: RequestLimits) -> dict[str, bool | None]:
    """Execute each possible plan of keys on the model of a card and compare with the fused copy.

    None for all of them where a side is larger than `PROVE_MOST`.
    """
    plans = [plan for plan in key_plans(nest, limits) if not plan.refused]
    if max(nest.source.nbytes, nest.destination.nbytes) > PROVE_MOST:
        return dict.fromkeys((plan.name for plan in plans), None)
    source = np.random.default_rng(0).integers(0, 256, nest.source.nbytes, np.uint8)
    pools = (nest.source.table, nest.destination.table)
    tables = [None if pool is None else np.arange(pool.size)[::-1].copy() for pool in pools]
    expected = np.zeros(nest.destination.nbytes, np.uint8)
    nest.run(source, expected, source_blocks=tables[0], destination_blocks=tables[1])
    found: dict[str, bool | None] = {}
    for plan in plans:
        actual = np.zeros_like(expected)
        done = mlx5_model.execute_plan(plan, nest, source, actual, (tables[0], tables[1]), limits=limits)
        counts = (done.writes, done.source_keys + done.destination_keys)
        found[plan.name] = counts == (plan.writes, plan.invalidations) and np.array_equal(actual, expected)
    return found


def explanation_table(answer: dict[str, Any]) -> Group:
    """The answer of `describe_nest` for people."""
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
    if any(keys["keys"] for keys in answer["keys"]):
        parts.append(f"note: {UNSEEN}")
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
    parts += ["", rows(None, columns, lines)]
    if answer["not_measured"]:
        parts += ["", f"not measured: {answer['not_measured']}"]
    return Group(*parts)


def _keys_line(keys: dict[str, Any]) -> str:
    line = (
        f"{keys['kind']} keys: {keys['writes']:,} writes of {keys['write_bytes']:,} bytes, "
        f"{keys['keys']:,} keys, {keys['rkeys']:,} rkeys to exchange, {keys['invalidations']:,} invalidations"
    )
    if keys["refused"]:
        return f"{line}; refused: {keys['refused']}"
    if keys["keys"] and keys["kept_refused"]:
        line += f"; not kept: {keys['kept_refused']}"
    elif keys["keys"]:
        line += f"; kept for all requests: {keys['kept_keys']:,}, {keys['card_bytes']:,} bytes of the cards"
    return line + _PROVED[keys.get("proved_on_model")]


_PROVED: Final = {None: "", True: "; on the model: bytes equal", False: "; on the model: BYTES DIFFER"}


def _stride(stride: int, step: int) -> str:
    return f"table +{step}" if step else f"{stride:,}"


def _mark(name: str, answer: dict[str, Any]) -> str:
    chosen = {answer["chosen_local"]: "chosen on one host", answer["chosen_remote"]: "chosen between hosts"}
    return chosen.get(name, "planned only" if name in KEYED else "")


def _keys(nest: Nest, plan: KeyPlan, limits: RequestLimits) -> dict[str, Any]:
    kept = keeping(nest, plan, limits)
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
        "kept_keys": kept.kept,
        "moving_keys": kept.moving,
        "card_bytes": kept.card_nbytes,
        "kept_refused": kept.refused or None,
        "refused": plan.refused or None,
    }
