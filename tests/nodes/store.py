"""Images unpacked once into a containerd's store, which every node then gets a copy of, by hard links."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from images.archive import write_archive
from tests.support import cache
from tests.support.errors import MissingToolError
from tests.support.supervisor import Supervisor, run
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from images.archive import Image
    from tests.support.progress import Progress

    from .tools import Tools

IMPORT_SECONDS = 300.0
NAMESPACE = "k8s.io"


def unpacked(images: Sequence[Image], tools: Tools, progress: Progress) -> Path:
    """Return a containerd's root folder that holds the images, unpacked."""
    names = [(one.name, one.user, one.entrypoint, [layer.digest for layer in one.layers]) for one in images]
    target = cache.root() / "stores" / hashlib.sha256(repr(names).encode()).hexdigest()[:16]
    if not target.is_dir():
        with cache.locked("store", progress.say):
            if not target.is_dir():
                size = sum(layer.size for layer in {layer for one in images for layer in one.layers})
                with (
                    progress.step(f"unpacking {len(images)} images, {size >> 20} MiB"),
                    cache.placed(target) as draft,
                ):
                    _import(images, tools, draft)
                cache.drop_unused(target.parent, target, days=3)
    target.touch()
    return target


def _import(images: Sequence[Image], tools: Tools, folder: Path) -> None:
    with Supervisor() as supervisor:
        archive = supervisor.folder / "images.tar"
        write_archive(images, archive)
        socket = supervisor.folder / "containerd.sock"
        settings = supervisor.folder / "containerd.toml"
        settings.write_text(
            f'version = 2\nroot = "{folder}"\nstate = "{supervisor.folder}/state"\n'
            f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "{socket}"\n'
            f'[plugins."io.containerd.internal.v1.opt"]\npath = "{supervisor.folder}/opt"\n'
        )
        daemon = supervisor.spawn(["containerd", "--config", settings], env=tools.environment)
        client = ["ctr", "--address", str(socket), "--namespace", NAMESPACE]

        def answers() -> bool:
            daemon.check()
            return run([*client, "version"], timeout=30, env=tools.environment)[0] == 0

        until(answers, what="containerd's answer", timeout=60)
        code, output = run(
            [*client, "images", "import", archive], timeout=IMPORT_SECONDS, env=tools.environment
        )
        if code:
            raise MissingToolError(f"ctr images import: {output}")
        daemon.stop()


def copy(store: Path, target: Path) -> None:
    """Copy a store: files of images by hard links, which nobody writes to, databases whole."""
    shutil.copytree(store, target, symlinks=True, copy_function=_link)


def _link(source: str, target: str) -> None:
    if source.endswith(".db"):
        shutil.copy2(source, target)
    else:
        Path(target).hardlink_to(source)
