"""One definition of an option gives its flag, variable, default, bounds, help and row of the table."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from hawk_api.settings import Names, NamesOption, ProcessSettings, SettingsError, TimeSpan, TimeSpanOption


class Kettle(ProcessSettings):
    """Boils water."""

    model_config = SettingsConfigDict(env_prefix="HAWK_KETTLE_", cli_prog_name="hawk-kettle")

    name: str
    """Its name."""
    water: Annotated[float, Field(gt=0, lt=2)] = 1.0
    """Litres."""
    cups: Annotated[int, Field(ge=1, le=8)] = 2
    """Cups to fill."""
    lid: Literal["open", "shut"] = "shut"
    """Where the lid is."""
    whistle: bool = True
    """Tell when it is done."""
    teas: NamesOption = Names(("mint", "rooibos"))
    """The drink to brew."""
    steep: TimeSpanOption = TimeSpan(0.2)
    """How long."""
    limit: Annotated[int | None, Field(ge=0, le=9)] = None
    """Kettles at one time; without, any number."""

    @model_validator(mode="after")
    def _fits(self) -> Kettle:
        if self.water < self.cups / 10:
            raise ValueError(f"--water {self.water:g}: too little for --cups {self.cups}; give more")
        return self


def test_flags_win_over_variables_over_defaults(monkeypatch):
    monkeypatch.setenv("HAWK_KETTLE_CUPS", "3")
    monkeypatch.setenv("HAWK_KETTLE_WATER", "1.5")
    monkeypatch.setenv("HAWK_KETTLE_LID", "")
    monkeypatch.setenv("HAWK_KETTLE_TEAS", "sage, fennel")
    made = Kettle.read(["--name=null", "--cups", "4", "--no-whistle", "--limit=0"])

    assert (made.name, made.cups, made.water, made.lid) == ("null", 4, 1.5, "shut")
    assert (made.whistle, made.limit) == (False, 0)
    assert (made.teas, made.steep) == (("sage", "fennel"), 0.2)


def test_names_are_separated_by_commas_or_repeated():
    assert Kettle.read(["--name=a", "--teas=b,c", "--teas", "d"]).teas == ("b", "c", "d")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--cups=1", "--name: missing; give it, or set HAWK_KETTLE_NAME"),
        ("--name=a --cups=9", "--cups: '9' is not allowed; use a whole number, 1 to 8"),
        ("--name=a --cups=many", "--cups: 'many' is not allowed; use a whole number, 1 to 8"),
        ("--name=a --water=nan", "--water: 'nan' is not allowed; use a number, above 0 and below 2"),
        ("--name=a --lid=lost", "--lid: 'lost' is not allowed; use open or shut"),
        ("--name=a --steep=5", "--steep: '5' is not a duration; write a number with a unit"),
        ("--name=a --water=0.1", "--water 0.1: too little for --cups 2; give more"),
    ],
)
def test_a_bad_flag_is_named_with_its_remedy(arguments, words):
    with pytest.raises(SettingsError) as caught:
        Kettle.read(arguments.split())

    assert words in str(caught.value)


def test_a_bad_variable_is_named_as_one_and_every_mistake_is_said(monkeypatch):
    monkeypatch.setenv("HAWK_KETTLE_CUPS", "0")
    monkeypatch.setenv("HAWK_KETTLE_WHISTLE", "perhaps")
    with pytest.raises(SettingsError) as caught:
        Kettle.read(["--name=a", "--lid=lost"])

    assert sorted(str(caught.value).splitlines()) == [
        "--lid: 'lost' is not allowed; use open or shut",
        "HAWK_KETTLE_CUPS: '0' is not allowed; use a whole number, 1 to 8",
        "HAWK_KETTLE_WHISTLE: 'perhaps' is not allowed; use true or false",
    ]


@given(st.text() | st.text("[]{},\"'= a\\-", max_size=8))
@example("--")
def test_any_text_for_names_is_read_or_refused(text):
    try:
        found = Kettle.read(["--name=a", f"--teas={text}"])
    except SettingsError:
        return
    assert all(name and "," not in name for name in found.teas)


def test_an_unknown_flag_ends_the_process_with_2(capsys):
    with pytest.raises(SystemExit) as caught:
        Kettle.read(["--name=a", "--no-such-flag"])

    assert caught.value.code == 2
    assert "--no-such-flag" in capsys.readouterr().err


def test_help_and_table_say_flag_variable_default_and_bounds(capsys):
    with pytest.raises(SystemExit) as caught:
        Kettle.read(["--help"])
    helped = " ".join(capsys.readouterr().out.split())

    assert caught.value.code == 0
    assert "--cups int Cups to fill; 1 to 8. (default: 2) [env: HAWK_KETTLE_CUPS]" in helped
    assert "--steep TimeSpan How long. (default: 200ms) [env: HAWK_KETTLE_STEEP]" in helped
    assert "--teas Names The drink to brew. (default: mint,rooibos)" in helped
    assert "any number; 0 to 9. [env: HAWK_KETTLE_LIMIT]" in helped
    rows = list(Kettle.table())
    assert "| `--name` | `HAWK_KETTLE_NAME` | required | Its name. |" in rows
    assert "| `--water` | `HAWK_KETTLE_WATER` | `1` | Litres; above 0 and below 2. |" in rows
    assert "| `--whistle` | `HAWK_KETTLE_WHISTLE` | `true` | Tell when it is done. |" in rows
    assert "| `--lid` | `HAWK_KETTLE_LID` | `shut` | Where the lid is; open or shut. |" in rows
