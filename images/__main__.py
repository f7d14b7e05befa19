"""`python -m images [--registry R] [--tag T] [--archive]`

Build the images of operator and agents, R/hawkpool-operator:T and R/hawkpool-agent:T, with docker, podman or
buildah. Where none of them runs, or with --archive, write out/hawkpool-operator.tar and
out/hawkpool-agent.tar.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

from tests.support.errors import MissingToolError
from tests.support.progress import Progress

from . import content, engine
from .archive import write_archive

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str]) -> int:
    """Build both; 1 where something is missing or fails."""
    parser = argparse.ArgumentParser(prog="images", description=__doc__)
    parser.add_argument("--registry", default="")
    parser.add_argument("--tag", default=version("hawkpool"))
    parser.add_argument("--archive", action="store_true")
    given = parser.parse_args(words)
    progress = Progress()
    found = "" if given.archive else engine.running()
    try:
        for component in content.COMPONENTS:
            name = f"{given.registry}/hawkpool-{component}:{given.tag}".lstrip("/")
            if found:
                engine.build(found, component, name, content.ROOT)
                progress.say(f"{name}, built with {found}")
            else:
                _archive(component, name, progress)
    except (MissingToolError, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _archive(component: str, name: str, progress: Progress) -> None:
    target = content.ROOT / "out" / f"hawkpool-{component}.tar"
    target.parent.mkdir(exist_ok=True)
    built = content.build(component, name, progress)
    write_archive([built], target)
    sizes = " + ".join(f"{layer.size >> 20}" for layer in built.layers)
    progress.say(f"{name}: {built.size >> 20} MiB ({sizes}) in {target.relative_to(content.ROOT)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
