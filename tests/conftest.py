"""Shared by all tests: the cluster's fixtures, how hard properties try, and that no skip is silent."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

pytest_plugins = ["tests.cluster.fixtures"]

# A suite started in the background of a shell, or under nohup, ignores Ctrl-C or hang-ups, and so would every
# process that it starts: tests that end one by such a signal could only time out.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

# A suite checks results, not times; and a failed example is printed to be kept as a test, not put in a file.
# CI judges a change by examples that are always the same; everybody else looks for new ones.
hypothesis.settings.register_profile(
    "usual",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
    database=None,
    max_examples=40,
)
hypothesis.settings.load_profile("usual")
hypothesis.settings.register_profile("few", max_examples=25)
hypothesis.settings.register_profile("thorough", max_examples=1000)
hypothesis.settings.load_profile("usual")

# The layouts have hundreds of properties: few examples of each in the fast suite, the usual hundred under
# sanitizers, a thousand by `make fuzz`.
LAYOUTS = Path(__file__).parent / "unit" / "layouts"
LAYOUTS_PROFILE = os.environ.get("HAWK_TEST_PROFILE", "few")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a test whose tool is missing into a failure where CI runs: CI must have every tool."""
    return fail_missing_tool((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Import each module under its own profile of properties, which take theirs when they are defined.

    A module that is skipped as a whole for a missing tool is treated as a test is.
    """
    if isinstance(collector, pytest.Module):
        in_layouts = collector.path.is_relative_to(LAYOUTS)
        hypothesis.settings.load_profile(LAYOUTS_PROFILE if in_layouts else "usual")
    return fail_missing_tool((yield))


def fail_missing_tool(report: Report) -> Report:
    """Return the report, failed when it is a skip for a missing tool and CI is set."""
    if report.outcome == "skipped" and os.environ.get("CI") == "true" and isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        if reason.removeprefix("Skipped: ").startswith("missing tool"):
            report.outcome = "failed"
            report.longrepr = f"{path}:{line}: {reason} (a skip here, a failure in CI)"
    return report
