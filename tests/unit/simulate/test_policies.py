"""The baselines' rules do what their documentation says, and comparisons are fair and repeatable."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hawk_api.v1alpha1.enums import Role
from hawk_cli.app import build
from hawk_cli.commands.simulate import BOUNDS
from hawk_planner.simulate.baselines import dynamo
from hawk_planner.simulate.engine import ClusterSettings
from hawk_planner.simulate.generate import RAG, Stream, steady
from hawk_planner.simulate.meter import Gauges
from hawk_planner.simulate.policies import RoleLook, RuleState, aibrix, hpa, keda, llm_d
from hawk_planner.simulate.run import Arena, UnknownPolicyError, check_policy, compare_policies
from tests.unit.sizing.pools import pool

IDLE = Gauges(0.0, 0, 0, 0, 0, 0.0, 0.0)


def look(present: int, use: float, now: float = 0.0, ready: int | None = None, **gauges) -> RoleLook:
    found = replace(IDLE, **gauges)
    return RoleLook(Role.DECODE, present, present if ready is None else ready, use, found, now)


def test_hpa_is_proportional_within_its_tolerance_and_its_rates():
    assert hpa(look(4, 1.08), RuleState()) == 4
    assert hpa(look(4, 1.5), RuleState()) == 6
    assert hpa(look(2, 9.0), RuleState()) == 6
    assert hpa(look(20, 9.0), RuleState()) == 40


def test_hpa_shrinks_to_the_highest_of_five_minutes_only():
    memory = RuleState()
    assert hpa(look(4, 1.0, 0.0), memory) == 4
    assert hpa(look(4, 0.25, 290.0), memory) == 4
    assert hpa(look(4, 0.25, 301.0), memory) == 1


def test_hpa_counts_pods_that_are_not_ready_as_idle():
    assert hpa(look(4, 1.5, ready=2), RuleState()) == 4


def test_keda_looks_every_half_minute():
    memory = RuleState()
    assert keda(look(2, 2.0, 0.0), memory) == 4
    assert keda(look(2, 2.0, 15.0), memory) == 2
    assert keda(look(2, 2.0, 30.0), memory) == 4


def test_llm_d_moves_one_at_a_time_by_saturation():
    assert llm_d(look(3, 0.5, kv_usage=0.75), RuleState()) == 4
    assert llm_d(look(3, 0.5, decode_waiting=9), RuleState()) == 4
    assert llm_d(look(3, 0.2, kv_usage=0.1), RuleState()) == 2
    assert llm_d(look(3, 0.2, ready=2, kv_usage=0.79), RuleState()) == 3


def test_aibrix_averages_three_minutes_and_cools_down():
    memory = RuleState()
    assert aibrix(look(4, 3.0, 0.0), memory) == 8
    assert aibrix(look(8, 0.0, 200.0), memory) == 4
    assert aibrix(look(4, 0.0, 260.0), memory) == 4


@pytest.mark.parametrize("name", ["fastest", "fixed:", "fixed:0:1", "fixed:1:x"])
def test_an_unknown_policy_is_refused_by_name(name):
    with pytest.raises(UnknownPolicyError, match=name):
        check_policy(name)


@pytest.mark.slow
def test_steady_traffic_is_met_without_a_turn_and_near_the_clairvoyant():
    trace = Stream(steady(RAG, 3.0), 7).trace("steady", 800.0)
    problem = pool(itl=None)

    ours, best, known = compare_policies(
        Arena.of(trace, problem, ClusterSettings()), ["hawk", "static-best", "oracle"]
    )

    assert ours.direction_changes == 0
    assert ours.of_attainable > 0.95
    assert known.cost_usd <= best.cost_usd
    assert ours.cost_usd < 2 * known.cost_usd


@pytest.mark.slow
def test_dynamos_own_planner_follows_the_load():
    """Its own code, in an environment that is made at the first use."""
    trace = Stream(steady(RAG, 4.0), 7).trace("steady", 400.0)
    problem = pool()
    arena = Arena(trace, problem, ClusterSettings(initial={"prefill": 1, "decode": 8}), 100.0)
    host = dynamo.Host()
    try:
        first, second = (
            arena.judge(dynamo.Dynamo(problem, host, dynamo.DynamoSettings(interval=60, ttft_ms=1200.0)))
            for _ in range(2)
        )
    finally:
        host.close()

    assert first.timeline == second.timeline
    assert first.timeline[-1][1]["prefill"] > 1
    assert 1 <= first.timeline[-1][1]["decode"] < 16


def command(*words: str):
    return CliRunner().invoke(build(["simulate"]), ["simulate", *words])


def test_the_command_prints_the_same_json_every_time_with_the_promised_keys():
    words = "--trace", "rag", "--seconds", "120", "--policy", "hawk", "--policy", "fixed:1:2", "-o", "json"
    first, second = command(*words), command(*words)

    assert first.exit_code == 0, first.output
    assert first.stdout == second.stdout
    found = json.loads(first.stdout)
    assert list(found) == ["hawk", "fixed:1:2"]
    for one in found.values():
        assert one.keys() >= {"slo_attainment", "cost_usd", "cost_over_oracle", "direction_changes"}
        assert 0 <= one["slo_attainment"] <= one["attainable"] <= 1


def test_the_command_writes_a_picture(tmp_path):
    target = tmp_path / "ratio.png"
    done = command("--trace", "rag", "--seconds", "60", "--no-oracle", "--plot", str(target))

    assert done.exit_code == 0, done.output
    assert target.read_bytes().startswith(b"\x89PNG")


CPU_POOL = str(Path(__file__).parents[3] / "docs/samples/opt-125m-cpu.yaml")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--trace", "nowhere.csv"), "--trace: nowhere.csv: No such file"),
        (("--trace", "rag", "--policy", "best"), "--policy: 'best' is unknown"),
        (("--trace", "rag", "--seconds", "nan"), "--seconds: nan is out of range; give a number from 1"),
        (
            ("--trace", "rag", "--ttft-stretch", "-1"),
            "--ttft-stretch: -1 is out of range; give a number from",
        ),
        (("--trace", "rag", "--plot", "x.pdf"), "--plot: x.pdf ends in neither .png nor .svg; use"),
        (("--trace", "rag", "--plot", "nowhere/x.png"), "--plot: nowhere/x.png: No such file"),
        (("--trace", "rag", "--plot", "/proc/x.png"), "--plot: /proc/x.png: "),
        (("--trace", "rag", "--ttft-stretch", "0"), "--ttft-stretch: 0 is out of range"),
        (("--trace", "rag", "--seconds", "1"), "too short to score; it needs 40 s from the first request"),
        (("--trace", "rag", "--pool", CPU_POOL), "--pool: group prefill has no acceleratorClass; name one"),
        (("--trace", "rag", "--policy", "fixed:0:1"), "--policy: 'fixed:0:1' has no ratio of counts"),
        (("--trace", "rag", "--pool", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_the_command_names_what_is_wrong(words, said):
    done = command(*words)

    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stdout == ""
    assert done.stderr.count(";") <= 2


@pytest.mark.parametrize("option", sorted(BOUNDS))
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1", "1e300", "-1e300"])
def test_no_number_is_simulated_that_is_out_of_range(option, value):
    name = "--" + option.replace("_", "-")
    done = command("--trace", "rag", f"{name}={value}")

    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {name}: ")
    assert "give a number from" in done.stderr


def test_a_trace_of_one_request_is_too_short(tmp_path):
    trace = tmp_path / "one.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,10,10\n")
    done = command("--trace", str(trace))

    assert done.exit_code == 2
    assert "one.csv spans 0 s, too short to score" in done.stderr


def test_a_picture_where_a_folder_is_is_refused_before_the_runs(tmp_path):
    folder = tmp_path / "ratio.svg"
    folder.mkdir()
    done = command("--trace", "rag", "--plot", str(folder))

    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: --plot: {folder}: Is a directory; ")


def test_a_table_is_printed_though_its_picture_fails(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hawk_planner.simulate.plot.over_time", broken)
    target = tmp_path / "ratio.svg"
    done = command("--trace", "rag", "--seconds", "60", "--no-oracle", "--plot", str(target))

    assert done.exit_code == 1
    assert "hawk" in done.stdout
    assert "No space left on device" in done.stderr
    assert not target.exists()
