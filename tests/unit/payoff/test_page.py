"""The page of a plan in a real browser: it fits a desk and a phone, in the light and in the dark."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest

from hawk_planner.payoff.page import html_page
from hawk_planner.payoff.plan import make_capacity_plan
from hawk_planner.payoff.results import plan_data
from hawk_planner.payoff.turning import turning_points

from .pools import question

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
PROBE = """<script>
const wide = [...document.querySelectorAll("table, p, h1, h2, div, th, td")]
  .filter(one => one.getBoundingClientRect().right > innerWidth + 1).length;
const shown = [...document.querySelectorAll("svg[role=img]")].filter(one =>
  one.getAttribute("aria-label") && one.getBoundingClientRect().height > 100).length;
const ink = getComputedStyle(document.body);
document.title = [document.documentElement.scrollWidth <= innerWidth, wide, shown,
  ink.color, ink.backgroundColor].join("|");
</script>"""


@pytest.fixture(scope="module")
def browser() -> str:
    """Chromium, where there is one."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium on this machine: the page is not looked at")
    return found


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a plan."""
    asked = question(requests_per_second=100.0)
    found = make_capacity_plan(asked)
    text = html_page("sample", found, plan_data(found, turning_points(asked.scenario)))
    path = tmp_path_factory.mktemp("page") / "plan.html"
    path.write_text(text.replace("</body>", PROBE + "</body>"))
    return path


def run(browser: str, drawn: Path, *words: str) -> str:
    """Return what the browser prints about the page."""
    profile = drawn.parent / "profile"
    flags = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={profile}",
    ]
    done = subprocess.run(
        [browser, *flags, *words, drawn.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def luminance(colour: str) -> float:
    """Relative luminance of rgb(r, g, b), as WCAG 2 defines it."""
    channels = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("width", [1280, 500])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_cut_off_and_all_can_be_read(browser: str, drawn: Path, width: int, dark: bool) -> None:
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    dom = run(browser, drawn, f"--window-size={width},2000", *scheme, "--dump-dom")
    title = re.search(r"<title>([^<]*)</title>", dom)
    assert title is not None
    fits, wide, shown, ink, paper = title[1].split("|")
    assert (fits, wide, shown) == ("true", "0", "4")
    light, dim = sorted((luminance(ink), luminance(paper)), reverse=True)
    assert (light + 0.05) / (dim + 0.05) > 7
    assert (luminance(ink) > luminance(paper)) is dark


def test_it_becomes_a_picture(browser: str, drawn: Path) -> None:
    shot = drawn.parent / "shot.png"
    run(browser, drawn, "--window-size=1000,800", f"--screenshot={shot}")
    head = shot.read_bytes()
    assert struct.unpack(">II", head[16:24]) == (1000, 800)
    assert len(head) > 20_000
