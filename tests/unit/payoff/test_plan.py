"""Plans: ranking, verdict, ranges, turning points, and what must hold for any plan."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hawk_planner.payoff import economics
from hawk_planner.payoff.afd import attention_ffn, stages
from hawk_planner.payoff.candidate import Candidate, Feasibility, ServingMode
from hawk_planner.payoff.checks import InputError
from hawk_planner.payoff.colocated import colocate, colocated
from hawk_planner.payoff.plan import Verdict, candidates, judge_ranking, make_capacity_plan, rank_candidates
from hawk_planner.payoff.split import sided, split
from hawk_planner.payoff.ties import ties
from hawk_planner.payoff.turning import turning_points, turns
from hawk_planner.payoff.ways import sizes

from .pools import CLASSES, class_with, pool, question, scenario

slow = settings(max_examples=25, deadline=None)
traffics = st.fixed_dictionaries(
    {
        "requests_per_second": st.floats(0.5, 60),
        "prompt_tokens": st.integers(64, 8192),
        "output_tokens": st.integers(8, 1024),
    }
)


def test_every_way_of_serving_is_in_the_ranking_once_or_twice() -> None:
    plan = make_capacity_plan(question())
    kinds = [one.kind for one in plan.ranking]
    assert set(kinds) == set(ServingMode)
    assert all(kinds.count(kind) <= 2 for kind in ServingMode)
    standings = [one.standing for one in plan.ranking]
    assert standings == sorted(standings, key=[*Feasibility].index)
    costs = [one.usd_per_million_tokens for one in plan.ranking if one.standing is Feasibility.MEETS]
    assert costs == sorted(costs, key=lambda cost: inf if cost is None else cost)


def test_what_meets_meets_by_its_own_figures() -> None:
    plan = make_capacity_plan(question(requests_per_second=30))
    for one in plan.ranking:
        if one.standing is Feasibility.MEETS:
            assert one.ttft_seconds is not None
            assert one.itl_seconds is not None
            assert one.ttft_seconds <= 2 * (1 + 1e-6)
            assert one.itl_seconds <= 0.05 * (1 + 1e-6)
            assert all(0 <= pool.utilisation <= 1 for pool in one.pools)
        else:
            assert one.problem


def test_money_and_energy_add_up() -> None:
    """Recomputed from the pools alone: devices, ports, hours, tokens."""
    question_ = question()
    tariff = question_.scenario.tariff
    prices = {"gpu": (32000, 700), "npu": (6500, 185)}

    def hourly(price: float, watts: float) -> float:
        return price / (3 * 365.25 * 24) + watts / 1000 * 1.3 * 0.1

    assert (tariff.years, tariff.usd_per_kwh, tariff.power_usage_effectiveness) == (3, 0.1, 1.3)
    found = split(question_.scenario)
    ports = sum(pool.replicas for pool in found.pools)
    cost = sum(pool.devices * hourly(*prices[pool.device]) for pool in found.pools) + ports * hourly(1200, 25)
    watts = sum(pool.devices * prices[pool.device][1] for pool in found.pools) + ports * 25
    assert found.usd_per_hour == pytest.approx(cost)
    assert found.watts == pytest.approx(watts)
    assert found.usd_per_million_tokens == pytest.approx(cost / 3600 / 2560 * 1e6)
    assert found.joules_per_token == pytest.approx(watts / 2560)


def test_times_of_a_split_by_hand() -> None:
    """Prefill, transfer and decode of Llama 3.1 8B from its geometry, written out again."""
    found = sided(here := scenario(requests_per_second=1.0), here.prefill.replica, here.decode.replica)
    assert found is not None
    layers, hidden, heads, head, ffn, vocabulary = 32, 4096, 32, 128, 14336, 128256
    block = hidden * (heads + 2 * 8) * head + heads * head * hidden + 3 * hidden * ffn + 2 * hidden
    body = layers * block + hidden
    attention = 4 * heads * head * layers * 2048 * 2049 / 2
    flops = 2 * body * 2048 + attention + 2 * vocabulary * hidden
    assert found.prefill_seconds == pytest.approx(flops / (989e12 * 0.6) + 1e-3, rel=1e-9)
    assert found.handover.nbytes == 2 * 8 * 128 * 2 * layers * 2048
    weights = 2 * (body + vocabulary * hidden)
    state = 2 * 8 * 128 * 2 * layers * (2048 + 128)
    mean = found.decoding.batch
    step = (weights + mean * state) / (1.8e12 * 0.7) + 1e-3
    assert found.decoding.step_seconds == pytest.approx(step, rel=1e-6)
    assert found.decoding.batch == pytest.approx(256 / found.decodes * step, rel=1e-3)


def test_colocated_needs_one_device_class_that_takes_both_roles() -> None:
    titles = [one.title for one in candidates(scenario()) if one.kind is ServingMode.COLOCATED]
    assert titles == ["colocated on gpu"]


@pytest.mark.parametrize("declared", [1, 2, 3, 8])
def test_the_baseline_is_no_dearer_than_at_any_number_of_devices(declared: int) -> None:
    """Fewer devices a replica than declared are tried, too: a split doesn't pay against a straw man."""
    here = scenario(pool(devices=(declared, 1)))
    best = colocated(here, here.prefill)
    costs = []
    for count in (1, 2, 4, 8, declared):
        found = colocate(here, here.prefill.replica.sized(count))
        if found is not None and found.meets:
            costs.append(count * found.replicas)
    assert best.standing is Feasibility.MEETS
    assert best.devices == min(costs) < 8


def test_the_baseline_begins_with_the_fewest_devices_that_hold_the_weights() -> None:
    here = scenario(pool("llama-3.3-70b", devices=(8, 8)))
    assert [replica.devices for replica in sizes(here.prefill, here)] == [2, 4, 8]


def test_a_drafter_is_priced_only_when_it_is_known() -> None:
    (unknown,) = (one for one in candidates(scenario()) if one.kind is ServingMode.TARGET_DRAFT)
    assert unknown.standing is Feasibility.UNKNOWN
    assert "--draft-model" in unknown.problem


def test_roles_that_change_need_the_time_of_a_start() -> None:
    classes = CLASSES | {"gpu": class_with("gpu", startup=None)}
    (unknown,) = (one for one in candidates(scenario(classes=classes)) if one.kind is ServingMode.FLEXIBLE)
    assert unknown.standing is Feasibility.UNKNOWN
    assert "gpu.startup" in unknown.problem


def test_a_missing_rate_makes_its_ways_unknown_and_leaves_the_others() -> None:
    classes = CLASSES | {"npu": class_with("npu", bandwidth=None)}
    found = {one.kind: one for one in candidates(scenario(classes=classes))}
    assert found[ServingMode.COLOCATED].standing is Feasibility.MEETS
    assert found[ServingMode.SPLIT].standing is Feasibility.UNKNOWN
    assert "npu.bandwidth" in found[ServingMode.SPLIT].problem
    assert judge_ranking(list(found.values())).verdict is Verdict.UNKNOWN


def test_a_model_that_does_not_fit_says_so_with_both_sizes() -> None:
    found = split(scenario(pool("llama-3.3-70b")))
    assert found.standing is Feasibility.MISSES
    assert "weights of 141 GB don't fit 1 x gpu (72 GB usable)" in found.problem


def test_too_many_replicas_or_devices_or_money_miss_and_name_the_bound() -> None:
    assert "replicas.max is 1" in split(scenario(pool(most=(1, 1)), requests_per_second=100)).problem
    tight = pool(scaling={"budget": {"devices": 2}})
    assert "budget.devices is 2" in split(scenario(tight, requests_per_second=30)).problem
    poor = pool(scaling={"budget": {"usdPerHour": "0.5"}})
    assert "budget.usdPerHour is 0.50" in split(scenario(poor)).problem


def test_a_link_that_cannot_carry_the_traffic_needs_more_ends() -> None:
    """At a hundredth of the link, replicas are bought for their ports."""
    wide, narrow = (
        scenario(requests_per_second=20),
        scenario(requests_per_second=20, link_bytes_per_second=5e8),
    )
    assert split(narrow).devices > split(wide).devices


def test_attention_and_ffn_take_turns() -> None:
    """A step is never shorter than a whole round of one micro-batch, nor than two turns of a stage."""
    here = scenario(pool("mixtral-8x7b-v0.1", devices=(4, 4)))
    found = stages(here, here.prefill.replica, here.decode.replica, 2)
    for batch in (1.0, 16.0, 128.0):
        parts = (found.attention(batch), found.ffn(batch), found.exchange(batch))
        step = found.step(batch) - here.efficiency.step_seconds
        assert step == pytest.approx(max(sum(parts), 2 * max(parts)))
    assert attention_ffn(here).kind is ServingMode.ATTENTION_FFN


def test_verdicts() -> None:
    def one(kind: ServingMode, cost: float | None, standing: Feasibility = Feasibility.MEETS) -> Candidate:
        return Candidate(kind, str(kind), standing, "why", usd_per_million_tokens=cost)

    cheap, dear = one(ServingMode.SPLIT, 1.0), one(ServingMode.COLOCATED, 2.0)
    assert judge_ranking([cheap, dear]).verdict is Verdict.PAYS
    assert judge_ranking([one(ServingMode.SPLIT, 3.0), dear]).verdict is Verdict.DOES_NOT_PAY
    assert judge_ranking([one(ServingMode.SPLIT, 1.99), dear]).verdict is Verdict.TOO_CLOSE
    assert judge_ranking([one(ServingMode.SPLIT, None), dear]).verdict is Verdict.UNKNOWN
    assert (
        judge_ranking([one(ServingMode.SPLIT, 1.0, Feasibility.MISSES), dear]).verdict is Verdict.DOES_NOT_PAY
    )
    assert judge_ranking([cheap, one(ServingMode.COLOCATED, 0.1, Feasibility.MISSES)]).verdict is Verdict.PAYS
    missing = (
        one(ServingMode.SPLIT, 1.0, Feasibility.MISSES),
        one(ServingMode.COLOCATED, 2.0, Feasibility.MISSES),
    )
    assert judge_ranking(missing).verdict is Verdict.NOTHING_MEETS
    assert judge_ranking([one(ServingMode.SPLIT, None, Feasibility.UNKNOWN), dear]).verdict is Verdict.UNKNOWN
    assert rank_candidates([dear, cheap]) == [cheap, dear]


def test_flexible_roles_are_not_a_split_of_unlike_devices() -> None:
    flexible = Candidate(ServingMode.FLEXIBLE, "f", Feasibility.MEETS, usd_per_million_tokens=1.0)
    apart = Candidate(ServingMode.SPLIT, "s", Feasibility.MEETS, usd_per_million_tokens=2.0)
    assert judge_ranking([flexible, apart]).verdict is Verdict.DOES_NOT_PAY


def test_bands_hold_the_cost_and_shrink_to_it_when_efficiencies_are_given() -> None:
    wide = make_capacity_plan(question())
    for one, band in zip(wide.ranking, wide.bands, strict=True):
        if one.usd_per_million_tokens is not None:
            assert band is not None
            assert band.low <= one.usd_per_million_tokens <= band.high
    narrow = make_capacity_plan(question(prefill_mfu=0.6, decode_mbu=0.7))
    assert all(band is None or band.low == band.high for band in narrow.bands)


def test_turns_finds_the_nearest_change_on_both_sides() -> None:
    low, high = turns(100, lambda value: 30 < value < 1000)
    assert low is not None
    assert high is not None
    assert low <= 30 < low * 1.05
    assert high >= 1000 > high / 1.05
    assert turns(100, lambda _: True) == (None, None)
    assert turns(8, lambda value: value > 3, whole=True)[0] == 3


def test_turning_points_turn_the_verdict() -> None:
    """Put the value found back in: the verdict is the other one."""
    here = scenario(pool(itl="25ms"), requests_per_second=30)

    def pays(trial: object) -> bool:
        assert isinstance(trial, type(here))
        found = [split(trial), colocated(trial, trial.prefill)]
        return judge_ranking(found).verdict is Verdict.PAYS

    now = pays(here)
    points = {turn.name: turn for turn in turning_points(here)}
    assert set(points) == {"link", "prompt", "output", "price of npu"}
    link = points["link"].below
    assert link is not None
    assert pays(here.at(bytes_per_second=link)) is not now


@slow
@given(traffics, st.floats(1.5, 8))
def test_a_faster_link_never_costs_more(traffic: dict[str, float], factor: float) -> None:
    here = scenario(**traffic)
    slower, faster = split(here), split(here.at(bytes_per_second=here.link.bytes_per_second * factor))
    if slower.usd_per_million_tokens is not None and slower.standing is Feasibility.MEETS:
        assert faster.standing is Feasibility.MEETS
        assert faster.usd_per_million_tokens is not None
        assert faster.usd_per_million_tokens <= slower.usd_per_million_tokens * (1 + 1e-9)


@slow
@given(traffics, st.floats(1.1, 10))
def test_dearer_devices_scale_the_cost_and_nothing_else(traffic: dict[str, float], factor: float) -> None:
    here = scenario(**traffic)
    dearer = replace(here, tariff=economics.Tariff(3, 0.1 * factor, 1.3))
    for name in ("prefill", "decode"):
        part = getattr(dearer, name)
        device = replace(part.replica.device, price_usd=part.replica.device.price_usd * factor)
        dearer = replace(dearer, **{name: replace(part, replica=replace(part.replica, device=device))})
    dearer = dearer.at(port_usd=here.link.port_usd * factor)
    one, other = split(here), split(dearer)
    assert [pool.replicas for pool in one.pools] == [pool.replicas for pool in other.pools]
    assert one.usd_per_hour is not None
    assert other.usd_per_hour == pytest.approx(one.usd_per_hour * factor)
    assert one.joules_per_token == other.joules_per_token


@slow
@given(traffics, st.floats(1.05, 4))
def test_more_traffic_never_needs_fewer_devices(traffic: dict[str, float], factor: float) -> None:
    one = scenario(**traffic)
    more = scenario(**{**traffic, "requests_per_second": traffic["requests_per_second"] * factor})
    assert split(more).devices >= split(one).devices
    assert colocated(more, more.prefill).devices >= colocated(one, one.prefill).devices


@slow
@given(traffics)
def test_burstier_traffic_never_needs_fewer_devices(traffic: dict[str, float]) -> None:
    assert split(scenario(**traffic, dispersion=6.0)).devices >= split(scenario(**traffic)).devices


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [
        ("requests_per_second", 0, "--requests-per-second"),
        ("prompt_tokens", 0, "--prompt-tokens"),
        ("link_bytes_per_second", 0, "--link-gbps"),
        ("prefill_mfu", 1.2, "--prefill-mfu"),
        ("decode_mbu", 0, "--decode-mbu"),
        ("years", 0, "--assume years"),
        ("port_usd", -1, "--assume port_usd"),
        ("rails", 0, "--rails"),
    ],
)
def test_a_wrong_input_names_its_option(name: str, value: float, option: str) -> None:
    with pytest.raises(InputError) as caught:
        question(**{name: value})
    assert caught.value.field == option


def test_every_input_is_listed_with_a_source() -> None:
    listed = {one.name: one for one in question(prompt_tokens=100).assumptions}
    assert {"prefill_mfu", "gpu.flops", "npu.price_usd", "link_bytes_per_second", "weight_bytes"} <= set(
        listed
    )
    assert all(one.source for one in listed.values())
    assert listed["prompt_tokens"].value == 100
    assert listed["prompt_tokens"].source == "given"
    assert listed["link_bytes_per_second"].source.startswith("default")
    assert listed["npu.price_per_hour_usd"].value == "unknown"


def test_a_tie_is_one() -> None:
    """At the price found both ways cost the same, recomputed from devices and prices alone."""
    answered_ = make_capacity_plan(question(requests_per_second=100.0))
    here = answered_.scenario
    costs = {one.title: one.usd_per_hour for one in answered_.ranking}
    found = [tie for tie in ties(answered_.ranking, here) if tie is not None]
    assert found
    for one, tie in zip(answered_.ranking, ties(answered_.ranking, here), strict=True):
        if tie is None:
            continue
        rival = next(other for other in answered_.ranking if other.title == tie.rival)
        change = tie.at_usd_per_hour - tie.now_usd_per_hour

        def devices(of: Candidate, name: str = tie.device) -> int:
            return sum(pool.devices for pool in of.pools if pool.device == name)

        mine, other = costs[one.title], costs[rival.title]
        assert mine is not None
        assert other is not None
        assert mine + change * devices(one) == pytest.approx(other + change * devices(rival))


def test_every_way_that_meets_says_how_much_more_it_carries_and_what_stops_it() -> None:
    """The same replicas at the traffic found still meet everything; a quarter more they don't carry."""
    here = question(requests_per_second=100.0)
    for one in make_capacity_plan(here).ranking:
        if one.standing is not Feasibility.MEETS:
            continue
        assert one.most_tokens_per_second is not None
        assert one.tokens_per_second is not None
        assert one.most_tokens_per_second >= one.tokens_per_second
        assert one.bottleneck
        if one.again is None:
            continue
        most = one.most_tokens_per_second / one.tokens_per_second * 100.0
        within = one.again(here.scenario.at(requests_per_second=most))
        beyond = one.again(here.scenario.at(requests_per_second=most * 1.25))
        assert within is not None
        assert within.standing is Feasibility.MEETS
        assert all(p.replicas <= q.replicas for p, q in zip(within.pools, one.pools, strict=True))
        if beyond is not None and beyond.standing is Feasibility.MEETS:
            assert any(p.replicas > q.replicas for p, q in zip(beyond.pools, one.pools, strict=True))
