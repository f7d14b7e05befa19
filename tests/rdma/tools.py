"""The programs and libraries that the rig needs: Debian's packages, unpacked in the cache."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import debian
from tests.support.errors import MissingToolError
from tests.support.supervisor import run

if TYPE_CHECKING:
    from tests.support.progress import Progress

PACKAGES = (
    "busybox-static", "qemu-system-x86", "iproute2",
    "ibverbs-providers", "ibverbs-utils", "libibverbs-dev", "python3-pyverbs",
)  # fmt: skip
LIBRARIES = "usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Tools:
    """A folder whose usr and etc lie over the system's own."""

    folder: Path

    def program(self, name: str) -> Path:
        """Return a program of the folder, or else the system's; raises MissingToolError."""
        for place in ("usr/bin", "usr/sbin"):
            if (path := self.folder / place / name).exists():
                return path
        if found := shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"):
            return Path(found)
        raise MissingToolError(f"{name}: neither in {self.folder} nor on PATH; remove that folder, run again")

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables by which a program of the folder finds its libraries on the host."""
        library = str(self.folder / LIBRARIES)
        return {"LD_LIBRARY_PATH": library, "QEMU_MODULE_DIR": f"{library}/qemu"}


def tools(progress: Progress) -> Tools:
    """Return them, fetching them once; raises MissingToolError where this machine can't have them."""
    if platform.machine() != "x86_64":
        raise MissingToolError(f"the guest is an x86-64 one; on {platform.machine()} use the host's devices")
    found = Tools(debian.unpacked("rdma", PACKAGES, progress))
    code, output = run([found.program("qemu-system-x86_64"), "--version"], timeout=60, env=found.environment)
    if code:
        raise MissingToolError(
            f"QEMU does not start, which happens when the system's libraries changed since it was fetched; "
            f"remove {found.folder} and run again: {output}"
        )
    return found
