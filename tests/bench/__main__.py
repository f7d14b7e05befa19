"""The whole table: sizes, pairs of layouts, processes, baselines. Writes out/bench.json and out/bench.png.

    make bench                        all of it, minutes
    .venv/bin/python -m tests.bench --rounds 5 --no-baselines

A baseline that can't run here is named in the result with its reason, and the rest goes on.
"""

import argparse
import json
import platform
from pathlib import Path

from hawk_cli.bench.between import bench_between, bench_descriptors
from hawk_cli.bench.copying import bench_copy
from hawk_cli.bench.digesting import bench_digest
from hawk_cli.bench.errors import BenchError
from hawk_cli.bench.network import bench_tcp
from hawk_cli.bench.planning import bench_plan

SIZES = (16, 64, 256)
BASELINES = ("nixl", "mooncake")
PLOTTED = {
    "memcpy": "memcpy",
    "nt_memcpy": "non-temporal memcpy",
    "cma": "cross-memory attach, untranslated",
    "cma_bounce": "cross-memory attach, translated",
    "nixl": "NIXL, untranslated",
    "nixl_transposed": "NIXL + C transposition",
    "nixl_numpy": "NIXL + numpy",
    "mooncake": "Mooncake, untranslated",
    "mooncake_transposed": "Mooncake + C transposition",
    "mooncake_numpy": "Mooncake + numpy",
}


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--no-baselines", action="store_true")
    options.add_argument("--out", type=Path, default=Path("out"))
    chosen = options.parse_args()
    found: dict[str, object] = {"machine": machine()}
    for size in SIZES:
        print(f"==> one process, {size} MiB", flush=True)
        found[f"copy_{size}_mib"] = bench_copy(size, chosen.rounds)
    print("==> digests, TCP, plans", flush=True)
    found["digest"] = bench_digest(64, chosen.rounds)
    found["tcp"] = bench_tcp(64, chosen.rounds)
    found["plan"] = bench_plan(chosen.rounds)
    print("==> between processes, 64 MiB", flush=True)
    between = bench_between(64, chosen.rounds)
    for name in () if chosen.no_baselines else BASELINES:
        print(f"==> {name}", flush=True)
        try:
            between |= {
                k: v for k, v in bench_between(64, chosen.rounds, baselines=(name,)).items() if name in k
            }
            if name == "nixl":
                found["descriptors"] = bench_descriptors(4, 5)
        except BenchError as error:
            found[f"{name}_refused"] = str(error)
            print(f"    {error}", flush=True)
    found["between"] = between
    chosen.out.mkdir(exist_ok=True)
    (chosen.out / "bench.json").write_text(json.dumps(found, indent=2) + "\n")
    plot(between, chosen.out / "bench.png")
    print(f"{chosen.out}/bench.json, {chosen.out}/bench.png")


def machine() -> dict[str, str]:
    """The machine that ran it: ratios of one machine say little about another."""
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
    cases = ["fused", *(name for name in PLOTTED if f"process_{name}_seconds" in between)]
    times = [between[f"process_{name}_seconds"] / fused for name in cases]
    names = [PLOTTED.get(name, "HawkPool, translated") for name in cases]
    figure, axes = plt.subplots(figsize=(7, 0.45 * len(names) + 1))
    axes.barh(names[::-1], times[::-1], color="#4a7fb5")
    for place, time in enumerate(times[::-1]):
        axes.text(time, place, f" {time:.2f}", va="center")
    axes.margins(x=0.12)
    axes.set_xlabel("time for 64 MiB between processes, row-major to tiles = 1")
    figure.tight_layout()
    figure.savefig(target)
    plt.close(figure)


if __name__ == "__main__":
    main()
