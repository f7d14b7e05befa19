"""Write the guest's first file system: a cpio archive in the kernel's "newc" format."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Mapping

DEVICES = {"dev/console": (5, 1), "dev/null": (1, 3)}


@dataclass(frozen=True)
class Entry:
    """One member: its name, mode (type and permissions), content, and device number where it is one."""

    name: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)

    def packed(self, inode: int) -> bytes:
        """The member as the kernel reads it: 13 numbers of 8 hex digits, the name, the content, padded."""
        name = self.name.encode() + b"\0"
        numbers = (inode, self.mode, 0, 0, 1, 0, len(self.content), 0, 0, *self.device, len(name), 0)
        header = b"070701" + b"".join(b"%08X" % number for number in numbers) + name
        return _padded(header) + _padded(self.content)


def write(archive: BinaryIO, files: Mapping[str, bytes]) -> None:
    """Write `files` (path without leading slash: content), executable, with their folders and two devices."""
    folders = {str(folder) for name in [*files, *DEVICES] for folder in PurePosixPath(name).parents} - {"."}
    entries = [Entry(folder, stat.S_IFDIR | 0o755) for folder in sorted(folders)]
    entries += [Entry(name, stat.S_IFCHR | 0o600, device=number) for name, number in DEVICES.items()]
    entries += [Entry(name, stat.S_IFREG | 0o755, content) for name, content in files.items()]
    archive.writelines(entry.packed(inode) for inode, entry in enumerate(entries, 1))
    archive.write(Entry("TRAILER!!!", 0).packed(0))


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
