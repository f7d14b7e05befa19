"""Run the demo's transfer and kill steps over RDMA; exits with 0 if every step passed and 1 if one failed.

It runs where the devices are; `make demo-rdma` starts it in the guest.
"""

import argparse
import contextlib
import os
import sys
from contextlib import closing
from copy import deepcopy

from tests.e2e.demo.report import DemoError, Report
from tests.support.ports import Ports
from tests.support.supervisor import Supervisor

from .stage import NODES, Stage
from .steps import STEPS, Demo

BREAKS = ("swap-heads", "drop-chunk", "stale-epoch")


def devices() -> dict[str, str]:
    """The devices by role, as the rig says; raises SystemExit where there are none."""
    names = [entry.partition("=")[0] for entry in os.environ.get("HAWK_RDMA_DEVICES", "").split(",")]
    if not all(names):
        raise SystemExit("error: no RDMA devices here: run make demo-rdma")
    return dict(zip(NODES, (names[0], names[-1]), strict=True))


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="make demo-rdma", description=__doc__)
    parser.add_argument("--break", dest="broken", choices=BREAKS, default="", help="break it; it must fail")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.add_argument("--transports", default="verbs", help="the agents' data path")
    arguments = parser.parse_args()
    # A part that is broken from the start fails before the controls, or at them for a reason of its own.
    steps = [step for step in deepcopy(STEPS) if not (arguments.broken and step.name == "controls")]
    with (
        Report(steps, as_json=arguments.output == "json") as report,
        Supervisor() as supervisor,
        Ports() as ports,
        closing(Stage(supervisor, ports, devices(), arguments.transports)) as stage,
        contextlib.suppress(DemoError),  # the report has it
    ):
        report.drive(Demo(stage, report, arguments.broken))
    report.finish()
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
