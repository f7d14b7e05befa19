"""RDMA devices: which there are, what they can do, and which of a port's addresses to use."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Final

from hawk_agent.transports.verbs.errors import DeviceError, VerbsUnavailableError
from hawk_agent.transports.verbs.library import LIBRARY, load_library, native

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

GID_TYPES: Final = ("ib", "roce-v1", "roce-v2")
_STATES: Final = ("nop", "down", "init", "armed", "active", "active-defer")
_LINKS: Final = ("unspecified", "infiniband", "ethernet")
_WINDOWS_2: Final = 1 << 23 | 1 << 24
_ODP_WRITE_READ: Final = 4 | 8
_MOST_GIDS: Final = 1024


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """The limits of a device.

    Attributes:
        max_sge, max_sge_rd: pieces in the list of a write, and of a read.
        max_qp_wr: requests in a queue.
        max_msg_bytes: bytes of one request.
        max_mr_bytes, max_mr: bytes of one registration, and how many there may be.
        max_cqe: completions in a completion queue.
        max_mw: memory windows of type 2; 0 where there are none.
        max_reads: reads that one queue pair may have under way.
        odp: whether memory may be registered without pinning it, for writes and reads.
    """

    max_sge: int
    max_sge_rd: int
    max_qp_wr: int
    max_msg_bytes: int
    max_mr_bytes: int
    max_mr: int
    max_cqe: int
    max_mw: int
    max_reads: int
    odp: bool


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a port's table of addresses."""

    index: int
    raw: bytes
    kind: str

    @property
    def address(self) -> IPv6Address:
        """The GID as the IPv6 address that it is."""
        return IPv6Address(self.raw)

    def __str__(self) -> str:
        mapped = self.address.ipv4_mapped
        return f"{self.index}: {f'::ffff:{mapped}' if mapped else self.address} ({self.kind})"


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A port that can be used, with the address chosen for it. `active_mtu` is in bytes."""

    name: str
    port: int
    gid_index: int
    gid: bytes
    active_mtu: int
    state: str
    link_layer: str
    lid: int
    limits: DeviceLimits
    warnings: tuple[str, ...] = ()
    library: str = LIBRARY

    @property
    def address(self) -> str:
        """The GID as text."""
        return gid_text(self.gid)

    def __str__(self) -> str:
        return f"{self.name} port {self.port} GID {self.gid_index} ({self.address})"


def gid_text(raw: bytes) -> str:
    """A GID of 16 bytes as text; an IPv4 one shows its address."""
    address = IPv6Address(raw)
    return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)


def mtu_bytes(code: int) -> int:
    """The bytes of an MTU as verbs number them: 1 is 256, 5 is 4096."""
    return 128 << code


def mtu_code(nbytes: int) -> int:
    """The largest of verbs' MTUs that isn't above so many bytes."""
    return max(1, min(5, nbytes.bit_length() - 8))


def choose_gid(table: Sequence[Gid], explicit: int | None = None) -> tuple[Gid, tuple[str, ...]]:
    """The entry to use, with warnings: of version 2 and routable, IPv4 before IPv6; a link-local one at last.

    DeviceError when there is none, or when the one asked for isn't there or isn't of version 2.
    """
    shown = ", ".join(str(entry) for entry in table) or "none"
    if explicit is not None:
        found = next((entry for entry in table if entry.index == explicit), None)
        if found is None:
            raise DeviceError(f"GID index {explicit}: no such entry; the port has {shown}")
        if found.kind == "roce-v1":
            raise DeviceError(
                f"GID index {explicit}: {found} is of version 1, which isn't routed; the port has {shown}"
            )
        return found, _local_warning(found)
    usable = [entry for entry in table if entry.kind != "roce-v1"]
    if not usable:
        raise DeviceError(f"the port has no GID of version 2 (it has {shown}); give its interface an address")
    best = min(usable, key=_rank)
    return best, _local_warning(best)


def _rank(entry: Gid) -> tuple[int, int]:
    if entry.address.ipv4_mapped:
        return 0, entry.index
    return (2 if entry.address.is_link_local and entry.kind != "ib" else 1), entry.index


def _local_warning(entry: Gid) -> tuple[str, ...]:
    if entry.kind == "ib" or not entry.address.is_link_local:
        return ()
    return (f"GID {entry} is link-local: peers beyond this link can't reach it",)


def discover_devices(path: str = LIBRARY, *, gids: Mapping[str, int] | None = None) -> list[DeviceInfo]:
    """The ports that can be used now; empty where there is no RDMA (`unavailable` says why).

    `gids` gives a GID index for a device ("mlx5_0") or for one of its ports ("mlx5_0:2").
    """
    return survey_devices(path, gids=gids)[0]


def unavailable(path: str = LIBRARY, *, gids: Mapping[str, int] | None = None) -> str:
    """Why `discover` finds nothing, or nothing more; empty when every port can be used."""
    return "; ".join(survey_devices(path, gids=gids)[1])


def survey_devices(
    path: str = LIBRARY, *, gids: Mapping[str, int] | None = None
) -> tuple[list[DeviceInfo], list[str]]:
    """The ports that can be used, and the reasons why others can't."""
    try:
        library = load_library(path)
        names = library.devices()
    except VerbsUnavailableError as error:
        return [], [str(error)]
    except OSError as error:
        return [], [f"libibverbs finds no RDMA in this kernel ({error.strerror})"]
    found: list[DeviceInfo] = []
    reasons: list[str] = [] if names else ["libibverbs finds no device"]
    for name in sorted(names):
        try:
            context = native.Context(library, name)
        except OSError as error:
            reasons.append(f"{name} can't be opened ({error.strerror})")
            continue
        try:
            ports = range(1, context.limits()["ports"] + 1)
            for port in ports:
                explicit = (gids or {}).get(f"{name}:{port}", (gids or {}).get(name))
                info = _survey_port(context, name, port, path, explicit)
                if isinstance(info, str):
                    reasons.append(info)
                else:
                    found.append(info)
        except OSError as error:
            reasons.append(f"{name} went away ({error.strerror})")
        finally:
            context.close()
    return found, reasons


def _survey_port(
    context: native.Context, name: str, port: int, path: str, explicit: int | None
) -> DeviceInfo | str:
    """The port, or why it can't be used."""
    try:
        info = describe_device(context, name, port, path, explicit)
    except DeviceError as error:
        return f"{name} port {port}: {error}"
    return info if info.state == "active" else f"{name} port {port} is {info.state}"


def describe_device(
    context: native.Context, name: str, port: int, path: str, explicit: int | None = None
) -> DeviceInfo:
    """A port as it is now. DeviceError when it has no GID to use."""
    limits, attributes = context.limits(), context.port(port)
    gid, warnings = choose_gid(list(_gids(context, port, attributes["gid_tbl_len"])), explicit)
    windows = limits["max_mw"] if limits["device_cap_flags"] & _WINDOWS_2 else 0
    return DeviceInfo(
        name,
        port,
        gid.index,
        gid.raw,
        mtu_bytes(attributes["active_mtu"]),
        _name(_STATES, attributes["state"]),
        _name(_LINKS, attributes["link_layer"]),
        attributes["lid"],
        DeviceLimits(
            max_sge=limits["max_sge"],
            max_sge_rd=limits["max_sge_rd"] or limits["max_sge"],
            max_qp_wr=limits["max_qp_wr"],
            max_msg_bytes=attributes["max_msg_sz"],
            max_mr_bytes=limits["max_mr_size"],
            max_mr=limits["max_mr"],
            max_cqe=limits["max_cqe"],
            max_mw=windows,
            max_reads=limits["max_qp_rd_atom"],
            odp=limits["odp"] & _ODP_WRITE_READ == _ODP_WRITE_READ,
        ),
        warnings,
        path,
    )


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else f"unknown ({number})"


def _gids(context: native.Context, port: int, length: int) -> Iterable[Gid]:
    for index in range(min(length, _MOST_GIDS)):
        try:
            raw, kind, _ = context.gid(port, index)
        except OSError:  # an entry that is empty, or that goes right now
            continue
        if any(raw):
            yield Gid(index, raw, GID_TYPES[kind])


class RdmaDevice:
    """A device in use: its context and protection domain. Close it after all that was made from it."""

    def __init__(self, info: DeviceInfo) -> None:
        """Open it. DeviceError when it is gone."""
        self.info = info
        try:
            self.context = native.Context(load_library(info.library), info.name)
        except OSError as error:
            raise DeviceError(
                f"{info.name} can't be opened ({error.strerror}); is it still there?"
            ) from error
        os.set_blocking(self.context.async_fd, False)

    @property
    def limits(self) -> DeviceLimits:
        """Its limits."""
        return self.info.limits

    @property
    def events(self) -> int:
        """A descriptor that is readable when `event` has something."""
        return self.context.async_fd

    def event(self) -> tuple[str, int] | None:
        """The next event of the device with its port (0: not of one), or None when none waits."""
        try:
            number, port = self.context.async_event()
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in {errno.EIO, errno.ENODEV}:
                return "device-fatal", 0
            raise
        return EVENTS.get(number, f"event {number}"), port

    def check(self) -> None:
        """DeviceError unless the port is active and its address stands where it stood."""
        info = self.info
        try:
            state = _name(_STATES, self.context.port(info.port)["state"])
            raw, kind, _ = self.context.gid(info.port, info.gid_index)
        except OSError as error:
            raise DeviceError(f"{info}: can't be asked any more ({error.strerror})") from error
        if state != "active":
            raise DeviceError(f"{info}: the port is {state}")
        if raw != info.gid or GID_TYPES[kind] == "roce-v1":
            raise DeviceError(f"{info}: index {info.gid_index} is {gid_text(raw)} now; discover it again")

    def close(self) -> None:
        """Close it; ValueError while something made from it is open."""
        self.context.close()

    def __enter__(self) -> RdmaDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


EVENTS: Final = {
    0: "cq-error",
    1: "qp-fatal",
    2: "qp-request-error",
    3: "qp-access-error",
    8: "device-fatal",
    9: "port-active",
    10: "port-error",
    11: "lid-change",
    12: "pkey-change",
    17: "client-reregister",
    18: "gid-change",
}
"""Events that matter, by their number."""


def open_device(info: DeviceInfo) -> RdmaDevice:
    """Open a device that `discover` found. DeviceError when it is gone."""
    return RdmaDevice(info)
