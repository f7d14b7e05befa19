"""Flags over variables over defaults; what can't work is refused with its name."""

from __future__ import annotations

import pytest

from hawk_api.settings import SettingsError
from hawk_operator.runtime.settings import OperatorSettings

parse = OperatorSettings.read


def test_flags_win_over_variables_over_defaults(monkeypatch):
    monkeypatch.setenv("HAWK_OPERATOR_RESYNC", "9")
    monkeypatch.setenv("HAWK_OPERATOR_NAMESPACE", "team")
    found = parse(["--resync=7"])

    assert (found.resync, found.namespace, found.system_namespace) == (7.0, "team", "hawk-system")
    assert found.identity


def test_two_processes_have_two_identities_unless_told():
    assert parse(["--identity=me"]).identity == "me"
    assert "-" in parse([]).identity


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--resync=0"], ["--resync", "0"]),
        (["--resync=nan"], ["--resync"]),
        (["--lease-duration=5"], ["--renew-deadline", "--lease-duration"]),
        (["--retry-period=12"], ["--retry-period"]),
        (["--workers=0"], ["--workers", "1 to 64"]),
        (["--metrics-port=70000"], ["--metrics-port", "70000"]),
        (["--log-format=xml"], ["--log-format", "xml"]),
    ],
)
def test_bad_values_are_named(arguments, words):
    with pytest.raises(SettingsError) as caught:
        parse(arguments)
    for word in words:
        assert word in str(caught.value)


def test_unknown_flags_end_the_process_with_2(capsys):
    with pytest.raises(SystemExit) as caught:
        parse(["--no-such-flag"])

    assert caught.value.code == 2
    assert "no-such-flag" in capsys.readouterr().err
