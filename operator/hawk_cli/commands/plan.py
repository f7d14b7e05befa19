"""hawk plan: the pay-off of a pool's split, compared with every other way of serving its traffic."""

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Group, RenderableType

from hawk_api.models import load_preset
from hawk_cli.support.output import Output, OutputOption, emit_output, fail, rows
from hawk_cli.support.subject import Subject, assumed, changed, from_cluster, from_file
from hawk_planner.payoff.amounts import amount, figure
from hawk_planner.payoff.assumptions import Given
from hawk_planner.payoff.checks import InputError, share
from hawk_planner.payoff.measured import read_measured, tables
from hawk_planner.payoff.plan import CapacityPlan, Verdict
from hawk_planner.payoff.plan import make_capacity_plan as plan_answer
from hawk_planner.payoff.question import build_question
from hawk_planner.payoff.recommend import Recommendation, recommend_spec
from hawk_planner.payoff.results import plan_data, tie_text
from hawk_planner.payoff.scenario import Drafter
from hawk_planner.payoff.turning import turning_points
from hawk_planner.perf.work import ModelWork

DEFAULTS_SHOWN = ("requests_per_second", "prompt_tokens", "output_tokens", "link_bytes_per_second")


def plan_pool(
    *,
    filename: Annotated[
        Path | None,
        typer.Option(
            "--filename",
            "-f",
            help="A manifest with one HawkPool, and its own classes if any.",
            show_default=False,
        ),
    ] = None,
    live: Annotated[
        str | None,
        typer.Option(
            help="A running pool, NAME or NAMESPACE/NAME, and its measured traffic.", show_default=False
        ),
    ] = None,
    requests_per_second: Annotated[
        float | None, typer.Option(help="Requests per second.", show_default=False)
    ] = None,
    prompt_tokens: Annotated[
        int | None, typer.Option(help="Mean prompt length, tokens.", show_default=False)
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option(help="Mean output length, tokens.", show_default=False)
    ] = None,
    dispersion: Annotated[
        float | None,
        typer.Option(help="Variance over mean of arrival counts; Poisson is 1.", show_default=False),
    ] = None,
    link_gbps: Annotated[
        float | None, typer.Option(help="Rate of one rail, Gb/s.", show_default=False)
    ] = None,
    rails: Annotated[int | None, typer.Option(help="Network ports per request.", show_default=False)] = None,
    prefill_mfu: Annotated[
        float | None,
        typer.Option(help="Share of peak FLOP/s that prefill reaches, 0 to 1.", show_default=False),
    ] = None,
    decode_mbu: Annotated[
        float | None,
        typer.Option(help="Share of peak bandwidth that decode reaches, 0 to 1.", show_default=False),
    ] = None,
    assume: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUE of an input that --explain lists; may be repeated.", show_default=False
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="CLASS.FIELD=VALUE of an AcceleratorClass; may be repeated.", show_default=False
        ),
    ] = None,
    measured: Annotated[
        Path | None,
        typer.Option(
            help="Measured engine times: .csv, .json or .yaml, described in docs/payoff.md.",
            show_default=False,
        ),
    ] = None,
    draft_model: Annotated[
        str | None, typer.Option(help="Drafter, by its name in hawk kv --list.", show_default=False)
    ] = None,
    draft_acceptance: Annotated[
        float | None,
        typer.Option(help="Probability that a draft token is accepted, 0 to 1.", show_default=False),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print every input with its source.")] = False,
    manifest: Annotated[
        bool, typer.Option("--manifest", help="Print the recommended pool, for kubectl apply.")
    ] = False,
    chart: Annotated[
        str | None,
        typer.Option(help="Chart of --plot: cost, timeline, roofline or link.", show_default="cost"),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Write a chart (.png, .svg, .csv) or the whole plan (.html).", show_default=False),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Rank every way of serving a pool's traffic; say if the split pays off, and what would change that.

    Traffic and link figures that are neither given nor measured are defaults, listed with the plan.
    """
    given = Given(
        requests_per_second=requests_per_second,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        dispersion=dispersion,
        link_bytes_per_second=None if link_gbps is None else link_gbps * 1e9 / 8,
        rails=rails,
        prefill_mfu=prefill_mfu,
        decode_mbu=decode_mbu,
        source="given on the command line",
    )
    if chart is not None and plot is None:
        fail("--chart: it needs --plot; give --plot FILE, or remove --chart")
    if chart is not None and plot is not None and plot.suffix.lower() == ".html":
        fail("--chart: an .html file has all charts; remove --chart, or give --plot a .png, .svg or .csv")
    try:
        subject = from_cluster(live) if live else from_file(filename)
        classes = changed(subject.classes, sets or [])
        drafter = _drafter(subject, draft_model, draft_acceptance)
        given = assumed(given, assume or [])
        question = build_question(
            subject.pool.spec,
            subject.geometry,
            classes,
            given,
            drafter=drafter,
            measured=subject.measured,
            times=() if measured is None else tables(read_measured(measured), subject.geometry.name),
        )
        answer = plan_answer(question)
        data = plan_data(answer, turning_points(question.scenario))
        advice = recommend_spec(subject.body, answer.ranking)
        if plot is not None:
            _plot_plan(plot, chart or "cost", subject.name, answer, data)
    except InputError as error:
        fail(f"{error.field}: {error.problem}; {error.remedy}")
    if manifest:
        _print_manifest(advice)
        return
    shown = {"pool": subject.name, **data, "recommendation": _advice(advice)}
    emit_output(shown, output, lambda: _report(shown, explain))


def _drafter(subject: Subject, model: str | None, acceptance: float | None) -> Drafter | None:
    if model is None and acceptance is None:
        return None
    if model is None or acceptance is None:
        option = "--draft-model" if model is None else "--draft-acceptance"
        raise InputError(option, "isn't given", "a drafter needs both --draft-model and --draft-acceptance")
    try:
        geometry = load_preset(model)
    except ValueError as error:
        raise InputError("--draft-model", str(error), "hawk kv --list prints the known models") from None
    work = ModelWork.of(geometry, subject.pool.spec.model.kv_dtype)
    return Drafter(work, share("--draft-acceptance", acceptance), 0.0)


def _plot_plan(path: Path, chart: str, name: str, answer: CapacityPlan, data: dict[str, Any]) -> None:
    # Drawing takes longer to load than a plan takes to make.
    from hawk_planner.payoff.draw import unwritable, write_figure  # noqa: PLC0415
    from hawk_planner.payoff.page import html_page  # noqa: PLC0415
    from hawk_planner.payoff.plan_pictures import plan_chart  # noqa: PLC0415

    if path.suffix.lower() != ".html":
        write_figure(plan_chart(chart, answer), path, others=(".html",))
        return
    try:
        path.write_text(html_page(name, answer, data), encoding="utf-8")
    except OSError as error:
        raise unwritable(path, error) from error


def _advice(advice: Recommendation | None) -> dict[str, Any] | None:
    if advice is None:
        return None
    return {
        "title": advice.candidate.title,
        "kind": str(advice.candidate.kind),
        "changes": list(advice.changes),
        "manifest": advice.manifest,
    }


def _print_manifest(advice: Recommendation | None) -> None:
    if advice is None:
        fail(
            "plan: nothing that a pool can declare meets the objectives; see the table for what is missed", 1
        )
    for change in advice.changes or ("nothing changes",):
        typer.echo(f"# {change}")
    typer.echo(yaml.safe_dump(advice.manifest, sort_keys=False), nl=False)


def _told(verdict: str) -> str:
    """A verdict as a sentence about splitting."""
    match verdict:
        case Verdict.NOTHING_MEETS:
            return "split or not, nothing meets the objectives"
        case Verdict.TOO_CLOSE | Verdict.UNKNOWN:
            return f"whether splitting pays is {verdict}"
        case _:
            return f"splitting {verdict}"


def _report(data: dict[str, Any], explain: bool) -> RenderableType:
    lines: list[RenderableType] = [
        f"{data['pool']}: {_told(data['verdict'])}",
        data["reason"],
        "",
        _candidates(data["candidates"]),
        "",
        _turns(data["turning_points"]),
        "",
        _recommended(data["recommendation"]),
    ]
    if explain:
        return Group(*lines, "", _explained(data["assumptions"]))
    return Group(*lines, _assumed(data["assumptions"]))


def _candidates(found: list[dict[str, Any]]) -> RenderableType:
    head = (
        "way of serving",
        "replicas",
        "#TTFT ms",
        "#ITL ms",
        "#USD/M tokens",
        "#J/token",
        "#up to tokens/s",
        "ties, USD/h",
        "bottleneck or miss",
    )
    lines = (
        (
            one["title"],
            ", ".join(f"{p['replicas']} x {p['devices_per_replica']} {p['role']}" for p in one["pools"]),
            figure(one["ttft_ms"], 0),
            figure(one["itl_ms"]),
            _ranged(one),
            figure(one["joules_per_token"], 2),
            figure(one["most_output_tokens_per_second"], 0),
            tie_text(one["ties"]),
            one["problem"] or one["bottleneck"],
        )
        for one in found
    )
    return rows("Ranked, cheapest that meets the objectives first", head, lines)


def _ranged(one: dict[str, Any]) -> str:
    value, low, high = (one[f"usd_per_million_tokens{end}"] for end in ("", "_low", "_high"))
    if value is None:
        return "unknown" if one["pools"] else ""
    return f"{value:,.3f} ({low:,.2f}-{high:,.2f})"


def _turns(found: list[dict[str, Any]]) -> RenderableType:
    def shown(value: float | None) -> str:
        return "none found" if value is None else amount(value, "")

    lines = (
        (
            turn["input"],
            amount(turn["present"], turn["unit"]),
            shown(turn["turns_below"]),
            shown(turn["turns_above"]),
        )
        for turn in found
    )
    head = ("What turns the verdict on the declared split", "#now", "#below", "#above")
    return rows(None, head, lines)


def _recommended(advice: dict[str, Any] | None) -> str:
    if advice is None:
        return "Nothing that a pool can declare meets the objectives."
    changes = "; ".join(advice["changes"]) or "as declared"
    return f"Declare: {advice['title']} ({changes}). --manifest prints it."


def _assumed(found: list[dict[str, Any]]) -> str:
    defaults = [one for one in found if one["name"] in DEFAULTS_SHOWN and one["source"].startswith("default")]
    count = f"{len(found)} inputs; --explain lists them with sources."
    if not defaults:
        return count
    named = ", ".join(f"{one['name']} {amount(one['value'], one['unit'])}" for one in defaults)
    return f"Not given, so by default: {named}. {count}"


def _explained(found: list[dict[str, Any]]) -> RenderableType:
    def value(one: dict[str, Any]) -> str:
        if isinstance(one["value"], str):
            return str(one["value"])
        span = "" if one["low"] is None else f" ({one['low']:g}-{one['high']:g})"
        return f"{amount(one['value'], one['unit'])}{span}"

    lines = ((one["name"], value(one), one["source"], one["option"]) for one in found)
    return rows("What this rests on", ("input", "#value", "source", "changed by"), lines)
