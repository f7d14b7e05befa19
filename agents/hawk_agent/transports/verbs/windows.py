"""Type-2 memory windows: a lease's bytes opened to one queue pair's peer, and closed for good at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_agent.transports.verbs.errors import DeviceError, PostError
from hawk_agent.transports.verbs.library import native
from hawk_agent.transports.verbs.registration import AccessFlags, RemoteRange

if TYPE_CHECKING:
    from hawk_agent.transports.verbs.device import RdmaDevice
    from hawk_agent.transports.verbs.queue_pair import QueuePair
    from hawk_agent.transports.verbs.registration import RegisteredMemory


class MemoryWindow:
    """One window; it covers one contiguous range of one registration, for one queue pair at a time."""

    def __init__(self, device: RdmaDevice) -> None:
        """Take one from the device. DeviceError when it has none (left)."""
        try:
            self.raw = native.Window(device.context)
        except OSError as error:
            raise DeviceError(f"{device.info}: no memory window of type 2 ({error.strerror})") from error
        self._range: tuple[int, int, int] | None = None

    def bind(
        self,
        queue: QueuePair,
        region: RegisteredMemory,
        offset: int,
        nbytes: int,
        access: AccessFlags = AccessFlags.IBV_ACCESS_REMOTE_WRITE,
    ) -> int:
        """Open bytes [offset, offset + nbytes) of a region registered with IBV_ACCESS_MW_BIND.

        Returns the work request's number. The peer may use `remote_range` once that request has ended well.
        PostError: the range crosses registrations, or the queue pair takes no request now.
        """
        at, size, part = region.part(offset)
        if nbytes < 1 or offset + nbytes > at + size:
            raise PostError(
                f"{queue}: a window of {nbytes} bytes at {offset} leaves its registration of {size} at {at}; "
                "bind one window in each"
            )
        try:
            number = queue.raw.bind(self.raw, part, region.address + offset, nbytes, int(access))
        except OSError as error:
            raise PostError(f"{queue}: a window can't be bound ({error.strerror})") from error
        self._range = (offset, nbytes, region.address + offset)
        return number

    @property
    def remote_range(self) -> RemoteRange:
        """The peer's view of it: range, address and rkey of the last bind."""
        if self._range is None:
            raise PostError("a window that isn't bound opens nothing")
        offset, nbytes, address = self._range
        return RemoteRange(offset, nbytes, address, self.raw.rkey)

    def invalidate(self, queue: QueuePair) -> int:
        """Close it for the peer; returns the request's number. When that has ended, nothing goes through."""
        try:
            number = queue.raw.invalidate(self.raw)
        except OSError as error:
            raise PostError(f"{queue}: a window can't be invalidated ({error.strerror})") from error
        self._range = None
        return number

    def close(self) -> None:
        """Give it back, which closes it for the peer too. Again is fine."""
        try:
            self.raw.close()
        except OSError as error:
            raise DeviceError(f"a window can't be given back ({error.strerror})") from error
