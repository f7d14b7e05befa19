"""NIXL itself, where it is installed: the few calls that are used, and one kind of error.

It is no dependency of the package: the wheels differ by CUDA version, and only they know UCX's plug-ins.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import secrets
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hawk_agent.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

_MODULES: Final = ("nixl", "nixl_cu12", "nixl_cu13")
_BACKEND: Final = "UCX"
INSTALL: Final = (
    "transport nixl: NIXL isn't installed; pip install --no-deps nixl-cu12 (or nixl-cu13) into the agent's "
    "environment, and keep tcp among UCX_TLS if you set it"
)


class Library:
    """This process' NIXL agent. Its methods may be called from any thread; NIXL locks.

    Without a progress thread: it would spin, where two processes share few cores. Whoever waits calls
    `progress`.
    """

    def __init__(self) -> None:
        api = _import()
        config = api.nixl_agent_config(
            enable_prog_thread=False,
            backends=[_BACKEND],
            sync_mode=api.nixl_thread_sync_t.NIXL_THREAD_SYNC_STRICT,
        )
        with _told("it can't be started"):
            self._agent: Any = api.nixl_agent(f"hawk-{secrets.token_hex(8)}", config)
        _end_without_destructors()
        if _BACKEND not in self._agent.backends:
            raise TransportError(f"transport nixl: its {_BACKEND} plug-in is missing; reinstall NIXL")

    def register(self, address: int, nbytes: int) -> object:
        """Open memory to peers that hold its metadata. Takes long for gigabytes on a network card."""
        with _told(f"{nbytes} bytes can't be registered"):
            return self._agent.register_memory([(address, nbytes, 0, "")], "DRAM", [_BACKEND])

    def deregister(self, registered: object) -> None:
        """Close it again. What a peer reads meanwhile fails there; what it has read, it has."""
        with _told("memory can't be deregistered"):
            self._agent.deregister_memory(registered, [_BACKEND])

    def metadata(self, registered: object) -> bytes:
        """The metadata with which a peer connects here and reaches this memory, and no other."""
        with _told("no metadata"):
            made: bytes = self._agent.get_partial_agent_metadata(registered, True, [_BACKEND])
            return made

    def meet(self, metadata: bytes) -> str:
        """A peer's agent by its metadata; returns its name."""
        with _told("the peer's metadata is refused"):
            name = self._agent.add_remote_agent(metadata)
        return name.decode() if isinstance(name, bytes) else str(name)

    def part(self, name: str) -> None:
        """Forget a peer."""
        with contextlib.suppress(Exception):
            self._agent.remove_remote_agent(name)

    def read(self, peer: str, remote: npt.NDArray[np.uint64], local: npt.NDArray[np.uint64]) -> Reading:
        """Start to read lists of pieces, rows of (address, bytes), from a peer into registered memory."""
        with _told(f"{len(local)} pieces can't be read from {peer}"):
            lists = [self._agent.get_xfer_descs(_rows(pieces), "DRAM") for pieces in (local, remote)]
            handle = self._agent.initialize_xfer("READ", *lists, peer, b"", [_BACKEND])
            reading = Reading(self, handle)
            reading.state = self._agent.transfer(handle)
        return reading

    def state(self, handle: object) -> str:
        """``DONE``, ``PROC`` or ``ERR``; makes progress."""
        with _told("a read's state is unknown"):
            state: str = self._agent.check_xfer_state(handle)
            return state

    def release(self, handle: Any) -> None:
        """Give a read's handle back. TransportError while it still runs and can't be cancelled."""
        with _told("a read can't be cancelled"):
            handle.release()

    def notify(self, peer: str, note: bytes) -> None:
        """Send a peer a note."""
        with _told(f"{peer} can't be told"):
            self._agent.send_notif(peer, note)

    def progress(self) -> list[bytes]:
        """Move what is under way, peers' reads of this memory included, and return the notes that came."""
        with _told("no progress"):
            found: dict[str, list[bytes]] = self._agent.get_new_notifs([_BACKEND])
        return [note for notes in found.values() for note in notes]


class Reading:
    """A read under way. Until it is over its target is written to."""

    def __init__(self, library: Library, handle: object) -> None:
        self._library = library
        self._handle = handle
        self.state = "PROC"

    def poll(self) -> bool:
        """True if it has completed. TransportError when it failed."""
        if self.state == "PROC":
            self.state = self._library.state(self._handle)
        if self.state == "ERR":
            raise TransportError("a read over NIXL failed: the peer is gone, or closed its memory")
        return self.state == "DONE"

    def end(self) -> None:
        """Release it. TransportError while it can't be: then it may still write."""
        self._library.release(self._handle)


@lru_cache(maxsize=1)
def _end_without_destructors() -> None:
    """Let the process end with its status before libraries are torn down.

    The copy of libnl-route in NIXL's wheels crashes in its destructor: without this, an agent that stopped
    well would end by a signal. Python and the agent have closed all of theirs by then.
    """
    libc = ctypes.CDLL(None)
    with contextlib.suppress(AttributeError):  # glibc's; another C library runs the destructors
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)


def _rows(pieces: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Pieces as NIXL takes them: address, bytes, device."""
    return np.column_stack((pieces, np.zeros(len(pieces), np.uint64)))


def _import() -> Any:
    for name in _MODULES:
        with contextlib.suppress(ImportError):
            return importlib.import_module(f"{name}._api")
    raise TransportError(INSTALL)


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """NIXL's own exceptions, of many classes, as ours.

    Their names only: a text may quote what a call was given, and metadata is a secret.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is a TransportError
        raise TransportError(f"nixl: {what} ({type(error).__name__})") from None
