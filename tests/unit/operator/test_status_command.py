"""`hawk status` on a pool."""

from __future__ import annotations

import json

import pytest

from hawk_api.conditions import make_condition
from hawk_api.reasons import Reason
from hawk_api.v1alpha1 import HawkPoolStatus
from hawk_cli.commands.status import _table, findings, report_pool
from hawk_cli.support import output


def body(*conditions, generation: int = 2, observed: int | None = 2):
    status = HawkPoolStatus(
        observed_generation=observed, conditions=conditions, prefill=2, decode=3, ratio="2:3", ttft=0.183
    )
    return {
        "metadata": {"name": "llama", "namespace": "ns", "generation": generation},
        "status": status.to_dict(),
    }


def test_what_is_wrong_comes_with_its_remedy(capsys):
    found = report_pool(
        body(
            make_condition("Ready", False, Reason.LINKS_DOWN, "Wired: n1 to n2"),
            make_condition("Wired", False, Reason.LINKS_DOWN, "n1 to n2: PeerUnreachable"),
            make_condition("LayoutsCompatible", True, Reason.AS_EXPECTED),
            make_condition("PaysOff", None, Reason.NOT_ENOUGH_KNOWN),
            make_condition("Draining", False, Reason.IDLE),
            make_condition("TransferVerified", None, Reason.NO_TRANSFERS),
        )
    )

    assert (found.ready, found.ttft_seconds) == ("False", 0.183)
    assert [item.condition for item in found.findings] == ["Wired", "TransferVerified"]
    assert found.findings[0].remedy == Reason.LINKS_DOWN.remedy
    output.emit_output({"pools": [found]}, output.Output.TABLE, lambda: _table([found]))
    printed = capsys.readouterr().out
    for words in ("2:3", "183 ms", "PeerUnreachable", Reason.LINKS_DOWN.remedy):
        assert words in printed
    output.emit_output({"pools": [found]}, output.Output.JSON, lambda: _table([found]))
    assert json.loads(capsys.readouterr().out)["pools"][0]["findings"][0]["reason"] == "LinksDown"


@pytest.mark.parametrize("observed", [None, 1])
def test_an_operator_that_is_behind_or_absent_is_the_first_finding(observed):
    [found] = findings(HawkPoolStatus(observed_generation=observed), 2)

    assert found.reason == "NotObserved"
    assert "operator" in found.remedy


def test_a_reason_of_a_newer_release_is_shown_as_it_is():
    status = HawkPoolStatus(
        observed_generation=2, conditions=(make_condition("Wired", False, "FromTheFuture", "x"),)
    )
    [found] = findings(status, 2)

    assert (found.reason, found.remedy) == ("FromTheFuture", "")


def test_nothing_is_said_of_a_pool_that_is_well():
    assert report_pool(body(make_condition("Ready", True, Reason.AS_EXPECTED))).findings == []
