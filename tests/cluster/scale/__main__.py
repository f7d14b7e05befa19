"""1,000 pools and 10,000 nodes under one operator on a real API server; writes out/scale.json.

make soak-scale                       all of it, a quarter of an hour on two cores
python -m tests.cluster.scale --pools 100 --nodes 1000 --idle 60
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.scale import fleet
from tests.cluster.scale.soak import Soak, install_crds, report
from tests.support.progress import Progress
from tests.support.supervisor import Supervisor


def main() -> int:
    """Run it; 0 when every goal is reached."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--pools", type=int, default=1000)
    options.add_argument("--nodes", type=int, default=10_000)
    options.add_argument("--idle", type=float, default=120.0, help="seconds of each of two idle spells")
    options.add_argument("--out", type=Path, default=Path("out/scale.json"))
    chosen = options.parse_args()
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - begun:6.0f} s] {text}", flush=True)

    with Cluster.running(Progress()) as cluster, Supervisor() as processes:
        install_crds(cluster)
        soak = Soak(cluster, processes, fleet.Size(chosen.pools, chosen.nodes), say)
        try:
            figures = soak.run(chosen.idle)
        except BaseException:
            log = processes.folder / "operator.log"
            if log.exists():
                print(log.read_text(errors="replace")[-6000:], file=sys.stderr)
            raise
    print(report(figures, chosen.out))
    missed = figures.missed()
    for text in missed:
        print(f"MISSED: {text}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
