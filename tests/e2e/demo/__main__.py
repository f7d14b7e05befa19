"""`make demo`: run the main job, show it, exit with 0 if every step passed and 1 if one failed."""

import argparse
import sys
from copy import deepcopy
from pathlib import Path

from hawk_planner.simulate import traces
from tests.support.progress import Progress

from .exporter import Mix
from .report import DemoError, Report
from .stage import Stage
from .steps import RETRIEVAL, STEPS, Demo

BREAKS = ("swap-heads", "drop-chunk", "stale-epoch", "no-metrics")


def mix_of(trace: traces.Trace) -> Mix:
    """The mix of a trace: its mean lengths, at the rate that the demo's small devices are made for."""
    count = len(trace.requests)
    return Mix(
        trace.name,
        requests_per_second=20,
        prompt_tokens=sum(request.prompt for request in trace.requests) / count,
        output_tokens=max(1.0, sum(request.output for request in trace.requests) / count),
    )


def _names(text: str) -> list[str]:
    known = {step.name for step in STEPS}
    if unknown := set(text.split(",")) - known:
        raise argparse.ArgumentTypeError(f"unknown {', '.join(sorted(unknown))}; use {', '.join(known)}")
    return text.split(",")


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--break", dest="broken", choices=BREAKS, default="", help="break it; it must fail")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.add_argument("--trace", type=Path, help="a trace file whose mix is played too")
    parser.add_argument("--steps", type=_names, default=[step.name for step in STEPS], help="a,b: only these")
    arguments = parser.parse_args()
    chosen = [deepcopy(step) for step in STEPS if step.name in arguments.steps]
    mixes = [mix_of(traces.load_trace(arguments.trace))] if arguments.trace else []
    with Report(chosen, as_json=arguments.output == "json") as report:
        try:
            with Stage.set_up(RETRIEVAL, Progress(), scraped=arguments.broken != "no-metrics") as stage:
                report.drive(Demo(stage, report, arguments.broken, mixes))
        except DemoError:
            pass  # the report has it
        except KeyboardInterrupt:
            report.say("interrupted; everything is being ended")
    report.finish()
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
