"""Map a memory descriptor so that nobody can take its pages away, or make this process pay for them.

A file that shrinks while it is mapped kills the reader with SIGBUS; so the descriptor must carry the seal
against shrinking, and its real size is checked, not the claimed one. A page of shared memory is charged to
the cgroup that touches it first; so every page that a layout needs must be there already, and mapping touches
none.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import stat
from pathlib import Path
from typing import Final

from hawk_agent.errors import RegionError

F_ADD_SEALS: Final = 1033
F_GET_SEALS: Final = 1034
F_SEAL_SHRINK: Final = 0x0002
BLOCK_BYTES: Final = 512
"""The unit of st_blocks."""


def check_descriptor(descriptor: int, needed: int, label: str) -> int:
    """The descriptor's size in bytes. RegionError when it is no sealed memory or smaller than `needed`."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise RegionError(f"{label}: the descriptor is no memory (mode {status.st_mode:#o}); pass a memfd")
    if status.st_size < needed:
        raise RegionError(
            f"{label}: the descriptor holds {status.st_size} bytes, its layout needs {needed}; "
            "size the memfd to the layout, or correct the sizes"
        )
    _require_seal(descriptor, label)
    return status.st_size


def require_pages(descriptor: int, needed: int, label: str) -> None:
    """RegionError unless the first `needed` bytes have their pages. Walks them: milliseconds a gigabyte."""
    # Of its own description: looking for holes would move the owner's file position.
    own = reopen_read_only(descriptor)
    try:
        hole = os.lseek(own, 0, os.SEEK_HOLE)
        status = os.fstat(own)
    finally:
        os.close(own)
    # Pages that were allocated and not written yet look like holes, but their owner has paid for them.
    if hole >= needed or status.st_blocks * BLOCK_BYTES >= status.st_size:
        return
    raise RegionError(
        f"{label}: its layout needs {needed} bytes and no page was ever written at byte {hole}, so the agent "
        "would be charged for the engine's memory; the engine must populate it first, as "
        "hawk_agent.client.allocate_shared does (MAP_POPULATE, posix_fallocate, or by writing)"
    )


def _require_seal(descriptor: int, label: str) -> None:
    """Add the seal where the owner forgot it; refuse where that isn't possible."""
    try:
        if fcntl.fcntl(descriptor, F_GET_SEALS) & F_SEAL_SHRINK:
            return
        fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK)
    except OSError as error:
        raise RegionError(
            f"{label}: the descriptor can't be sealed against shrinking ({error.strerror}); "
            "create it with memfd_create and MFD_ALLOW_SEALING"
        ) from error


def map_memory(descriptor: int, nbytes: int, *, writable: bool, label: str) -> mmap.mmap:
    """A shared mapping of the first `nbytes`, of which nothing is touched. RegionError when there is no room.

    Populating it here would charge this process's cgroup with pages that the owner never wrote, and would
    take a seventh of a second a gigabyte.
    """
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    try:
        return mmap.mmap(descriptor, nbytes, flags=mmap.MAP_SHARED, prot=protection)
    except (OSError, ValueError) as error:
        raise RegionError(f"{label}: {nbytes} bytes can't be mapped ({error})") from error


def unmap_memory(memory: mmap.mmap) -> None:
    """Unmap. A view that somebody still holds (a traceback, say) unmaps it when it goes."""
    with contextlib.suppress(BufferError):
        memory.close()


def reopen_read_only(descriptor: int) -> int:
    """A second description of the same memory that can't write: what a peer on this host may have."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)


def is_eventfd(descriptor: int) -> bool:
    """True if a descriptor is an eventfd."""
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink()) == "anon_inode:[eventfd]"
    except OSError:
        return False
