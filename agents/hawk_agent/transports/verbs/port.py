"""A port in use: its device, what is registered with it, and its bounce buffers.

A region is registered for a use when it is first put to it, and stays registered until it is unmapped: a
source that the card gathers from, one that the peer reads, a destination that the peer writes, or writes
through windows only. Each opens as little as it needs, under keys of its own.
"""

from __future__ import annotations

import logging
import mmap
import threading
from typing import TYPE_CHECKING, Final

from hawk_agent.layouts import Layout
from hawk_agent.transfer.transport import RailFacts
from hawk_agent.transports.verbs.device import RdmaDevice, describe_device
from hawk_agent.transports.verbs.errors import DeviceError
from hawk_agent.transports.verbs.fence import MOST_WINDOWS, FenceKind
from hawk_agent.transports.verbs.registration import STAGING, AccessFlags, RegisteredMemory, register_memory

if TYPE_CHECKING:
    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.transports.verbs.device import DeviceInfo

log = logging.getLogger(__name__)

PIECE: Final = 256 << 10
"""Bytes that are translated at a time: a second-level cache holds them."""
PIECES: Final = 4
MOST_IDLE_RINGS: Final = 16
_REMOTE: Final = (
    AccessFlags.IBV_ACCESS_REMOTE_READ | AccessFlags.IBV_ACCESS_REMOTE_WRITE | AccessFlags.IBV_ACCESS_MW_BIND
)


class Ring:
    """A bounce buffer of `PIECES` pieces, registered with one port."""

    def __init__(self, device: RdmaDevice) -> None:
        self.memory = mmap.mmap(-1, PIECE * PIECES)
        self.registered = register_memory(device, self.memory, len(self.memory), STAGING)
        self.layout = Layout.parse("d", {"d": len(self.memory)}, "int8")

    def close(self) -> None:
        """Deregister and unmap."""
        self.registered.close()
        self.memory.close()


class Port:
    """One port of one device; `close` it after every transfer has ended."""

    def __init__(self, info: DeviceInfo, gid_index: int | None = None) -> None:
        """Open it. DeviceError when it is gone."""
        self.device = RdmaDevice(info)
        self._gid_index = gid_index
        self._known: dict[int, dict[AccessFlags, RegisteredMemory]] = {}
        self._rings: list[Ring] = []
        self._registering = threading.Lock()

    @property
    def name(self) -> str:
        """The device and its port, as status and metrics name the rail."""
        return f"{self.device.info.name}:{self.device.info.port}"

    @property
    def facts(self) -> RailFacts:
        """Its entry in the HawkNode's status."""
        info, limits = self.device.info, self.device.limits
        windows = min(limits.max_mw, MOST_WINDOWS)
        fence = FenceKind.QUEUE_PAIR.value
        if windows:
            fence = f"{FenceKind.WINDOW.value} up to {windows} ranges, else {fence}"
        return RailFacts(
            name=self.name,
            transport="verbs",
            gid=info.address,
            mtu=info.active_mtu,
            max_sge=limits.max_sge,
            max_wr=limits.max_qp_wr,
            max_message_bytes=limits.max_msg_bytes,
            fence=fence,
        )

    def check(self) -> bool:
        """Look whether it can be used now, and take its GID anew where that moved; True if it moved.

        DeviceError when the port is down, gone, or without a GID to use.
        """
        try:
            self.device.check()
        except DeviceError as error:
            moved = self._look_again(error)
            log.warning("verbs: %s; %s from now on", error, moved)
            return True
        return False

    def _look_again(self, problem: DeviceError) -> DeviceInfo:
        old = self.device.info
        try:
            found = describe_device(self.device.context, old.name, old.port, old.library, self._gid_index)
        except OSError as error:
            raise DeviceError(f"{problem} ({error.strerror})") from error
        if found.state != "active" or (found.gid == old.gid and found.gid_index == old.gid_index):
            raise problem
        self.device.info = found
        return found

    def registered(self, region: CacheRegion, access: AccessFlags) -> RegisteredMemory:
        """The region under keys for this use, registered now unless it is. MemoryRegistrationError says
        what was tried."""
        with self._registering:
            return self._registered(region, access)

    def _registered(self, region: CacheRegion, access: AccessFlags) -> RegisteredMemory:
        known = self._known.get(id(region))
        if known is None:
            known = self._known[id(region)] = {}
            region.closing.append(lambda: self.forget(region))
        if not access & _REMOTE:  # keys that never leave: any registration that allows as much will do
            access = next((have for have in known if access & have == access), access)
        if access not in known:
            known[access] = register_memory(self.device, region.memory, region.nbytes, access)
            how = known[access]
            log.info("verbs: region %s on %s registered: %s%s", region.name, self.name, how.how,
                     f" ({'; '.join(how.why)})" if how.why else "")  # fmt: skip
        return known[access]

    def forget(self, region: CacheRegion) -> None:
        """Deregister a region; what names its keys fails from now on. Again is fine."""
        self._drop(id(region))

    def _drop(self, key: int) -> None:
        for registered in self._known.pop(key, {}).values():
            registered.close()

    def ring(self) -> Ring:
        """A bounce buffer that nobody else uses."""
        return self._rings.pop() if self._rings else Ring(self.device)

    def give(self, ring: Ring) -> None:
        """Back, when no request uses it any more."""
        if len(self._rings) < MOST_IDLE_RINGS:
            self._rings.append(ring)
        else:
            ring.close()

    def close(self) -> None:
        """Deregister everything and close the device."""
        for key in list(self._known):
            self._drop(key)
        while self._rings:
            self._rings.pop().close()
        self.device.close()
