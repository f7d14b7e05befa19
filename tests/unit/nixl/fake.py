"""NIXL without NIXL: agents of one process that read each other's memory, and reads that can be held."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from typing import TYPE_CHECKING, ClassVar

from hawk_agent.errors import TransportError

if TYPE_CHECKING:
    import numpy as np


class FakeReading:
    def __init__(self, library: FakeLibrary, remote: np.ndarray, local: np.ndarray) -> None:
        self._library, self._remote, self._local = library, remote, local
        self._done = False

    def poll(self) -> bool:
        if self._library.broken:
            raise TransportError("a read over NIXL failed")
        if not self._done and not self._library.held:
            for (there, nbytes), (here, _) in zip(self._remote.tolist(), self._local.tolist(), strict=True):
                ctypes.memmove(here, there, nbytes)
            self._done = True
        return self._done

    def end(self) -> None:
        if self._library.held:
            raise TransportError("a read can't be cancelled")


class FakeLibrary:
    """Stands in for `nixl_library.Library`."""

    inboxes: ClassVar[defaultdict[str, list[bytes]]] = defaultdict(list)
    made = 0

    def __init__(self) -> None:
        FakeLibrary.made += 1
        self.name = f"fake-{FakeLibrary.made}"
        self.registered: dict[int, tuple[int, int]] = {}
        self.lists: list[int] = []
        self.held = self.broken = False
        self._registrations = 0

    def register(self, address: int, nbytes: int) -> int:
        self._registrations += 1
        self.registered[self._registrations] = (address, nbytes)
        return self._registrations

    def deregister(self, registered: int) -> None:
        del self.registered[registered]

    def metadata(self, registered: int) -> bytes:
        return f"{self.name}:{registered}".encode()

    def meet(self, metadata: bytes) -> str:
        return metadata.decode().partition(":")[0]

    def part(self, name: str) -> None:
        return

    def read(self, peer: str, remote: np.ndarray, local: np.ndarray) -> FakeReading:
        for address, nbytes in local.tolist():
            spans = self.registered.values()
            assert any(a <= address and address + nbytes <= a + n for a, n in spans), "not registered"
        self.lists.append(len(local))
        return FakeReading(self, remote, local)

    def notify(self, peer: str, note: bytes) -> None:
        self.inboxes[peer].append(note)

    def progress(self) -> list[bytes]:
        notes, self.inboxes[self.name] = self.inboxes[self.name], []
        return notes
