"""The guest's kernel: taken out of the distribution's package, unpacked for a fast boot, cached."""

from __future__ import annotations

import hashlib
import lzma
import re
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import cache, debian
from tests.support.errors import MissingToolError
from tests.support.supervisor import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.progress import Progress

META_PACKAGES = ("linux-image-amd64", "linux-image-generic")
MODULES = (
    "virtio_pci", "virtio_blk", "ext4", "9pnet_virtio", "9p", "overlay", "virtio_rng",
    "crc32_generic", "crc32c_generic", "ib_uverbs", "rdma_ucm", "rdma_rxe", "veth", "sch_netem",
)  # fmt: skip
UNPACK_SECONDS = 120.0


@dataclass(frozen=True)
class Kernel:
    """An uncompressed kernel image, and the modules to load, in an order that satisfies each."""

    image: Path
    modules: tuple[Path, ...]


def kernel(progress: Progress) -> Kernel:
    """Return the guest's kernel, fetching it once; raises MissingToolError."""
    key = hashlib.sha256(" ".join(MODULES).encode()).hexdigest()[:10]
    folder = cache.root() / "kernels" / f"{debian.release()}-{key}"
    if not folder.is_dir():
        with cache.locked("kernel", progress.say):
            if not folder.is_dir():
                with progress.step("fetching the guest's kernel"), cache.placed(folder) as draft:
                    _build(draft)
                cache.drop_unused(folder.parent, folder)
    folder.touch()
    order = (folder / "order").read_text().split()
    return Kernel(folder / "vmlinux", tuple(folder / "modules" / name for name in order))


def _build(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        tree, debs = Path(scratch) / "tree", Path(scratch) / "debs"
        tree.mkdir()
        debs.mkdir()
        for deb in debian.download(_packages(debs), debs):
            debian.unpack(deb, tree)
        [release] = [path for path in (tree / "usr/lib/modules").iterdir() if path.is_dir()]
        # Beside the modules from Debian 13 on.
        images = [tree / "boot" / f"vmlinuz-{release.name}", release / "vmlinuz"]
        image = next(path for path in images if path.exists())
        (target / "vmlinux").write_bytes(uncompressed_image(image.read_bytes()))
        (target / "modules").mkdir()
        order = []
        for name, content in closure(MODULES, release):
            (target / "modules" / f"{name}.ko").write_bytes(content)
            order.append(f"{name}.ko")
        (target / "order").write_text("\n".join(order) + "\n")


def _packages(cwd: Path) -> list[str]:
    """The packages with the image and the modules that the distribution's newest kernel is made of."""
    for meta in META_PACKAGES:
        try:
            found, todo = set[str](), [meta]
            while todo:
                wanted = [name for name in debian.depends(todo.pop(), cwd) if _holds_kernel(name)]
                todo += [name for name in wanted if name not in found]
                found.update(wanted)
        except MissingToolError as error:
            reason = error
        else:
            return sorted(found)
    raise reason


def _holds_kernel(package: str) -> bool:
    return bool(re.match(r"linux-(image|modules|modules-extra)-\d", package)) and "unsigned" not in package


def uncompressed_image(image: bytes) -> bytes:
    """Return the ELF file inside a bzImage, for an emulated processor takes long to unpack it.

    The offsets are those of the x86 boot protocol's header. Raises MissingToolError for what isn't one.
    """
    if image[0x202:0x206] != b"HdrS":
        raise MissingToolError("the kernel package's image has no x86 boot header; choose another kernel")
    setup_sectors = image[0x1F1] or 4
    start = (setup_sectors + 1) * 512 + int.from_bytes(image[0x248:0x24C], "little")
    payload = image[start : start + int.from_bytes(image[0x24C:0x250], "little")]
    unpacked = unpack(payload)
    if not unpacked.startswith(b"\x7fELF"):
        raise MissingToolError("the kernel package's image holds no ELF file; choose another kernel")
    return unpacked


def unpack(data: bytes) -> bytes:
    """Return `data` unpacked by the method that its first bytes name; as it is when they name none."""
    if data.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(data)
    if data.startswith(b"\x1f\x8b\x08"):
        return zlib.decompressobj(wbits=31).decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return _unzstd(data)
    return data


def _unzstd(data: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        packed, plain = Path(scratch) / "packed", Path(scratch) / "plain"
        packed.write_bytes(data)
        # zstd unpacks all there is before it complains about what the kernel's builder put behind the frame.
        run(["zstd", "--decompress", "--quiet", "-o", plain, packed], timeout=UNPACK_SECONDS)
        if not plain.exists():
            raise MissingToolError("this kernel is packed by zstd: install the zstd command")
        return plain.read_bytes()


def closure(names: Sequence[str], release: Path) -> Iterator[tuple[str, bytes]]:
    """Give each module and, before it, those it depends on, as (name, ELF file); built-in ones are left out.

    `release` is the kernel's folder of modules. Raises MissingToolError for a name that it doesn't have.
    """
    files = {_module_name(path): path for path in release.rglob("*.ko*")}
    builtin = {_module_name(Path(line)) for line in (release / "modules.builtin").read_text().split()}
    done = set(builtin)

    def visit(name: str) -> Iterator[tuple[str, bytes]]:
        if name in done:
            return
        done.add(name)
        if name not in files:
            raise MissingToolError(f"kernel {release.name} has no module {name}")
        content = unpack(files[name].read_bytes())
        for needed in dependencies(content):
            yield from visit(needed)
        yield name, content

    for name in names:
        yield from visit(name)


def dependencies(module: bytes) -> list[str]:
    """Return the names of the modules that a module's .modinfo says it needs."""
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    return [_module_name(Path(name)) for name in found[1].decode().split(",") if name] if found else []


def _module_name(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")
