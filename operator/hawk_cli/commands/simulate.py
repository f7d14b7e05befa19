"""hawk simulate: replay traffic through the operator's decision and other policies."""

from collections.abc import Mapping  # noqa: TC003 -- typer reads the annotations
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.table import Table

from hawk_api.catalogue import shipped
from hawk_api.checks import Severity
from hawk_api.models.resolve import resolve_geometry
from hawk_api.v1alpha1 import AcceleratorClass, AcceleratorClassSpec, HawkPool
from hawk_api.v1alpha1.enums import QueueOrder
from hawk_api.validation import validate_manifest
from hawk_cli.support.manifests import load_manifests
from hawk_cli.support.output import Output, OutputOption, emit_output, fail, rows
from hawk_planner.payoff.checks import InputError, within
from hawk_planner.payoff.draw import check_writable
from hawk_planner.simulate.course import BinnedLoad, Course
from hawk_planner.simulate.engine import ClusterSettings
from hawk_planner.simulate.generate import SCENARIOS, scenario
from hawk_planner.simulate.progress import watched
from hawk_planner.simulate.run import POLICIES, Arena, UnknownPolicyError, check_policy, compare_policies
from hawk_planner.simulate.sample import SAMPLE_POOL
from hawk_planner.simulate.score import Score
from hawk_planner.simulate.traces import Trace, TraceError, load_trace
from hawk_planner.sizing import Problem

BOUNDS = {
    "seconds": (1.0, 366 * 86_400.0),
    "startup_seconds": (0.0, 86_400.0),
    "link_gbps": (0.001, 1e6),
    "ttft_stretch": (0.001, 1e6),
}
"""The range of each number; a stretch of 0 would leave nothing of a pool's own objective to stretch."""

SHORTEST_S = 40.0
"""A trace's least span: a quarter tunes, and the rest holds two of the operator's decisions."""


def simulate_trace(
    *,
    trace: Annotated[
        str,
        typer.Option(
            help=f"A trace file (Azure, Mooncake, BurstGPT), or one of {', '.join(SCENARIOS)}.",
            autocompletion=lambda: list(SCENARIOS),
        ),
    ],
    pool: Annotated[
        Path | None, typer.Option(help="A HawkPool's manifest; by default a sample.", show_default=False)
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A policy: fixed:A:B, {', '.join(POLICIES)}; may be repeated.",
            show_default="hawk",
            autocompletion=lambda: list(POLICIES),
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of generated traffic.")] = 1,
    seconds: Annotated[
        float, typer.Option(help="Length of generated traffic, and of a trace at most, seconds.")
    ] = 3600.0,
    startup_seconds: Annotated[
        float, typer.Option(help="Time until a requested worker is ready, seconds.")
    ] = 60.0,
    link_gbps: Annotated[float, typer.Option(help="Link rate of a prefill worker, Gb/s.")] = 360.0,
    ttft_stretch: Annotated[float, typer.Option(help="objectives.ttft.stretch, if the pool has none.")] = 2.0,
    queue_order: Annotated[
        QueueOrder | None,
        typer.Option(
            help="Order of waiting prompts; by default the pool's traffic.queueOrder.", show_default=False
        ),
    ] = None,
    no_oracle: Annotated[
        bool, typer.Option("--no-oracle", help="Skip the oracle and cost_over_oracle (faster).")
    ] = False,
    timeline: Annotated[bool, typer.Option(help="Add each policy's replicas over time (JSON).")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Write a plot (.png or .svg) of ratio and traffic.", show_default=False),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Replay traffic in simulated time through the decision that the operator makes, and other policies.

    Policies other than hawk are tuned on the first ten minutes (a quarter of a short trace); all are scored
    on the rest. The same input gives the same output, byte for byte.
    """
    names = list(dict.fromkeys(policy or ["hawk"]))
    _check_numbers(
        seconds=seconds, startup_seconds=startup_seconds, link_gbps=link_gbps, ttft_stretch=ttft_stretch
    )
    try:
        for name in names:
            check_policy(name)
    except UnknownPolicyError as error:
        fail(f"--policy: {error}")
    if plot is not None:
        _check_plot(plot)
    found = _trace(trace, seed, seconds)
    if found.seconds < SHORTEST_S:
        fail(
            f"--trace: {found.name} spans {found.seconds:.3g} s, too short to score; it needs "
            f"{SHORTEST_S:g} s from the first request to the last: give a longer trace, or --seconds 60"
        )
    problem = _problem(pool, ttft_stretch)
    if queue_order is not None:
        problem = replace(problem, queue_order=queue_order)
    settings = ClusterSettings(
        startup_s=startup_seconds,
        link_bytes_per_second=link_gbps * 1e9 / 8,
        order=problem.queue_order,
    )
    asked = names if no_oracle or "oracle" in names else [*names, "oracle"]
    with watched(len(found.requests)) as tell:
        scores = compare_policies(Arena.of(found, problem, settings, tell=tell), asked)
    best = next((s.cost_usd for s in scores if s.policy == "oracle"), None)
    scores = [s for s in scores if s.policy in names]
    emit_output(
        {s.policy: _plain(s, best, timeline) for s in scores}, output, lambda: _table(found, scores, best)
    )
    if plot is not None:
        _plot_scores(plot, found, problem, scores)


def _check_numbers(**numbers: float) -> None:
    for name, number in numbers.items():
        try:
            within(f"--{name.replace('_', '-')}", number, *BOUNDS[name])
        except InputError as error:
            fail(str(error))


def _trace(text: str, seed: int, seconds: float) -> Trace:
    if text in SCENARIOS and not Path(text).exists():
        return scenario(text, seed, seconds)
    try:
        found = load_trace(Path(text))
    except TraceError as error:
        other = "" if Path(text).exists() else f", or name one of {', '.join(SCENARIOS)}"
        fail(f"--trace: {error}{other}")
    return found if found.seconds <= seconds else replace(found.part(0.0, seconds), name=found.name)


def _problem(path: Path | None, stretch: float) -> Problem:
    bodies: list[Any] = (
        [yaml.safe_load(SAMPLE_POOL)]
        if path is None
        else [document.body for document in load_manifests(path)]
    )
    kinds: dict[str, list[Any]] = {}
    for body in bodies:
        if isinstance(body, dict):
            kinds.setdefault(str(body.get("kind")), []).append(body)
    pools = kinds.get("HawkPool", [])
    if len(pools) != 1:
        fail(f"--pool: {len(pools)} HawkPools in {path}; give a file with exactly one")
    classes: Mapping[str, AcceleratorClassSpec] = shipped()
    for body in [*kinds.get("AcceleratorClass", []), *pools]:
        errors = [v for v in validate_manifest(body) if v.severity is Severity.ERROR]
        if errors:
            fail(f"--pool: {errors[0].field}: {errors[0].message}")
    own = [AcceleratorClass.model_validate(body) for body in kinds.get("AcceleratorClass", [])]
    classes = {**classes, **{one.metadata.name: one.spec for one in own}}
    made = HawkPool.model_validate(pools[0])
    try:
        geometry = resolve_geometry(made.spec.model)
    except ValueError as error:
        fail(f"--pool: spec.model: {error}")
    problem = Problem.of(made, classes, geometry)
    for group in problem.groups:
        if not group.device_class:
            fail(f"--pool: group {group.name} has no acceleratorClass; name one")
        if lacking := group.worker.lacking():
            missing = ", ".join(lacking)
            fail(f"--pool: group {group.name}: {group.device_class} lacks {missing}; add it to the class")
    return replace(
        problem,
        ttft=None if problem.ttft is None else replace(problem.ttft, stretch=problem.ttft.stretch or stretch),
    )


def _plain(found: Score, oracle: float | None, timeline: bool) -> dict[str, Any]:
    """One policy's result, units in the names."""
    plain: dict[str, Any] = {
        "requests": found.requests,
        "slo_attainment": found.slo_attainment,
        "ttft_attainment": found.ttft_attainment,
        "itl_attainment": found.itl_attainment,
        "attainable": found.attainable,
        "goodput_requests_per_second": found.goodput_per_second,
        "cost_usd": found.cost_usd,
        "cost_over_oracle": found.cost_usd / oracle if oracle else None,
        "energy_kwh": found.energy_kwh,
        "direction_changes": found.direction_changes,
        "replica_hours": found.replica_hours,
        "ttft_p50_seconds": found.ttft_p50_seconds,
        "ttft_p95_seconds": found.ttft_p95_seconds,
        "ttft_p99_seconds": found.ttft_p99_seconds,
        "settings": found.settings,
    }
    if timeline:
        plain["timeline"] = [
            {"time_seconds": when, "wanted": wanted, "ready": ready} for when, wanted, ready in found.timeline
        ]
    return plain


def _table(trace: Trace, scores: list[Score], oracle: float | None) -> Table:
    title = f"{trace.name}: {len(trace.requests)} requests in {trace.seconds / 60:.0f} min"
    columns = (
        "policy",
        "#attained",
        "#attainable",
        "#of it",
        "#USD",
        "#over oracle",
        "#kWh",
        "#turns",
        "#TTFT P99",
    )
    return rows(
        title,
        columns,
        (
            (
                s.policy,
                f"{s.slo_attainment:.2%}",
                f"{s.attainable:.2%}",
                f"{s.of_attainable:.2%}" if s.attainable else "",
                f"{s.cost_usd:.2f}",
                f"{s.cost_usd / oracle:.2f}" if oracle else "",
                "" if s.energy_kwh is None else f"{s.energy_kwh:.1f}",
                s.direction_changes,
                f"{s.ttft_p99_seconds:.2f} s",
            )
            for s in scores
        ),
    )


def _check_plot(path: Path) -> None:
    """Refuse before the runs what couldn't be written after them."""
    if path.suffix.lower() not in {".png", ".svg"}:
        fail(f"--plot: {path} ends in neither .png nor .svg; use one of these")
    try:
        check_writable(path)
    except OSError as error:
        fail(f"--plot: {path}: {error.strerror or error}; give a path that can be written")


def _plot_scores(path: Path, trace: Trace, problem: Problem, scores: list[Score]) -> None:
    try:
        from hawk_planner.simulate.plot import over_time  # noqa: PLC0415 -- only with --plot
    except ModuleNotFoundError as error:
        fail(f"--plot: the package {error.name} is not installed; install hawkpool[sim]", 1)
    courses = [Course.of(found, problem) for found in scores]
    try:
        path.write_bytes(over_time(trace.name, BinnedLoad.of(trace), courses, path.suffix.lower()[1:]))
    except OSError as error:
        fail(f"--plot: {path}: {error.strerror or error}; give a path that can be written", 1)
