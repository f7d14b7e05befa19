"""Memory registered with a device: cut at its limits, by the first way that works, with the reasons kept.

Access is as little as the role needs. A source that is gathered from needs none (reading one's own memory is
always allowed); a pulled source is opened to reads; a destination is opened to writes, or, where memory
windows open a lease's part of it, to nothing but their binding; staging and scatter buffers are written by
our own card only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from dataclasses import dataclass, field
from enum import IntFlag
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from hawk_agent.transports.verbs.errors import MemoryRegistrationError

if TYPE_CHECKING:
    from types import TracebackType

    from hawk_agent.transports.verbs import _verbs
    from hawk_agent.transports.verbs.device import RdmaDevice

_HUGE: Final = 2 << 20
_PAGE: Final = 4096
_IPC_LOCK: Final = 14
_IBV_ACCESS_ON_DEMAND: Final = 64


class AccessFlags(IntFlag):
    """The access that a registration allows, beyond reading by our own card."""

    NONE = 0
    IBV_ACCESS_LOCAL_WRITE = 1
    IBV_ACCESS_REMOTE_WRITE = 2
    IBV_ACCESS_REMOTE_READ = 4
    IBV_ACCESS_MW_BIND = 16


GATHERED: Final = AccessFlags.NONE
"""A source that our own card reads."""
PULLED: Final = AccessFlags.IBV_ACCESS_REMOTE_READ
"""A source that the peer reads."""
DESTINATION: Final = AccessFlags.IBV_ACCESS_LOCAL_WRITE | AccessFlags.IBV_ACCESS_REMOTE_WRITE
"""Written by the peer."""
WINDOWED: Final = AccessFlags.IBV_ACCESS_LOCAL_WRITE | AccessFlags.IBV_ACCESS_MW_BIND
"""Written by the peer, through memory windows only."""
STAGING: Final = AccessFlags.IBV_ACCESS_LOCAL_WRITE
"""Written by our own card: bounce buffers, and destinations of our own reads."""


@dataclass(frozen=True, slots=True)
class LocalRange:
    """Bytes [offset, offset + nbytes) of our region, at `address` under `lkey`, which is never shown."""

    offset: int
    nbytes: int
    address: int
    lkey: int = field(repr=False)


@dataclass(frozen=True, slots=True)
class RemoteRange:
    """Bytes [offset, offset + nbytes) of a peer's region, at `address` there under `rkey`, never shown."""

    offset: int
    nbytes: int
    address: int
    rkey: int = field(repr=False)


if TYPE_CHECKING:
    Parts = list[tuple[int, int, _verbs.Memory]]
    """Registrations with their offset and bytes."""


class RegisteredMemory:
    """Registered memory. `how` names the way that worked, `why` why those before it didn't."""

    def __init__(self, address: int, nbytes: int, parts: Parts, *, how: str, why: tuple[str, ...]) -> None:
        self.address = address
        self.nbytes = nbytes
        self.how = how
        self.why = why
        self._parts = parts

    @property
    def local_ranges(self) -> tuple[LocalRange, ...]:
        """Its parts under their lkeys."""
        return tuple(LocalRange(at, n, self.address + at, part.lkey) for at, n, part in self._parts)

    @property
    def remote_ranges(self) -> tuple[RemoteRange, ...]:
        """Its parts under their rkeys: secrets between two agents."""
        return tuple(RemoteRange(at, n, self.address + at, part.rkey) for at, n, part in self._parts)

    def part(self, offset: int) -> tuple[int, int, _verbs.Memory]:
        """The registration that an offset is in, with its own offset and bytes: what a window binds to."""
        for at, nbytes, part in self._parts:
            if at <= offset < at + nbytes:
                return at, nbytes, part
        raise MemoryRegistrationError(f"offset {offset} is outside the {self.nbytes} bytes registered")

    def close(self) -> None:
        """Deregister; again is fine. MemoryRegistrationError while a window is bound to it."""
        while self._parts:
            try:
                self._parts[-1][2].close()
            except OSError as error:
                raise MemoryRegistrationError(
                    f"{self.nbytes} bytes can't be deregistered ({error.strerror}); close the windows first"
                ) from error
            self._parts.pop()

    def __enter__(self) -> RegisteredMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class MakeRegistration(Protocol):
    """Makes one registration; the descriptor is a dma-buf's, or -1, and the offset is in it."""

    def __call__(
        self, address: int, nbytes: int, access: int, descriptor: int, offset: int, /
    ) -> _verbs.Memory:
        """OSError when the device doesn't take it."""


def register_memory(
    device: RdmaDevice,
    memory: Any,
    nbytes: int,
    access: AccessFlags,
    *,
    dmabuf_fd: int = -1,
    dmabuf_offset: int = 0,
) -> RegisteredMemory:
    """Register memory of this process, or a device's memory by its dma-buf.

    Tried in this order: the dma-buf, if one is given; the mapped pages, pinned; the same on demand, unpinned,
    where the device can. Memory that none of them takes goes through a staging buffer, which is the caller's.

    Args:
        device: an open device.
        memory: an address, or a writable buffer such as a mmap.
        nbytes: bytes from there on.
        access: as little as its role needs.
        dmabuf_fd: descriptor of a dma-buf that holds the same bytes.
        dmabuf_offset: where in it they begin.

    Raises:
        MemoryRegistrationError: each way and why it failed.
    """
    from hawk_agent.transports.verbs.library import native  # noqa: PLC0415 - loaded by whoever has a device

    address = memory if isinstance(memory, int) else address_of(memory, nbytes)
    if nbytes < 1 or address < 0:
        raise MemoryRegistrationError(f"{nbytes} bytes at {address:#x}: give at least one byte")

    def make(at: int, size: int, flags: int, descriptor: int, offset: int) -> _verbs.Memory:
        return native.Memory(device.context, at, size, flags, descriptor, offset)

    limit = device.limits.max_mr_bytes
    ways = _ways(int(access), dmabuf_fd, on_demand=device.limits.odp)
    return register_with(make, address, nbytes, limit=limit, ways=ways, offset=dmabuf_offset)


def _ways(access: int, dmabuf_fd: int, *, on_demand: bool) -> list[tuple[str, int, int]]:
    ways = [("dma-buf", access, dmabuf_fd)] if dmabuf_fd >= 0 else []
    ways.append(("plain", access, -1))
    if on_demand:
        ways.append(("odp", access | _IBV_ACCESS_ON_DEMAND, -1))
    return ways


def register_with(
    make: MakeRegistration,
    address: int,
    nbytes: int,
    *,
    limit: int,
    ways: list[tuple[str, int, int]],
    offset: int = 0,
) -> RegisteredMemory:
    """The first of the ways (name, access, descriptor) that takes all parts; see `register`."""
    why: list[str] = []
    for how, access, descriptor in ways:
        parts: Parts = []
        try:
            for at, size in cut_range(nbytes, limit):
                parts.append((at, size, make(address + at, size, access, descriptor, offset + at)))
        except OSError as error:
            for _, _, part in parts:
                part.close()
            why.append(f"{how}: {_reason(error, nbytes, at)}")
        else:
            return RegisteredMemory(address, nbytes, parts, how=how, why=tuple(why))
    raise MemoryRegistrationError(f"{nbytes} bytes can't be registered ({'; '.join(why)})")


def cut_range(nbytes: int, limit: int) -> list[tuple[int, int]]:
    """Parts (offset, bytes) of at most `limit` bytes, cut at whole pages; 0 means no limit."""
    if limit < 1 or nbytes <= limit:
        return [(0, nbytes)]
    unit = next((unit for unit in (_HUGE, _PAGE) if limit >= unit), 1)
    most = limit // unit * unit
    return [(at, min(most, nbytes - at)) for at in range(0, nbytes, most)]


def _reason(error: OSError, nbytes: int, at: int) -> str:
    number = error.errno or 0
    where = f" after {at} bytes" if at else ""
    text = f"{os.strerror(number)} (errno {number}){where}"
    if number in {errno.ENOMEM, errno.EAGAIN, errno.EPERM}:
        hint = memlock_reason(nbytes, MemlockLimits.now())
        return f"{text}; {hint}" if hint else text
    return text


# ---- how much may be locked ----


@dataclass(frozen=True, slots=True)
class MemlockLimits:
    """The limits on memory that this process may lock: bytes (-1: no limit), uid, capabilities in effect."""

    memlock: int
    uid: int
    effective: int
    pinned: int = 0

    @classmethod
    def now(cls) -> MemlockLimits:
        """This process's."""
        soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        status = dict(
            line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line
        )
        pinned = int(status.get("VmPin", "0 kB").split()[0]) << 10
        return cls(
            -1 if soft == resource.RLIM_INFINITY else soft,
            os.geteuid(),
            int(status.get("CapEff", "0").strip(), 16),
            pinned,
        )


def memlock_reason(nbytes: int, limits: MemlockLimits) -> str:
    """Why so many bytes can't be pinned by this process; empty when nothing stands in the way."""
    if limits.memlock < 0 or limits.effective >> _IPC_LOCK & 1 or nbytes + limits.pinned <= limits.memlock:
        return ""
    held = f", {limits.pinned} of them in use" if limits.pinned else ""
    return (
        f"memlock: {nbytes} bytes are to be pinned, the limit is {limits.memlock}{held}, and "
        f"uid {limits.uid} runs without CAP_IPC_LOCK in effect (a capability added to a container has no "
        "effect for a user that isn't root); raise the runtime's memlock limit, or run as root with IPC_LOCK"
    )


def check_memlock(nbytes: int, limits: MemlockLimits | None = None) -> None:
    """Refuse at start what would fail under traffic.

    MemoryRegistrationError names limit, uid and capability.
    """
    reason = memlock_reason(nbytes, limits or MemlockLimits.now())
    if reason:
        raise MemoryRegistrationError(reason)


def address_of(memory: Any, nbytes: int) -> int:
    """Where a buffer is. MemoryRegistrationError when it is smaller than `nbytes` or can't be written."""
    view = memoryview(memory)
    if view.nbytes < nbytes or not view.c_contiguous:
        raise MemoryRegistrationError(f"{nbytes} bytes of a buffer of {view.nbytes}: give all of its memory")
    if view.readonly:
        raise MemoryRegistrationError("the buffer is read-only; give its address, or a writable view of it")
    return ctypes.addressof(ctypes.c_char.from_buffer(view))
