"""The whole table: sizes, pairs of layouts, processes, peers. Writes out/bench.json and out/bench.png.

    make bench                        all of it, minutes
    .venv/bin/python -m tests.bench --rounds 5 --no-peers

A peer that can't run here is named in the result with its reason, and the rest goes on.
"""

import argparse
import json
import platform
from pathlib import Path

from hawk_agent.bench.between import bench_between
from hawk_agent.bench.copying import bench_copy
from hawk_agent.bench.errors import BenchError

SIZES = (16, 64, 256)
PEERS = ("nixl", "mooncake")
PLOTTED = ("memcpy", "nt_memcpy", "nixl", "nixl_transposed", "nixl_numpy", "mooncake", "mooncake_transposed")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--no-peers", action="store_true")
    options.add_argument("--out", type=Path, default=Path("out"))
    chosen = options.parse_args()
    found: dict[str, object] = {"machine": machine()}
    for size in SIZES:
        print(f"==> one process, {size} MiB", flush=True)
        found[f"copy_{size}_mib"] = bench_copy(size, chosen.rounds)
    print("==> between processes, 64 MiB", flush=True)
    between = bench_between(64, chosen.rounds)
    for name in () if chosen.no_peers else PEERS:
        print(f"==> {name}", flush=True)
        try:
            between |= {k: v for k, v in bench_between(64, chosen.rounds, peers=(name,)).items() if name in k}
        except BenchError as error:
            found[f"{name}_refused"] = str(error)
            print(f"    {error}", flush=True)
    found["between"] = between
    chosen.out.mkdir(exist_ok=True)
    (chosen.out / "bench.json").write_text(json.dumps(found, indent=2) + "\n")
    plot(between, chosen.out / "bench.png")
    print(f"{chosen.out}/bench.json, {chosen.out}/bench.png")


def machine() -> dict[str, str]:
    """What ran it: ratios of one machine say little about another."""
    names = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": str(len(names)),
        "system": platform.platform(),
    }


def plot(between: dict[str, object], target: Path) -> None:
    """Times between processes, against the fused copy's."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    fused = between["process_fused_seconds"]
    names = ["fused", *(name for name in PLOTTED if f"process_{name}_seconds" in between)]
    times = [between[f"process_{name}_seconds"] / fused for name in names]
    figure, axes = plt.subplots(figsize=(7, 0.45 * len(names) + 1))
    axes.barh(names[::-1], times[::-1], color="#4a7fb5")
    axes.set_xlabel("time for 64 MiB, row-major to 16x16 tiles, fused copy = 1")
    figure.tight_layout()
    figure.savefig(target)
    plt.close(figure)


if __name__ == "__main__":
    main()
