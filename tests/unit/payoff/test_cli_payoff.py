"""hawk payoff: the documented commands and keys, sweeps, pictures, and refusals."""

from __future__ import annotations

import csv
from dataclasses import fields
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from hawk_api.catalogue import shipped
from hawk_api.models import load_preset
from hawk_planner.payoff.inputs import AfdInputs, PdInputs, PipelineInputs, TdInputs

from .cli import answered, runner

if TYPE_CHECKING:
    from pathlib import Path

MISTRAL = ("--model", "mistral-7b-instruct-v0.2")
PD = ("payoff", "pd", *MISTRAL, "--prompt-tokens", "16384", "--output-tokens", "128", "--link-gbps", "200")
AFD = ("payoff", "afd", "--model", "mixtral-8x7b-v0.1", "--batch", "128", "--link-gbps", "200")
TD = ("payoff", "td", *MISTRAL, "--draft-tokens", "8", "--feature-vectors", "8", "--link-gbps", "200")
PIPELINE = ("payoff", "pipeline", "--model", "llama-3.3-70b", "--tokens", "32768", "--chunk-layers", "16")


def test_pd(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(runner(capsys), *PD, "--decode-saving-ms-per-token", "0.5", "--hidden", "0.5")
    assert found["kv_bytes"] == 2 * 2**30
    assert found["kv_bytes_per_token"] == 131072
    assert found["transfer_ms"] == pytest.approx(85.899, abs=5e-4)
    assert found["exposed_ms"] == pytest.approx(42.950, abs=5e-4)
    assert found["break_even_saving_ms_per_token"] == pytest.approx(0.671, abs=5e-4)
    assert found["break_even_hidden"] == pytest.approx(0.25494, abs=5e-6)
    assert found["delta_ms"] == pytest.approx(-21.05, abs=5e-3)
    assert found["verdict"] == "sooner"


def test_pd_load_of_the_link(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(runner(capsys), *PD, "--requests-per-second", "10")
    assert found["link_demand_bytes_per_second"] / 1e9 == pytest.approx(21.47, abs=5e-3)
    assert found["link_utilisation"] == pytest.approx(0.859, abs=5e-4)


def test_pd_that_never_pays_has_no_break_even(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(runner(capsys), *PD, "--decode-saving-ms-per-token", "-0.25", "--hidden", "1")
    assert found["delta_ms"] == pytest.approx(32)
    assert found["break_even_hidden"] is None
    assert found["verdict"] == "later"


def test_afd(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(runner(capsys), *AFD, "--ffn-saving-ms", "2")
    assert found["transfer_bytes"] == 64 * 2**20
    assert found["transfer_ms"] == pytest.approx(2.684, abs=5e-4)
    assert found["break_even_hidden"] == pytest.approx(0.25494, abs=5e-6)
    assert found["freed_bytes"] == 84 * 2**30
    assert found["freed_requests"] == 42
    assert found["batch_kv_bytes"] == 256 * 2**30


@pytest.mark.parametrize(
    ("model", "ffn", "flops", "freed", "requests", "other_gb"),
    [
        ("mistral-7b-instruct-v0.2", 5_637_144_576, 11_274_289_152, 11_274_289_152, 5.25, 3.209),
        ("mixtral-8x7b-v0.1", 45_097_156_608, 22_548_578_304, 84 * 2**30, 42, 3.211),
    ],
)
def test_afd_weights(
    capsys: pytest.CaptureFixture[str],
    model: str,
    ffn: int,
    flops: int,
    freed: int,
    requests: float,
    other_gb: float,
) -> None:
    found = answered(runner(capsys), "payoff", "afd", "--model", model)
    assert found["ffn_parameters"] == ffn
    assert found["ffn_flops_per_token"] == flops
    assert found["freed_bytes"] == freed
    assert found["freed_requests"] == requests
    assert found["other_bytes"] / 1e9 == pytest.approx(other_gb, abs=5e-4)


def test_afd_sends_a_token_to_the_ranks_of_its_experts(capsys: pytest.CaptureFixture[str]) -> None:
    """Two of eight experts over two ranks: both on one rank with chance 3/7."""
    found = answered(runner(capsys), *AFD, "--ffn-ranks", "2")
    assert found["destinations_per_token"] == pytest.approx(1 * 3 / 7 + 2 * 4 / 7)
    assert found["transfer_bytes"] == pytest.approx(64 * 2**20 * 11 / 7)


def test_afd_judges_the_freed_capacity(capsys: pytest.CaptureFixture[str]) -> None:
    limit = ("--tokens-per-expert-limit", "295")
    fills = answered(runner(capsys), *AFD, "--waiting-requests", "40", *limit)
    empty = answered(runner(capsys), *AFD, "--waiting-requests", "0", *limit)
    assert (fills["capacity_case"], empty["capacity_case"]) == ("FillsExperts", "NothingWaits")


def test_td(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(runner(capsys), *TD)
    assert (found["proposal_bytes"], found["response_bytes"], found["feature_bytes"]) == (32, 8, 65536)
    assert found["feature_transfer_us"] == pytest.approx(2.62, abs=5e-3)


def test_td_round(capsys: pytest.CaptureFixture[str]) -> None:
    times = ("--draft-ms-per-token", "0.5", "--verify-ms", "15", "--target-ms-per-token", "14")
    found = answered(runner(capsys), *TD, "--acceptance", "0.9", *times)
    assert found["tokens_per_round"] == pytest.approx(1 + sum(0.9**i for i in range(1, 9)))
    assert found["round_ms"] == pytest.approx(19 + 65576 / 25e9 * 1e3)
    assert found["best_draft_tokens"] == 8


@pytest.mark.parametrize(
    ("rails", "exposed", "resident"), [(1, 141.95, 0.2), (3, 14.32, 0.8), (4, 10.74, 0.8), (8, 5.37, 0.8)]
)
def test_pipeline(capsys: pytest.CaptureFixture[str], rails: int, exposed: float, resident: float) -> None:
    found = answered(
        runner(capsys),
        *PIPELINE,
        "--compute-ms-per-chunk",
        "18.2",
        "--rails",
        str(rails),
        "--link-gbps",
        "400",
    )
    assert found["exposed_ms"] == pytest.approx(exposed, abs=6e-3)
    assert found["resident_share"] == pytest.approx(resident)
    assert found["transfer_ms"] == pytest.approx(214.748 / rails, abs=1e-3)


@pytest.mark.parametrize("model", ["llama-3.3-70b", "qwen3-8b"])
def test_a_chunk_takes_its_share_of_the_model_s_own_prefill(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("payoff", "pipeline", "--model", model, "--prefill-tflops", "1000", "--tokens", "8192")
    coarse = answered(runner(capsys), *words, "--chunk-layers", "4")
    fine = answered(runner(capsys), *words, "--chunk-layers", "1")

    assert coarse["compute_ms_per_chunk"] == pytest.approx(4 * fine["compute_ms_per_chunk"])
    assert coarse["compute_ms"] == pytest.approx(load_preset(model).prefill_flops(8192) / 1e12)


@pytest.mark.parametrize("sweeps", [["tokens=1:100000000:100000000"], ["tokens=1:1000:101", "rails=1:4:100"]])
def test_a_sweep_of_too_many_points_is_refused_before_it_is_made(
    sweeps: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for sweep in sweeps for word in ("--sweep", sweep)]
    code, _, err = runner(capsys)("payoff", "pipeline", "--model", "qwen3-8b", *words)

    assert code == 2
    assert "combinations; keep to 10000" in err


def test_published(capsys: pytest.CaptureFixture[str]) -> None:
    figures = {row["figure"]: row for row in answered(runner(capsys), "payoff", "published")["figures"]}
    row = figures["energy, 2 H100 + 6 NPU"]
    assert (row["published"][0], row["standing"]) == (10.78, "differs")
    assert row["derived"][0] == pytest.approx(4.58, abs=5e-3)


@pytest.mark.parametrize("words", [PD, AFD, TD, PIPELINE, ("payoff", "published")])
def test_a_table_is_for_people(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    code, out, _ = runner(capsys)(*words)
    assert code == 0
    assert len(out.splitlines()) > 8


def test_a_sweep_is_a_report_a_combination(capsys: pytest.CaptureFixture[str]) -> None:
    rows = answered(runner(capsys), *PD, "--sweep", "link=100,200,400", "--sweep", "overlap=0:1:3")["sweep"]
    assert [(row["link_gbps"], row["hidden"]) for row in rows] == [
        (link, hidden) for link in (100, 200, 400) for hidden in (0, 0.5, 1)
    ]
    for row in rows:
        one = answered(
            runner(capsys), *PD, "--link-gbps", str(row["link_gbps"]), "--hidden", str(row["hidden"])
        )
        assert one == row


def test_a_swept_range_has_equal_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    rows = answered(runner(capsys), *PD, "--sweep", "prompt=1024:16384:5")["sweep"]
    assert [row["prompt_tokens"] for row in rows] == [1024, 2048, 4096, 8192, 16384]


PLOTTED = [PD, (*AFD, "--ffn-saving-ms", "2"), TD, PIPELINE, (*PD, "--sweep", "link=100,200")]


@pytest.mark.slow
@pytest.mark.parametrize("words", PLOTTED)
def test_a_plot_is_a_picture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    png, svg = (tmp_path / f"figure.{form}" for form in ("png", "svg"))
    for path in (png, svg):
        assert runner(capsys)(*words, "--plot", str(path))[0] == 0
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert ElementTree.fromstring(svg.read_text()).tag.endswith("svg")


@pytest.mark.parametrize("words", PLOTTED)
def test_a_plot_has_data(capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...]) -> None:
    data = tmp_path / "figure.csv"
    assert runner(capsys)(*words, "--plot", str(data))[0] == 0
    rows = list(csv.reader(data.read_text().splitlines()))
    assert len(rows) > 2
    assert all(len(row) == len(rows[0]) for row in rows)


def test_plotted_break_evens_are_those_of_the_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "figure.csv"
    runner(capsys)(*PD, "--plot", str(path))
    points = {
        (row[0], float(row[1])): float(row[2]) for row in list(csv.reader(path.read_text().splitlines()))[1:]
    }
    one = answered(runner(capsys), *PD, "--output-tokens", "4096")
    assert points["16,384-token prompt", 4096] == pytest.approx(one["break_even_saving_ms_per_token"])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((*PD, "--link-gbps", "0"), "--link-gbps: 0 is not above 0"),
        ((*PD, "--link-gbps", "nan"), "--link-gbps: nan is out of range"),
        ((*PD, "--hidden", "1.5"), "--hidden: 1.5 is not a share"),
        ((*PD, "--hidden", "-0.1"), "--hidden: -0.1 is not a share"),
        ((*PD, "--prompt-tokens", "0"), "--prompt-tokens: 0 is not a whole number of 1 or more"),
        ((*PD, "--output-tokens", "-3"), "--output-tokens: -3 is not a whole number"),
        ((*PD, "--sweep", "color=1,2"), "--sweep: color is none of"),
        ((*PD, "--sweep", "link=fast"), "--sweep: link=fast has no list of numbers"),
        ((*PD, "--sweep", "link=1,2", "--figure", "model"), "--figure: model is not a figure"),
        ((*PD, "--plot", "figure.docx"), "--plot: figure.docx ends in none of .png, .svg, .csv"),
        ((*PD, "--plot", "/nowhere/figure.svg"), "--plot: /nowhere/figure.svg can't be written"),
        (("payoff", "pd"), "--model: give exactly one of --model and --config"),
        (("payoff", "pd", "--model", "gpt-9"), "--model: "),
        ((*AFD, "--batch", "0"), "--batch: 0 is not a whole number"),
        ((*AFD, "--ffn-ranks", "3"), "--ffn-ranks: 8 experts don't divide by 3"),
        ((*AFD, "--waiting-requests", "4"), "--tokens-per-expert-limit: isn't given"),
        ((*TD, "--acceptance", "0.5"), "--draft-ms-per-token: isn't given"),
        ((*PIPELINE, "--chunk-layers", "81"), "--chunk-layers: 81 is above the model's 80 layers"),
        ((*PIPELINE, "--rails", "0"), "--rails: 0 is not a whole number"),
    ],
)
def test_a_wrong_input_is_one_error_that_names_its_option(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], error: str
) -> None:
    code, out, err = runner(capsys)(*words)
    assert code == 2
    assert out == ""
    assert err.startswith(f"error: {error}")
    assert err.count("\n") == 1
    assert "; " in err


def test_a_config_that_lacks_a_key_names_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64}')
    code, _, err = runner(capsys)("payoff", "pd", "--config", str(path))
    assert code == 2
    assert err.startswith("error: --config: ")


def test_named_systems_say_what_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    """A class that is named exists; what it lacks is listed, and a device without one lacks everything."""
    pairs = answered(runner(capsys), "payoff", "systems")["pairs"]
    devices = [pair[side] for pair in pairs for side in ("first", "second")]
    for device in devices:
        name = device["accelerator_class"]
        assert name is None or name in shipped()
        assert (device["unknown"] == ["everything"]) == (name is None)
        for figure in device["unknown"] if name else ():
            assert getattr(shipped()[name], figure) is None
    by_name = {device["name"]: device for device in devices}
    assert by_name["NVIDIA H100"]["unknown"] == []
    assert {pair["split"] for pair in pairs} == {"PrefillDecode", "AttentionFFN", "TargetDraft"}


def test_every_shipped_device_says_where_its_figures_are_from(capsys: pytest.CaptureFixture[str]) -> None:
    listed = answered(runner(capsys), "payoff", "devices")["devices"]
    assert [one["accelerator_class"] for one in listed] == list(shipped())
    assert all(len(one["source"]) > 15 for one in listed)


@pytest.mark.parametrize(
    ("name", "memory", "bandwidth", "flops"),
    [
        ("gb200-nvl72", 13.4e12 / 72, 576e12 / 72, 720e15 / 2 / 72),
        ("groq-3-lpu", 128e9 / 256, 40e15 / 256, 315e15 / 256),
    ],
)
def test_a_class_that_is_part_of_a_rack_is_its_share(
    capsys: pytest.CaptureFixture[str], name: str, memory: float, bandwidth: float, flops: float
) -> None:
    listed = {
        one["accelerator_class"]: one for one in answered(runner(capsys), "payoff", "devices")["devices"]
    }
    assert listed[name]["memory_bytes"] == pytest.approx(memory, rel=0.01)
    assert listed[name]["bandwidth_bytes_per_second"] == pytest.approx(bandwidth, rel=0.05)
    assert listed[name]["flops"]["float8"] == pytest.approx(flops, rel=0.01)


NUMERIC = {
    PdInputs: PD,
    AfdInputs: AFD,
    TdInputs: TD,
    PipelineInputs: PIPELINE,
}


EXTREMES = ["nan", "0", "-1", "1e-12", "1e300"]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (words, one.name)
        for kind, words in NUMERIC.items()
        for one in fields(kind)
        if one.name not in {"kv_dtype", "first_token"}
    ],
)
def test_any_number_is_answered_or_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], name: str
) -> None:
    for value in EXTREMES:
        answered_or_refused(capsys, words, "--" + name.replace("_", "-"), value)


def answered_or_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], option: str, value: str
) -> None:
    code, out, err = runner(capsys)(*words, f"{option}={value}")
    if code == 0:
        assert out
        return
    assert (code, out) == (2, "")
    assert "rror: --" in err or "Invalid value for" in err
