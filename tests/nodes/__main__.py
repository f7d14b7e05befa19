"""`python -m tests.nodes build | up`

build: what the suite needs. up: three nodes with the chart on them, until Ctrl-C; what it prints enters their
network and names the kubeconfig.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from tests.cluster.gobuild import BuildError
from tests.support.errors import MissingToolError
from tests.support.progress import Progress

from . import rig
from .release import Release


def main(words: list[str]) -> int:
    """Run one command; 2 for a wrong one, 1 where something is missing."""
    progress = Progress()
    try:
        match words:
            case ["build"]:
                rig.build(progress)
            case ["up"]:
                _up(progress)
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (MissingToolError, BuildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _up(progress: Progress) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores the first
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), rig.Rig.running(progress) as running:
        release = Release(running)
        release.install()
        progress.say(f"nsenter --target {os.getpid()} --net env KUBECONFIG={running.cluster.kubeconfig} bash")
        progress.say("Ctrl-C stops it")
        while True:
            for node in running.nodes.values():
                node.check()
            time.sleep(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
