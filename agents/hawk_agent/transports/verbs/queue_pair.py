"""Reliable queue pairs: through every state with bounded waits, and back, with books that always balance."""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hawk_agent.transports.verbs.device import gid_text, mtu_code
from hawk_agent.transports.verbs.errors import (
    CompletionError,
    DeviceError,
    QueuePairStateError,
    VerbsError,
    completion_error,
)
from hawk_agent.transports.verbs.library import native

if TYPE_CHECKING:
    from types import TracebackType

    from hawk_agent.transports.verbs.completion import CompletionQueue
    from hawk_agent.transports.verbs.device import RdmaDevice
    from hawk_agent.transports.verbs.registration import AccessFlags

STATES: Final = (
    "IBV_QPS_RESET",
    "IBV_QPS_INIT",
    "IBV_QPS_RTR",
    "IBV_QPS_RTS",
    "IBV_QPS_SQD",
    "IBV_QPS_SQE",
    "IBV_QPS_ERR",
)
FALLBACK_MTU: Final = 1024
"""Bytes, for a peer that doesn't say: every RoCE port with the usual 1500-byte frames takes it."""
_PSN: Final = 1 << 24
_MAX_READS: Final = 16


@dataclass(frozen=True, slots=True)
class EndpointInfo:
    """The address that the other end connects to; nothing of it is secret. `mtu` in bytes, 0 when not
    told."""

    qpn: int
    psn: int
    gid: bytes
    mtu: int
    lid: int = 0
    reads: int = _MAX_READS

    def __str__(self) -> str:
        return f"QP {self.qpn} at {gid_text(self.gid)}"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a queue pair tries before a request fails. All end: the values that mean for ever are refused.

    Attributes:
        ack: an answer is awaited for 4.096 us · 2**ack.
        retries: times that a request is sent again; 6 at most (some providers never end with 7).
        rnr_retries: times that it is sent again to a receiver that isn't ready; 6 at most (7 is for ever).
        rnr_timer: the wait that we ask of a sender when we aren't ready: 1 is 0.01 ms, 12 0.64 ms, 20 10 ms,
            31 491 ms; 0, which means 655 ms, is refused.
    """

    ack: int = 16
    retries: int = 6
    rnr_retries: int = 6
    rnr_timer: int = 20

    def __post_init__(self) -> None:
        bounds = {"ack": (1, 31), "retries": (0, 6), "rnr_retries": (0, 6), "rnr_timer": (1, 31)}
        for name, (low, high) in bounds.items():
            if not low <= getattr(self, name) <= high:
                raise DeviceError(f"{name}: {getattr(self, name)}; give a number from {low} to {high}")

    @property
    def seconds(self) -> float:
        """After so long without an answer a request has failed."""
        return float(4.096e-6 * 2**self.ack * (self.retries + 1))


class QueuePair:
    """A reliable queue pair.

    Its sends and receives complete into `completions`, which must be able to hold all of them at once.

    Args:
        device: where it is.
        depth: send requests under way at once.
        max_sge: pieces in the list of one of them.
        completions: the completion queue.
        receives: receives kept posted: immediates that may be under way to us at once.
        max_inline: bytes that a request may carry itself; the provider may give more or, at 0, none.
    """

    def __init__(
        self,
        device: RdmaDevice,
        depth: int,
        max_sge: int,
        completions: CompletionQueue,
        *,
        receives: int = 64,
        max_inline: int = 64,
    ) -> None:
        limits = device.limits
        for name, value, most in (
            ("depth", depth, limits.max_qp_wr),
            ("max_sge", max_sge, limits.max_sge),
            ("receives", receives, limits.max_qp_wr),
        ):
            if not 1 <= value <= most:
                raise DeviceError(f"{device.info}: {name} {value}; the device takes 1 to {most}")
        self.device = device
        self.depth = depth
        self.max_sge = max_sge
        self.receives = receives
        self.completions = completions
        self.raw = self._make(max_inline)
        self.psn = secrets.randbelow(_PSN)
        self.peer: EndpointInfo | None = None
        self.mtu = 0
        self.warnings: tuple[str, ...] = ()
        self._fenced = self._marked = False
        completions.adopt(self)

    def _make(self, max_inline: int) -> native.Queue:
        raw = self.completions.raw
        try:
            try:
                return native.Queue(raw, self.depth, self.max_sge, self.receives, max_inline)
            except OSError:
                if not max_inline:
                    raise
                return native.Queue(raw, self.depth, self.max_sge, self.receives, 0)
        except OSError as error:
            raise DeviceError(
                f"{self.device.info}: no queue pair of depth {self.depth}, {self.max_sge} pieces and "
                f"{self.receives} receives ({error.strerror}); completions {raw.reserved} of {raw.entries} "
                "are spoken for"
            ) from error

    # ---- states ----

    @property
    def info(self) -> EndpointInfo:
        """The address that the peer connects to."""
        device = self.device.info
        reads = min(device.limits.max_reads, _MAX_READS)
        return EndpointInfo(self.raw.number, self.psn, device.gid, device.active_mtu, device.lid, reads)

    @property
    def state(self) -> str:
        """Its state now, as the provider has it."""
        try:
            return STATES[self.raw.state()]
        except OSError as error:
            raise self._refused("a query of its state", error) from error

    def connect(
        self,
        peer: EndpointInfo,
        access: AccessFlags | int,
        timeouts: Timeouts | None = None,
        *,
        hop_limit: int = 64,
        traffic_class: int = 0,
    ) -> None:
        """Go to RTS towards a peer that does the same.

        Args:
            peer: its `info`.
            access: what the peer's requests may do here: IBV_ACCESS_REMOTE_WRITE,
                IBV_ACCESS_REMOTE_READ, both or nothing.
            timeouts: see there.
            hop_limit: routers that a packet may pass, and one.
            traffic_class: the DSCP and ECN bits of our packets.

        Raises:
            DeviceError: port or GID changed since the device was discovered.
            QueuePairStateError: the provider refused a state; it is in RESET or ERR then.
        """
        patience = timeouts or Timeouts()
        self.device.check()
        device = self.device.info
        self.peer = peer
        self.mtu = min(device.active_mtu, peer.mtu or FALLBACK_MTU)
        self.warnings = () if peer.mtu else (f"{peer} doesn't tell its MTU; {self.mtu} bytes are used",)
        reads = max(1, min(self.info.reads, peer.reads))
        self._step("IBV_QPS_INIT", lambda: self.raw.to_init(device.port, 0, int(access)))
        self._step("receives in IBV_QPS_INIT", lambda: self.raw.receive(self.receives - self.raw.receives))
        self._step(
            "IBV_QPS_RTR",
            lambda: self.raw.to_rtr(
                device.port,
                mtu_code(self.mtu),
                peer.qpn,
                peer.psn,
                peer.gid,
                device.gid_index,
                hop_limit,
                traffic_class,
                max(1, self.info.reads),
                patience.rnr_timer,
                peer.lid,
            ),
        )
        self._step(
            "IBV_QPS_RTS",
            lambda: self.raw.to_rts(patience.ack, patience.retries, patience.rnr_retries, self.psn, reads),
        )

    def to_error(self) -> None:
        """End access through it, in both directions; when this returns the provider takes nothing more of
        the peer. What was posted and isn't done yet is flushed."""
        self._step("IBV_QPS_ERR", self.raw.to_error)
        self._fenced = True
        self.mark()

    def mark(self) -> None:
        """Let the end of what was posted before a fence be known, as soon as there is room for the mark.

        Of requests that weren't signalled, those that were done by then end without a word; a mark that is
        posted afterwards is flushed, and says so of all before it.
        """
        if self._fenced and not self._marked and 0 < self.outstanding < self.depth:
            with contextlib.suppress(OSError):  # no room just now: the next poll tries again
                self.raw.mark()
                self._marked = True

    def reset(self) -> int:
        """Back to RESET, to be connected anew with a new PSN; poll the flushed requests first.

        Returns how many requests had not ended by themselves; they are counted as failed.
        """
        try:
            lost = self.raw.to_reset()
        except OSError as error:
            raise self._refused("IBV_QPS_RESET", error) from error
        self._fenced = self._marked = False
        self.psn = secrets.randbelow(_PSN)
        self.peer = None
        return lost

    def _step(self, state: str, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            raise self._refused(state, error) from error

    def _refused(self, state: str, error: OSError) -> QueuePairStateError:
        number = error.errno or 0
        return QueuePairStateError(f"{self}: {state} refused ({os.strerror(number)}, errno {number})")

    def __str__(self) -> str:
        to = f" to {self.peer}" if self.peer else ""
        mtu = f", MTU {self.mtu}" if self.mtu else ""
        return f"QP {self.raw.number} on {self.device.info}{to}{mtu}"

    # ---- books ----

    @property
    def outstanding(self) -> int:
        """Send requests that haven't ended."""
        return self.raw.posted - self.raw.retired

    @property
    def failure(self) -> CompletionError | None:
        """Why its first request failed, or None. It takes no more then: `reset` and connect again."""
        found = self.raw.failure
        return None if found is None else completion_error(found[1], found[2], str(self))

    @property
    def broken(self) -> CompletionError | None:
        """Why nothing more comes through it, or None: a request failed, or a receive without our fence."""
        if self.raw.failure is not None:
            return self.failure
        if self.raw.receive_status and not self._fenced:
            return completion_error(self.raw.receive_status, 0, f"{self}: its receives")
        if self.raw.refill_error:
            why = os.strerror(self.raw.refill_error)
            return CompletionError(f"{self}: a receive can't be posted anew ({why})")
        return None

    def failure_of(self, number: int) -> CompletionError | None:
        """The failure if it took the request of that number with it."""
        found = self.raw.failure
        return self.failure if found is not None and found[0] <= number else None

    def close(self) -> None:
        """Destroy it. Again is fine."""
        try:
            self.raw.close()
        except OSError as error:
            raise VerbsError(f"{self}: can't be destroyed ({error.strerror})") from error
        self.completions.release(self)

    def __enter__(self) -> QueuePair:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


if TYPE_CHECKING:
    from collections.abc import Callable
