"""The documents' examples of layouts give the results that they show."""

import doctest
from pathlib import Path

import pytest

import hawk_agent.layouts
from hawk_agent.layouts import PRESETS

DOCUMENT = Path(__file__).parents[3] / "docs" / "layouts.md"


def test_the_page_on_layouts_shows_real_results():
    done = doctest.testfile(str(DOCUMENT), module_relative=False)

    assert done.attempted > 8
    assert done.failed == 0


def test_the_package_example_runs():
    done = doctest.testmod(hawk_agent.layouts)

    assert done.attempted > 3
    assert done.failed == 0


@pytest.mark.parametrize("name", ["row-major", "pages-hnd", "pages-nhd", "tiles-16x16", "tiles-32x32", "nz"])
def test_presets_that_the_api_names_exist(name):
    assert name in PRESETS


def test_the_public_names_are_these():
    found = ["CoverageError", "HeadExchange", "Layout", "LayoutError", "Mismatch", "Nest", "PRESETS"]
    found += ["Preset", "compile_nest", "head_exchanges", "heads_of_rank", "mismatches"]

    assert sorted(hawk_agent.layouts.__all__) == sorted(found)
