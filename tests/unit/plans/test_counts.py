"""Work requests for a network card, against counts worked out by hand for a 70B model."""

import pytest

from hawk_agent.layouts import Layout, LayoutError, compile_nest
from hawk_agent.plans import (
    Costs,
    RequestLimits,
    applicable_strategies,
    calibrate_costs,
    choose_strategy,
    gather_writes,
    key_plans,
    scatter_reads,
)

BIG = {"l": 80, "c": 2, "h": 8, "s": 32768, "d": 128}
BYTES = 10_737_418_240
VERBS = RequestLimits(max_sge=32, max_message_bytes=1 << 30)


def nest(source: str, target: str, **sizes):
    return compile_nest(Layout.preset(source, {**BIG, **sizes}), Layout.preset(target, {**BIG, **sizes}))


def test_a_write_is_cut_where_its_list_is_full_and_not_at_tiles():
    """Two 16x16 tiles of 16 pieces fit one list of 32."""
    found = gather_writes(nest("row-major", "tiles-16x16"), VERBS)

    assert found.nbytes == BYTES
    assert found.sges == BYTES // 32
    assert found.work_requests == BYTES // (32 * 32)


def test_one_tile_is_one_write_of_sixteen_pieces():
    tile = compile_nest(*[Layout.preset(name, {"s": 16, "d": 16}) for name in ("row-major", "tiles-16x16")])
    row = compile_nest(
        Layout.preset("row-major", {"s": 16, "d": 128}).narrow("d", 0, 16),
        Layout.preset("tiles-16x16", {"s": 16, "d": 16}),
    )

    assert gather_writes(tile, VERBS).work_requests == 1
    assert (gather_writes(row, VERBS).work_requests, gather_writes(row, VERBS).sges) == (1, 16)
    assert gather_writes(row, RequestLimits(max_sge=15)).work_requests == 2


def test_a_read_scatters_what_is_contiguous_at_the_source():
    found = scatter_reads(nest("row-major", "tiles-16x16"), VERBS)

    assert found.work_requests == BYTES // (32 * 32)
    assert scatter_reads(nest("pages-hnd", "row-major"), VERBS).sges == 80 * 2 * 8 * 2048


def test_a_long_run_is_cut_at_the_largest_message():
    same = nest("row-major", "row-major")

    assert gather_writes(same, RequestLimits(max_message_bytes=8 << 20)).work_requests == BYTES // (8 << 20)


def test_columns_of_tiles_through_strided_keys():
    (plan,) = [plan for plan in key_plans(nest("row-major", "nz"), VERBS) if plan.name == "strided"]

    assert (plan.writes, plan.source_keys, plan.destination_keys) == (10_240, 10_240, 0)
    assert plan.write_nbytes == 1 << 20
    assert (plan.source.nbytes, plan.source.skip, plan.source.repeat) == (32, 224, 32768)
    assert not plan.refused


def test_rows_of_tiles_need_a_key_at_both_ends():
    plan = key_plans(nest("row-major", "tiles-16x16"), VERBS)[0]

    assert (plan.writes, plan.source_keys, plan.destination_keys) == (10_240, 10_240, 10_240)
    assert plan.source_keys + plan.destination_keys == plan.invalidations == 20_480
    assert (plan.source.nbytes, plan.source.skip) == (32, 224)
    assert (plan.destination.nbytes, plan.destination.skip, plan.destination.repeat) == (512, 3584, 2048)


def test_pages_break_strided_keys_but_not_interleaved_ones():
    strided, interleaved, _ = key_plans(nest("pages-hnd", "tiles-16x16"), VERBS)

    assert strided.writes == 20_971_520
    assert (interleaved.writes, interleaved.destination_keys, interleaved.write_nbytes) == (
        2_621_440,
        0,
        4096,
    )
    assert (interleaved.source.entries, interleaved.source.nbytes, interleaved.source.skip) == (16, 32, 0)
    assert interleaved.source.repeat == 8


def test_a_stride_wider_than_sixteen_bits_is_refused_with_the_number():
    wide = nest("token-major", "nz", h=512)
    plan = key_plans(wide, VERBS)[0]

    assert plan.refused == "a stride of 131072 bytes; the device takes 65535 at most"
    assert "strided-keys" not in {
        s.name for s in applicable_strategies(wide, Costs(), VERBS) if not s.refused
    }


def test_the_cheapest_possible_strategy_is_chosen():
    found = applicable_strategies(nest("row-major", "tiles-16x16"), Costs(translate_bytes_per_s=400e9), VERBS)

    assert choose_strategy(found, among=["gather-writes", "tile-then-send"]).name == "tile-then-send"
    slow = applicable_strategies(nest("row-major", "tiles-16x16"), Costs(translate_bytes_per_s=1e9), VERBS)
    assert choose_strategy(slow, among=["gather-writes", "tile-then-send"]).name == "gather-writes"


def test_pieces_of_32_bytes_are_more_than_a_card_gathers_at_line_rate():
    found = {s.name: s for s in applicable_strategies(nest("row-major", "tiles-16x16"), Costs(), VERBS)}

    assert found["gather-writes"].limited_by == "descriptors"
    assert found["gather-writes"].seconds > 5 * BYTES / 50e9


def test_no_possible_strategy_is_an_error_with_every_reason():
    found = applicable_strategies(nest("token-major", "nz", h=512), Costs(), VERBS)

    with pytest.raises(LayoutError, match="strided-keys: a stride of 131072 bytes"):
        choose_strategy(found, among=["strided-keys"])


def test_an_empty_transfer_costs_nothing():
    empty = nest("row-major", "nz").window("s", 5, 5)

    assert [s.seconds for s in applicable_strategies(empty, Costs(), VERBS)] == [0, 0, 0, 0, 0]


def test_calibration_measures_this_machine():
    assert calibrate_costs().calibrated
    assert calibrate_costs().translate_bytes_per_s > 0


@pytest.mark.parametrize("change", [{"max_sge": 0}, {"max_message_bytes": 0}])
def test_limits_of_nothing_are_refused(change):
    with pytest.raises(LayoutError, match=next(iter(change))):
        RequestLimits(**change)
