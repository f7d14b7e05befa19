"""Measured engine times: read, interpolated inside their range, refused outside, and named in the plan."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hawk_planner.payoff.aiconfigurator import Asked, rows
from hawk_planner.payoff.candidate import Feasibility, ServingMode
from hawk_planner.payoff.checks import InputError, MissingInputError
from hawk_planner.payoff.measured import Row, as_csv, closest, read_measured, tables
from hawk_planner.payoff.plan import candidates
from hawk_planner.payoff.split import decode_side
from hawk_planner.payoff.times import prefill_seconds, step_timer
from hawk_planner.payoff.turning import turning_points
from hawk_planner.perf import steps

from .pools import FEW, scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hawk_planner.payoff.scenario import Scenario

MODEL = "llama-3.1-8b"
ROWS = [
    *(Row(MODEL, "gpu", 1, "prefill", ms, tokens=tokens) for tokens, ms in ((1024, 22.0), (4096, 90.0))),
    *(
        Row(MODEL, "npu", 1, "decode", ms, batch=batch, context=context)
        for batch, context, ms in ((2, 1024, 14.0), (128, 1024, 30.0), (2, 4096, 15.0), (128, 4096, 60.0))
    ),
]


def with_times(here: Scenario, found: Sequence[Row] = ROWS) -> Scenario:
    """The scenario with measured times on both sides."""
    known = tables(found, MODEL)
    for name in ("prefill", "decode"):
        part = getattr(here, name)
        replica = part.replica
        measured = closest(known, replica.device.name, replica.devices)
        here = replace(here, **{name: replace(part, replica=replace(replica, measured=measured))})
    return here


def test_a_measured_time_stands_for_itself() -> None:
    """At each measured point the planner's time is the measured one, whatever the roofline says."""
    for tokens, ms in ((1024, 22.0), (4096, 90.0)):
        here = with_times(scenario(prompt_tokens=tokens))
        assert prefill_seconds(here, here.prefill.replica) == pytest.approx(ms / 1e3)
    here = with_times(scenario(prompt_tokens=1000, output_tokens=48))
    step = here.work.decode(1024)
    timer = step_timer(here, here.decode.replica, step, here.workload.mean_context)
    assert here.workload.mean_context == 1024
    assert timer(2) == pytest.approx(14e-3)
    assert timer(128) == pytest.approx(30e-3)


@FEW
@given(st.floats(1024, 4096), st.floats(2, 128))
def test_between_points_times_are_linear(context: float, batch: float) -> None:
    (table,) = (one for one in tables(ROWS, MODEL) if one.device == "npu")
    low = 14 + (context - 1024) / 3072 * 1
    high = 30 + (context - 1024) / 3072 * 30
    expected = low + (batch - 2) / 126 * (high - low)
    assert table.step_seconds(batch, context) * 1e3 == pytest.approx(expected)


@pytest.mark.parametrize(("batch", "context"), [(129, 2048), (1, 2048), (64, 1023), (64, 4097)])
def test_outside_nothing_is_said(batch: float, context: float) -> None:
    (table,) = (one for one in tables(ROWS, MODEL) if one.device == "npu")
    with pytest.raises(MissingInputError, match="outside the measured"):
        table.step_seconds(batch, context)


def test_a_plan_outside_is_unknown_and_names_the_range() -> None:
    (one,) = (c for c in candidates(with_times(scenario(prompt_tokens=8192))) if c.kind is ServingMode.SPLIT)
    assert one.standing is Feasibility.UNKNOWN
    assert "prefill of 8,192 tokens lies outside the measured 1,024 to 4,096" in one.problem


def test_no_batch_is_larger_than_what_was_measured() -> None:
    here = with_times(scenario(requests_per_second=1000.0))
    assert decode_side(here, here.decode.replica, 1, 0.0).batch <= 128


def test_turning_points_stop_where_measurements_end() -> None:
    here = with_times(scenario(requests_per_second=30.0))
    for turn in turning_points(here):
        if turn.name == "prompt":
            assert all(value is None or 1024 <= value <= 4096 for value in (turn.below, turn.above))


def test_measured_times_that_are_the_rooflines_change_nothing() -> None:
    here = scenario(requests_per_second=20.0)
    step = here.work.decode(here.workload.mean_context)
    plain = steps.step_timer(step, here.decode.replica.rates(here.efficiency))
    context = int(here.workload.mean_context)
    same = [
        Row(MODEL, "gpu", 1, "prefill", 1e3 * prefill_seconds(here, here.prefill.replica), tokens=2048),
        *(Row(MODEL, "npu", 1, "decode", 1e3 * plain(b), batch=b, context=context) for b in range(1, 257)),
    ]
    with_same = {one.title: one for one in candidates(with_times(here, same))}
    for one in candidates(here):
        other = with_same[one.title]
        assert [pool.replicas for pool in other.pools] == [pool.replicas for pool in one.pools]
        assert other.usd_per_million_tokens == one.usd_per_million_tokens


def test_the_same_rows_in_every_form(tmp_path: Path) -> None:
    plain = as_csv(ROWS)
    bodies = [
        {
            name: value if name in ("model", "acceleratorClass", "phase", "source") else float(value)
            for name, value in row.items()
            if value
        }
        for row in csv.DictReader(plain.splitlines())
    ]
    found = []
    for name, text in (("t.csv", plain), ("t.json", json.dumps(bodies)), ("t.yaml", yaml.safe_dump(bodies))):
        path = tmp_path / name
        path.write_text(text)
        found.append([replace(row, source="") for row in read_measured(path)])
    assert found[0] == found[1] == found[2] == ROWS


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ms": "fast"}, "row 1: ms 'fast' is no number above 0"),
        ({"ms": -1}, "row 1: ms -1 is no number above 0"),
        ({"ms": None}, "row 1: ms is missing"),
        ({"phase": "train"}, "row 1: phase 'train' is neither prefill nor decode"),
        ({"tokens": None}, "row 1: tokens is missing"),
        ({"tokens": 0}, "row 1: tokens 0 is no number above 0"),
        ({"color": "red"}, "row 1: color is no column"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    body = {"model": MODEL, "acceleratorClass": "gpu", "phase": "prefill", "tokens": 1024, "ms": 20} | change
    path = tmp_path / "times.json"
    path.write_text(json.dumps([body]))
    with pytest.raises(InputError) as caught:
        read_measured(path)
    assert problem in caught.value.problem


def test_a_wrong_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no times of gpt-9, only of: llama"):
        tables(ROWS, "gpt-9")
    with pytest.raises(InputError, match="is there twice"):
        tables([*ROWS, ROWS[0]], MODEL)
    with pytest.raises(InputError, match="no time for batch 128 at context 4096"):
        tables(ROWS[:-1], MODEL)
    for name, text in (("t.txt", ""), ("t.json", "{}"), ("t.json", "nonsense"), ("t.yaml", "a: ]")):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(InputError, match="--measured"):
            read_measured(path)
    with pytest.raises(InputError, match="--measured"):
        read_measured(tmp_path / "none.csv")


@dataclass
class _Estimated:
    """AIConfigurator 0.12.0's answers for Llama 3.1 8B on one H100 with vLLM 0.24.0, in ms."""

    ttft: float = 0.0
    tpot: float = 0.0
    backend_version: str = "0.24.0"


RECORDED = {
    ("static_ctx", 1, 512, 1): 12.0193,
    ("static_ctx", 1, 2048, 1): 43.5079,
    ("static_gen", 1, 1024, 2): 6.18128,
    ("static_gen", 64, 1024, 2): 10.3452,
}
ASKED = Asked(
    MODEL, "meta-llama/Meta-Llama-3.1-8B", "h100-sxm5", "h100_sxm", "vllm", 1, (512, 2048), (1, 64), (1024,)
)


def test_estimates_become_rows() -> None:
    def estimate(model_path: str, system_name: str, **options: Any) -> _Estimated:
        assert (model_path, system_name) == (ASKED.model_path, "h100_sxm")
        assert (options["tp_size"], options["backend_name"]) == (1, "vllm")
        key = options["mode"], options["batch_size"], options["isl"], options["osl"]
        ms = RECORDED[key]
        return _Estimated(ttft=ms) if key[0] == "static_ctx" else _Estimated(tpot=ms)

    made = rows(estimate, "0.12.0", ASKED)
    assert [row.milliseconds for row in made] == list(RECORDED.values())
    assert {row.source for row in made} == {"AIConfigurator 0.12.0, h100_sxm, vllm 0.24.0"}
    (table,) = tables(made, MODEL)
    assert table.prefill_span == "512 to 2,048 tokens"


@pytest.mark.slow
def test_the_real_aiconfigurator_is_understood() -> None:
    """In its own environment, whose Python HAWK_AICONFIGURATOR names: the package brings 850 MB of tables."""
    python = os.environ.get("HAWK_AICONFIGURATOR")
    if not python:
        pytest.skip("HAWK_AICONFIGURATOR names no Python with aiconfigurator 0.12 installed")
    root = Path(__file__).parents[3]
    script = (
        "from hawk_planner.payoff.aiconfigurator import Asked, estimator, rows\n"
        "from hawk_planner.payoff.measured import as_csv\n"
        f"print(as_csv(rows(*estimator(), {ASKED!r})))\n"
    )
    done = subprocess.run(
        [python, "-c", script],
        env={**os.environ, "PYTHONPATH": f"{root / 'operator'}:{root / 'crds'}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    lines = list(csv.DictReader(done.stdout[done.stdout.index("model,acceleratorClass") :].splitlines()))
    for line, ms in zip(lines, RECORDED.values(), strict=True):
        assert float(line["ms"]) == pytest.approx(ms, rel=0.2)
