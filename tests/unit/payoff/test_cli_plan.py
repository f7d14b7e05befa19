"""hawk plan: a pool in, a verdict with table, data, pictures and a manifest out."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hawk_api.validation import validate_manifest
from hawk_cli.support.subject import SETTABLE
from hawk_planner.payoff.assumptions import BOUNDS

from .cli import answered, runner
from .pools import CLASSES, pool

README = Path(__file__).parents[3] / "README.md"
TRAFFIC = ("--requests-per-second", "100", "--prompt-tokens", "2048", "--output-tokens", "256")


def manifest(path: Path, **changes: Any) -> str:
    """A file with the classes and one pool."""
    bodies: list[dict[str, Any]] = [
        {
            "apiVersion": "hawkpool.dev/v1alpha1",
            "kind": "AcceleratorClass",
            "metadata": {"name": name},
            "spec": spec.to_dict(),
        }
        for name, spec in CLASSES.items()
    ]
    bodies.append(
        {
            "apiVersion": "hawkpool.dev/v1alpha1",
            "kind": "HawkPool",
            "metadata": {"name": "sample", "namespace": "team"},
            "spec": pool(**changes).to_dict(),
        }
    )
    path.write_text(yaml.safe_dump_all(bodies))
    return str(path)


@pytest.fixture
def sample(tmp_path: Path) -> str:
    """A manifest that can be planned for."""
    return manifest(tmp_path / "pool.yaml")


def test_a_plan_ranks_says_and_explains(capsys: pytest.CaptureFixture[str], sample: str) -> None:
    found = answered(runner(capsys), "plan", "-f", sample, *TRAFFIC)
    assert found["verdict"] in {"pays", "does not pay", "too close to call"}
    meets = [one for one in found["candidates"] if one["standing"] == "meets"]
    assert found["best"] == meets[0]["title"]
    assert found["runner_up"] == meets[1]["title"]
    assert {turn["input"] for turn in found["turning_points"]} >= {"link", "prompt", "output"}
    first = found["candidates"][0]
    assert first["usd_per_million_tokens_low"] <= first["usd_per_million_tokens"]
    assert first["output_tokens_per_second"] == 100 * 256
    assert first["most_output_tokens_per_second"] >= first["output_tokens_per_second"]
    assert first["bottleneck"]
    assert all(one["source"] for one in found["assumptions"])


@pytest.mark.parametrize(
    ("objectives", "first"),
    [
        ({"ttft": {"percentile": 95, "target": "1ms"}}, "sample: split or not, nothing meets the objectives"),
        (
            {"ttft": {"percentile": 95, "target": "10s"}},
            r"sample: (splitting (pays|does not pay)|whether .*)",
        ),
    ],
)
def test_the_verdict_is_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, objectives: dict[str, Any], first: str
) -> None:
    code, out, err = runner(capsys)("plan", "-f", manifest(tmp_path / "p.yaml", objectives=objectives))
    assert (code, err) == (0, "")
    assert re.fullmatch(first, out.splitlines()[0])


def test_a_verdict_that_changes_within_the_ranges_names_each_with_its_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The README's first pool with a step time that only the better ends of the ranges keep."""
    text = re.search(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    assert text is not None
    demanding = tmp_path / "pool.yaml"
    demanding.write_text(text[1].replace("1s}", "250ms}").replace("60ms}", "25ms}"))
    found = answered(runner(capsys), "plan", "-f", str(demanding))
    assert found["verdict"] == "too close to call"
    assert found["reason"].startswith("does not pay (")
    assert "; elsewhere in the inputs' ranges unknown (the price of rebellions" in found["reason"]


def test_a_table_names_what_was_not_given(capsys: pytest.CaptureFixture[str], sample: str) -> None:
    code, out, err = runner(capsys)("plan", "-f", sample)
    assert (code, err) == (0, "")
    assert "Not given, so by default: requests_per_second" in out
    assert "What this rests on" not in out
    explained = runner(capsys)("plan", "-f", sample, "--explain", *TRAFFIC)[1]
    assert "AcceleratorClass gpu" in explained
    assert "--assume usd_per_kwh=" in explained


def test_options_change_the_plan(capsys: pytest.CaptureFixture[str], sample: str) -> None:
    run = runner(capsys)
    cheap = answered(run, "plan", "-f", sample, *TRAFFIC, "--set", "npu.pricePerHour=100m")
    dear = answered(run, "plan", "-f", sample, *TRAFFIC, "--set", "npu.pricePerHour=50")
    assert (cheap["verdict"], dear["verdict"]) == ("pays", "does not pay")
    assumed = answered(run, "plan", "-f", sample, *TRAFFIC, "--assume", "usd_per_kwh=0.5")
    listed = {one["name"]: one for one in assumed["assumptions"]}
    assert listed["usd_per_kwh"]["value"] == 0.5


def test_a_drafter_is_priced_when_given(capsys: pytest.CaptureFixture[str], sample: str) -> None:
    drafter = ("--draft-model", "llama-3.2-1b", "--draft-acceptance", "0.8")
    found = answered(runner(capsys), "plan", "-f", sample, *TRAFFIC, *drafter)
    (one,) = (c for c in found["candidates"] if c["kind"] == "TargetDraft")
    assert one["standing"] != "unknown"
    assert one["parts"]["emitted_tokens"] > 1


@pytest.mark.parametrize("price", ["100m", "50"])
def test_the_recommended_manifest_is_valid_and_can_be_planned_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, sample: str, price: str
) -> None:
    """The recommended pool passes the checks, and is its own best."""
    words = (*TRAFFIC, "--set", f"npu.pricePerHour={price}")
    found = answered(runner(capsys), "plan", "-f", sample, *words)
    code, out, _ = runner(capsys)("plan", "-f", sample, "--manifest", *words)
    assert code == 0
    body = yaml.safe_load(out)
    assert body == found["recommendation"]["manifest"]
    assert body["metadata"] == {"name": "sample", "namespace": "team"}
    errors = [v for v in validate_manifest(body, CLASSES) if v.severity == "Error"]
    assert errors == []
    roles = {group["role"] for group in body["spec"]["groups"]}
    assert roles == ({"Prefill", "Decode"} if price == "100m" else {"Both"})
    assert all(line.startswith("#") for line in out.splitlines()[:1])


def test_replicas_that_a_plan_needs_are_recommended(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    small = manifest(tmp_path / "small.yaml", most=(1, 1))
    found = answered(runner(capsys), "plan", "-f", small, *TRAFFIC, "--set", "npu.pricePerHour=100m")
    changes = " ".join(found["recommendation"]["changes"])
    assert "replicas.max 1 -> " in changes or "acceleratorsPerReplica" in changes


class _Page(HTMLParser):
    """Collects what a page loads and shows."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]


@pytest.mark.slow
def test_a_page_is_one_file_with_verdict_table_and_pictures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, sample: str
) -> None:
    path = tmp_path / "plan.html"
    assert runner(capsys)("plan", "-f", sample, *TRAFFIC, "--plot", str(path))[0] == 0
    text = path.read_text()
    seen = _Page()
    seen.feed(text)
    assert [load for load in seen.loads if not load.startswith("#")] == []
    assert seen.tags.count("table") == 3
    assert seen.tags.count("svg") == 4
    assert "Does splitting pay for sample?" in text
    ids = re.findall(r'id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    targets = re.findall(r'(?:href="#|url\(#)([^")]+)', text)
    assert set(targets) <= set(ids)
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert all(address.startswith(("http://www.w3.org/", "http://www.w3.org")) for address in addresses)


@pytest.mark.slow
@pytest.mark.parametrize("chart", ["cost", "timeline", "roofline", "link"])
def test_each_chart_is_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, sample: str, chart: str
) -> None:
    svg, data = tmp_path / "c.svg", tmp_path / "c.csv"
    for path in (svg, data):
        assert runner(capsys)("plan", "-f", sample, *TRAFFIC, "--chart", chart, "--plot", str(path))[0] == 0
    assert ElementTree.fromstring(svg.read_text()).tag.endswith("svg")
    assert len(data.read_text().splitlines()) > 2


def test_one_chart_is_drawn_among_the_fast_tests(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, sample: str
) -> None:
    svg = tmp_path / "c.svg"
    assert runner(capsys)("plan", "-f", sample, *TRAFFIC, "--plot", str(svg))[0] == 0
    assert ElementTree.fromstring(svg.read_text()).tag.endswith("svg")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--link-gbps", "0"), "--link-gbps: 0 is out of range; give a number from 1e-06 to 1e+09"),
        (("--requests-per-second", "-1"), "--requests-per-second: -1 is out of range"),
        (("--prompt-tokens", "0"), "--prompt-tokens: 0 is out of range"),
        (("--prefill-mfu", "1.5"), "--prefill-mfu: 1.5 is out of range; give a number from 0.001 to 1"),
        (("--rails", "0"), "--rails: 0 is out of range"),
        (("--set", "moon.price=1"), "--set: moon.price=1 does not name a class and a field"),
        (("--set", "gpu.color=1"), "--set: gpu.color=1 does not name a class and a field"),
        (("--set", "gpu.price=cheap"), "--set: gpu.price=cheap: "),
        (("--set", "gpu.bandwidth=0"), "--set gpu.bandwidth: 0 is out of range"),
        (("--requests-per-second", "1e300"), "--requests-per-second: 1e+300 is out of range"),
        (("--dispersion", "1e300"), "--dispersion: 1e+300 is out of range; give a number from 0 to 1e+06"),
        (("--assume", "years=0"), "--assume years: 0 is out of range"),
        (("--assume", "luck=1"), "--assume: luck=1 does not name an input"),
        (("--draft-model", "llama-3.2-1b"), "--draft-acceptance: isn't given"),
        (("--draft-acceptance", "0.5"), "--draft-model: isn't given"),
        (
            ("--draft-model", "llama-3.2-1b", "--draft-acceptance", "2"),
            "--draft-acceptance: 2 is not a share",
        ),
        (("--chart", "pie", "--plot", "a.png"), "--chart: pie is none of"),
        (("--chart", "pie"), "--chart: it needs --plot"),
        (("--chart", "cost", "--plot", "a.html"), "--chart: an .html file has all charts"),
        (("--plot", "a.txt"), "--plot: a.txt ends in none of .png, .svg, .csv, .html"),
        (
            ("--plot", "/nowhere/a.html"),
            "--plot: /nowhere/a.html can't be written (No such file or directory)",
        ),
        (("--measured", "nowhere.csv"), "--measured: nowhere.csv: No such file or directory; give"),
    ],
)
def test_a_wrong_option_is_one_error(
    capsys: pytest.CaptureFixture[str], sample: str, words: tuple[str, ...], error: str
) -> None:
    code, out, err = runner(capsys)("plan", "-f", sample, *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {error}")
    assert err.count("\n") == 1


NUMBERS = st.one_of(
    st.sampled_from(["nan", "inf", "-inf", "0", "-1", "1e300", "1e-300", f"1{'0' * 400}"]),
    st.integers(-30, 30).map(lambda power: f"1e{power}"),
    st.sampled_from([end for ends in BOUNDS.values() for end in ends]).map(str),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(BOUNDS)), value=NUMBERS)
def test_any_number_is_planned_with_or_refused_by_its_option(
    capsys: pytest.CaptureFixture[str], sample: str, name: str, value: str
) -> None:
    code, out, err = runner(capsys)("plan", "-f", sample, *TRAFFIC, "--assume", f"{name}={value}")
    if code == 0:
        assert out
        return
    assert (code, out) == (2, "")
    assert re.match(rf"error: --(assume )?({name}|{name.replace('_', '-')}|link-gbps): [^;\n]*; .+\n$", err)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(field="memory", value="1000000.0")
@given(field=st.sampled_from(sorted(SETTABLE)), value=NUMBERS)
def test_any_figure_of_a_class_is_planned_with_or_refused_by_its_option(
    capsys: pytest.CaptureFixture[str], sample: str, field: str, value: str
) -> None:
    code, out, err = runner(capsys)("plan", "-f", sample, *TRAFFIC, "--set", f"gpu.{field}={value}")
    assert (code == 0 and out) or (code == 2 and re.match(r"error: --set:? gpu.+; .+\n$", err))


def test_a_pool_without_an_unknown_figure_is_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    unknown = manifest(tmp_path / "p.yaml", decode="moon")
    code, _, err = runner(capsys)("plan", "-f", unknown)
    assert code == 2
    assert "moon" in err


@pytest.mark.parametrize("ending", [".svg", ".html"])
def test_a_picture_is_not_written_where_a_folder_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, sample: str, ending: str
) -> None:
    folder = tmp_path / f"plan{ending}"
    folder.mkdir()
    code, out, err = runner(capsys)("plan", "-f", sample, *TRAFFIC, "--plot", str(folder))
    assert (code, out) == (2, "")
    assert err.startswith(f"error: --plot: {folder} can't be written (Is a directory); ")


def test_no_pool_two_pools_and_no_file_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, sample: str
) -> None:
    text = (tmp_path / "pool.yaml").read_text()
    twice = tmp_path / "twice.yaml"
    twice.write_text(text + "---\n" + text)
    run = runner(capsys)
    assert "has 2 HawkPools" in run("plan", "-f", str(twice))[2]
    assert "isn't given" in run("plan")[2]
    assert run("plan", "-f", str(tmp_path / "none.yaml"))[0] == 2


def test_a_live_pool_needs_a_cluster(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    code, out, err = runner(capsys)("plan", "--live", "team/sample")
    assert (code, out) == (2, "")
    assert err.startswith("error: kubeconfig: ")
