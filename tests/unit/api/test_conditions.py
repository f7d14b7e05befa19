import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hawk_api.conditions import Condition, ConditionType, make_condition, set_condition
from hawk_api.reasons import Reason

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)


def test_the_transition_time_stays_while_the_status_does() -> None:
    first = set_condition((), make_condition("Ready", False, Reason.WAITING, "one"), NOON)
    second = set_condition(first, make_condition("Ready", False, Reason.NO_AGENT, "two"), LATER)

    assert [(c.reason, c.message, c.last_transition_time) for c in second] == [("NoAgent", "two", NOON)]


def test_the_transition_time_moves_with_the_status() -> None:
    first = set_condition((), make_condition("Ready", False, Reason.WAITING), NOON)
    second = set_condition(first, make_condition("Ready", None, Reason.NOT_OBSERVED), LATER)

    assert [c.last_transition_time for c in second] == [LATER]


@given(st.lists(st.tuples(st.sampled_from(ConditionType), st.sampled_from([True, False, None])), max_size=20))
def test_conditions_are_a_map_by_type_in_order_of_first_mention(
    changes: list[tuple[str, bool | None]],
) -> None:
    held: tuple[Condition, ...] = ()
    for minute, (kind, status) in enumerate(changes):
        held = set_condition(
            held, make_condition(kind, status, Reason.AS_EXPECTED), NOON + timedelta(minutes=minute)
        )

    last = dict(changes)
    assert [c.type for c in held] == list(dict.fromkeys(kind for kind, _ in changes))
    assert [c.status for c in held] == [
        {True: "True", False: "False", None: "Unknown"}[last[c.type]] for c in held
    ]


def test_setting_the_same_again_changes_nothing_that_is_written() -> None:
    once = set_condition(
        (), make_condition("Ready", True, Reason.AS_EXPECTED), NOON + timedelta(microseconds=7)
    )
    read_back = tuple(Condition.model_validate(c.to_dict()) for c in once)

    assert set_condition(read_back, make_condition("Ready", True, Reason.AS_EXPECTED), LATER) == once


def test_a_long_message_is_cut_to_what_the_api_takes() -> None:
    made = make_condition("Ready", False, Reason.CHILD_REFUSED, "x" * 5000)

    assert len(made.message) == 1024
    assert made.message.endswith("…")


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="time zone"):
        Condition(type="Ready", status="True", reason="X", last_transition_time=datetime(2026, 1, 1))


def test_time_is_written_as_kubernetes_writes_it() -> None:
    [held] = set_condition((), make_condition("Ready", True, Reason.AS_EXPECTED), NOON)

    assert held.to_dict()["lastTransitionTime"] == "2026-01-01T12:00:00Z"


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_explains_itself(reason: Reason) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z]{1,63}", reason)
    assert reason.meaning.endswith(".")
    assert not reason.remedy or reason.remedy.endswith(".")
    assert make_condition("Ready", False, reason).reason == reason
