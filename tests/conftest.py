"""What every test shares: the cluster's fixtures, and that no test is skipped in silence."""

from __future__ import annotations

import os
import signal
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
hypothesis.settings.register_profile(
    "hawk",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
    database=None,
)
hypothesis.settings.load_profile("hawk")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a test whose tool is missing into a failure where CI runs: CI must have every tool."""
    return fail_missing_tool((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module that is skipped."""
    return fail_missing_tool((yield))


def fail_missing_tool(report: Report) -> Report:
    """Return the report, failed when it is a skip for a missing tool and CI is set."""
    if report.outcome == "skipped" and os.environ.get("CI") == "true" and isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        if reason.removeprefix("Skipped: ").startswith("missing tool"):
            report.outcome = "failed"
            report.longrepr = f"{path}:{line}: {reason} (a skip here, a failure in CI)"
    return report
