"""hawk payoff offload, prefix, path and bottleneck: the functions' answers, and refusals by option."""

from __future__ import annotations

import pytest

from .cli import answered, runner

OFFLOAD = ("payoff", "offload", "--step-ms-here", "40", "--step-ms-there", "22", "--transfer-ms", "90")
PREFIX = (
    *("payoff", "prefix", "--model", "mistral-7b-instruct-v0.2", "--prefix-tokens", "8192"),
    *("--recompute-ms", "900", "--suffix-ms-here", "60", "--suffix-ms-there", "50"),
)


def test_a_long_decode_moves_and_a_short_one_stays(capsys: pytest.CaptureFixture[str]) -> None:
    run = runner(capsys)
    long = answered(run, *OFFLOAD, "--remaining-tokens", "300")
    assert (long["move"], long["stay_ms"], long["move_ms"]) == (
        True,
        pytest.approx(12_000),
        pytest.approx(6_690),
    )
    assert long["break_even_tokens"] == pytest.approx(90 / 18)
    assert not answered(run, *OFFLOAD, "--remaining-tokens", "4")["move"]


def test_the_remaining_output_is_estimated_from_past_lengths(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(runner(capsys), *OFFLOAD, "--output-lengths", "10,20,100", "--produced-tokens", "15")
    assert found["remaining_tokens"] == pytest.approx((5 + 85) / 2)


def test_the_others_are_protected_as_weighted(capsys: pytest.CaptureFixture[str]) -> None:
    crowded = (*OFFLOAD, "--remaining-tokens", "4", "--others-here", "10", "--slowdown-ms-here", "5")
    run = runner(capsys)
    assert not answered(run, *crowded)["move"]
    assert answered(run, *crowded, "--weight-of-others", "1")["move"]


@pytest.mark.parametrize(
    ("path", "choice"),
    [
        (["--path-gbps", "180"], "fetch"),
        (["--path-gbps", "180", "--shards-differ"], "use"),
        (["--queue-ms-there", "5000"], "recompute"),
    ],
)
def test_a_prefix_is_used_where_the_first_token_comes_soonest(
    capsys: pytest.CaptureFixture[str], path: list[str], choice: str
) -> None:
    queue = [] if "--queue-ms-there" in path else ["--queue-ms-there", "400"]
    found = answered(runner(capsys), *PREFIX, *queue, *path)
    assert found["prefix_bytes"] == 2**30
    assert found["choice"] == choice
    assert found["ttft_ms"][choice] == min(found["ttft_ms"].values())
    assert ("fetch" in found["ttft_ms"]) != ("fetch" in found["unusable"])


def test_two_devices_are_a_path_only_where_all_agrees_and_its_rate_was_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = runner(capsys)
    assert answered(run, "payoff", "path", "--path-gbps", "180") == {"usable": True, "problem": None}
    for flags in ([], ["--path-gbps", "180", "--owners-differ"]):
        code, out, _ = run("payoff", "path", *flags, "-o", "json")
        assert code == 1
        assert '"usable": false' in out


def test_a_bottleneck_names_its_splits(capsys: pytest.CaptureFixture[str]) -> None:
    run = runner(capsys)
    seen = ("--prefill-share-of-decode-gaps", "0.35", "--draft-acceptance", "0.7", "--idle-share", "0.1")
    found = answered(run, "payoff", "bottleneck", *seen)["suggestions"]
    assert [one["split"] for one in found] == ["PrefillDecode", "TargetDraft"]
    assert all(one["must_show"] for one in found)
    assert answered(run, "payoff", "bottleneck") == {"suggestions": []}


def test_weights_are_shown_with_the_cache(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(runner(capsys), "kv", "--model", "mixtral-8x7b-v0.1")
    assert (found["parameters"], found["active_parameters"]) == (46_702_792_704, 12_879_925_248)
    assert found["weight_bytes"] == 2 * found["parameters"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (OFFLOAD, "--remaining-tokens"),
        ((*OFFLOAD, "--remaining-tokens", "0"), "--remaining-tokens"),
        ((*OFFLOAD, "--output-lengths", "1,two"), "--output-lengths"),
        ((*OFFLOAD, "--output-lengths", "10", "--produced-tokens", "10"), "--remaining-tokens"),
        ((*OFFLOAD, "--remaining-tokens", "9", "--weight-of-others", "2"), "--weight-of-others"),
        ((*OFFLOAD, "--remaining-tokens", "9", "--queue-ms-there", "-1"), "--queue-ms-there"),
        ((*PREFIX, "--queue-ms-here", "-1"), "--queue-ms-here"),
        ((*PREFIX[:4], "--prefix-tokens", "0", *PREFIX[6:]), "--prefix-tokens"),
        (PREFIX[:2] + PREFIX[4:], "--model"),
        (("payoff", "bottleneck", "--idle-share", "2"), "--idle-share"),
    ],
)
def test_bad_input_names_its_option(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], names: str
) -> None:
    code, out, err = runner(capsys)(*words)
    assert (code, out) == (2, "")
    assert names in err
    assert "Traceback" not in err
