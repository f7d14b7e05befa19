"""Layers in the cache, each by what it is made of: a change of our own code makes one small layer anew."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import cache, debian
from tests.support.errors import MissingToolError
from tests.support.supervisor import run

from .archive import Layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.progress import Progress

STEP_SECONDS = 600.0


def layer(name: str, key: str, fill: Callable[[Path], None], progress: Progress) -> Layer:
    """Return a cached layer, made by `fill` in an empty folder; `key` tells all that it depends on."""
    code = "".join(Path(__file__).with_name(f"{module}.py").read_text() for module in ("layers", "content"))
    short = hashlib.sha256(f"{code}\0{debian.release()}\0{key}".encode()).hexdigest()[:16]
    target = cache.root() / "layers" / f"{name}-{short}"
    if not target.is_dir():
        with cache.locked(f"layer-{name}", progress.say):
            if not target.is_dir():
                with progress.step(f"making the image's layer {name}"), cache.placed(target) as draft:
                    content = draft / "content"
                    content.mkdir()
                    fill(content)
                    pack(content, draft / "layer.tar")
                    (draft / "digest").write_text(sha256(draft / "layer.tar"))
                    for left in (content, draft / "tree"):
                        shutil.rmtree(left, ignore_errors=True)
                cache.drop_unused(target.parent, target, days=3)
    target.touch()
    return Layer(target / "layer.tar", (target / "digest").read_text())


def files(name: str, content: dict[str, Path], progress: Progress) -> Layer:
    """A layer of single files, by their paths in the image."""

    def fill(folder: Path) -> None:
        for path, source in content.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / path)

    key = {path: sha256(source) for path, source in content.items()}
    return layer(name, json.dumps(key, sort_keys=True), fill, progress)


def pack(folder: Path, target: Path) -> None:
    """Pack a folder so that the same files give the same bytes, owned by root."""
    words = ["tar", "--numeric-owner", "--owner=0", "--group=0", "--sort=name", "--mtime=@0", "-C", folder]
    code, output = run([*words, "-cf", target, "."], timeout=STEP_SECONDS)
    if code:
        raise MissingToolError(f"tar: {output}")


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
