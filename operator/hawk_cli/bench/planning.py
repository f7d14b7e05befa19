"""The cost of planning: compiling and proving a nest, finding it again, pricing and choosing a way."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.plans import Costs, applicable_strategies, choose_strategy
from hawk_agent.plans.strategies import LOCAL, REMOTE
from hawk_cli.bench.copying import named
from hawk_cli.bench.measure import spread

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTHS = (32_768, 131_072)
MODEL = {"l": 80, "c": 2, "h": 8, "d": 128}
"""The KV cache of a 70B model: 80 layers of keys and values, 8 heads of 128 features."""


def bench_plan(rounds: int, *, source: str = "row-major", target: str = "tiles-16x16") -> dict[str, Any]:
    """Measure, and return what `hawk bench plan` prints: milliseconds at each length, and what was chosen.

    Raises:
        LayoutError: the pair can't be translated.
    """
    answer: dict[str, Any] = {"rounds": rounds, "source": source, "destination": target}
    for tokens in LENGTHS:
        sizes = {**MODEL, "s": tokens}
        pair = (Layout.preset(source, sizes), Layout.preset(target, sizes))
        nest = compile_nest(*pair)
        found = applicable_strategies(nest, Costs())
        for name, action in (
            ("compile", lambda pair=pair: compile_nest.__wrapped__(*pair)),
            ("cached", lambda pair=pair: compile_nest(*pair)),
            ("choose", lambda nest=nest: choose_strategy(applicable_strategies(nest, Costs()))),
        ):
            answer |= named(f"{name}_ms_at_{tokens}_tokens", spread(_milliseconds(action, rounds)))
        answer[f"pieces_at_{tokens}_tokens"] = nest.runs
        answer[f"loops_at_{tokens}_tokens"] = sum(len(move.loops) for move in nest.moves)
        answer[f"chosen_on_one_host_at_{tokens}_tokens"] = choose_strategy(found, among=LOCAL).name
        answer[f"chosen_over_a_card_at_{tokens}_tokens"] = choose_strategy(found, among=REMOTE).name
    short, long = (answer[f"compile_ms_at_{tokens}_tokens"] for tokens in LENGTHS)
    answer["compile_growth"] = round(long / short, 3)
    return answer


def _milliseconds(action: Callable[[], object], rounds: int) -> list[float]:
    """Several turns a round, so that the clock's own cost vanishes; the round's median."""
    taken = []
    for _ in range(rounds):
        turns = []
        for _ in range(9):
            start = time.perf_counter()
            action()
            turns.append((time.perf_counter() - start) * 1e3)
        taken.append(median(turns))
    return taken
