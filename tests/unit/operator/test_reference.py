"""The page of conditions says what the code says."""

from __future__ import annotations

from hawk_api.reasons import Reason
from hawk_operator.status.reference import PAGE, conditions_page


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == conditions_page()


def test_every_reason_has_its_section():
    text = conditions_page()

    assert all(f"### {reason}\n" in text for reason in Reason)
