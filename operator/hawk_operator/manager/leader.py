"""One writer: the process whose name is in the Lease.

`step` is the whole rule: what was seen of the Lease, who we are and what time it is give what to do next.
Two clocks matter. A Lease's own times are another machine's clock and are never compared with ours: what
counts is how long *we* have seen it unchanged. And a leader stops writing well before a standby may take
over (`renew_deadline` < `lease_duration`), because a renewal that can't be sent can't be told from one that
was lost.

A leader that cannot renew pauses; it exits only when it sees another holder. So an API server that is
overloaded for half a minute does not make the operator restart.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hawk_kube.errors import ApiError, ConflictError, NotFoundError
from hawk_kube.kinds import LEASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_kube.client import Client
    from hawk_operator.runtime.settings import OperatorSettings

NAME: Final = "leader.hawkpool.dev"
"""A name that no agent's Lease has: those are called like their nodes, whose names may not end like this."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Seen:
    """The Lease as last read: holder ("" when free), a version that changes with each renewal, its duration,
    and since when (our monotonic clock, seconds) it has been seen like this.
    """

    holder: str
    version: str
    duration: float
    since: float
    transitions: int = 0


class Action(Enum):
    """The action on the Lease."""

    CREATE = "create"
    ACQUIRE = "acquire"
    RENEW = "renew"
    WAIT = "wait"
    EXIT = "exit"
    """We led, and now another process holds the Lease."""


def observe_lease(before: Seen | None, now: Seen) -> Seen:
    """The observation of now; `since` is that of `before` while holder and version are unchanged."""
    if before is not None and (before.holder, before.version) == (now.holder, now.version):
        return replace(now, since=before.since)
    return now


def step_election(seen: Seen | None, me: str, led: bool, now: float) -> Action:
    """The next action; `led` says whether this process has ever held the Lease, `now` is monotonic seconds.

    A process that finds its own name in the Lease without having led may go on with it: its name is its own.
    """
    if seen is None:
        return Action.CREATE
    if seen.holder == me:
        return Action.RENEW
    if led and seen.holder:
        return Action.EXIT
    free = not seen.holder or now - seen.since > seen.duration
    return Action.ACQUIRE if free else Action.WAIT


def may_write(renewed: float | None, renew_deadline: float, now: float) -> bool:
    """True if the last renewal, *begun* at `renewed`, is recent enough to write at `now`."""
    return renewed is not None and now - renewed < renew_deadline


class Read(NamedTuple):
    """The Lease object and what was seen of it."""

    body: dict[str, Any] | None
    seen: Seen | None


class Leadership:
    """Runs `step` against the API server in a thread of its own."""

    def __init__(
        self, api: Client, settings: OperatorSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._settings = settings
        self._clock = clock
        self._seen: Seen | None = None
        self._renewed: float | None = None
        self._contact: float = clock()
        self._stop = threading.Event()
        self._leading = threading.Event()
        self.lost = threading.Event()

    @property
    def leading(self) -> bool:
        """True if this process has become the leader and has not seen another since."""
        return self._leading.is_set() and not self.lost.is_set()

    def may_write(self) -> bool:
        """True if a write may be sent now."""
        return self.leading and may_write(self._renewed, self._settings.renew_deadline, self._clock())

    def since_contact(self) -> float:
        """Seconds since the Lease was last read or written with success."""
        return self._clock() - self._contact

    def wait_until_leading(self, timeout: float) -> bool:
        """Wait for leadership at most `timeout` seconds; whether this process leads."""
        return self._leading.wait(timeout)

    def run(self) -> None:
        """Read the Lease every `retry_period` until stopped or lost."""
        while not self._stop.is_set() and not self.lost.is_set():
            begun = self._clock()
            try:
                self._round()
            except ApiError as failure:
                _log.warning("lease: %s", failure)
            except Exception:  # noqa: BLE001 - a leader that stops renewing in silence is the worst outcome
                _log.exception("lease: unexpected error")
            rest = self._settings.retry_period - (self._clock() - begun)
            self._stop.wait(max(rest, 0.05))

    def stop(self) -> None:
        """End `run` after its present round."""
        self._stop.set()

    def release(self) -> None:
        """Leave the Lease free, so that a standby takes over at once. Otherwise it runs out by itself."""
        if not self.leading:
            return
        try:
            body, seen = self._read()
            if body is not None and seen is not None and seen.holder == self._settings.identity:
                self._api.replace(LEASE, self._body(body, "", seen.transitions))
        except ApiError as failure:
            _log.info("lease: not released (%s); it runs out by itself", failure)
        finally:
            self.lost.set()

    def _round(self) -> None:
        begun = self._clock()
        body, self._seen = self._read()
        me = self._settings.identity
        match step_election(self._seen, me, self._leading.is_set(), self._clock()):
            case Action.WAIT:
                return
            case Action.EXIT:
                _log.error(
                    "lease: %s holds it now; this process ends", self._seen.holder if self._seen else ""
                )
                self.lost.set()
                return
            case Action.CREATE:
                self._send(lambda: self._api.create(LEASE, self._body(None, me, 0)), begun)
            case Action.ACQUIRE:
                transitions = self._seen.transitions + 1 if self._seen else 0
                self._send(lambda: self._api.replace(LEASE, self._body(body, me, transitions)), begun)
            case Action.RENEW:
                transitions = self._seen.transitions if self._seen else 0
                self._send(lambda: self._api.replace(LEASE, self._body(body, me, transitions)), begun)

    def _send(self, call: Callable[[], object], begun: float) -> None:
        try:
            call()
        except ConflictError:
            return  # another was faster; the next round reads who
        self._renewed = begun
        self._contact = self._clock()
        if not self._leading.is_set():
            _log.info("lease: %s leads now", self._settings.identity)
            self._leading.set()

    def _read(self) -> Read:
        try:
            body = self._api.get(LEASE, NAME, self._settings.system_namespace)
        except NotFoundError:
            self._contact = self._clock()
            return Read(None, None)
        self._contact = self._clock()
        spec = body.get("spec", {})
        seen = Seen(
            holder=str(spec.get("holderIdentity") or ""),
            version=str(body["metadata"].get("resourceVersion", "")),
            duration=float(spec.get("leaseDurationSeconds") or self._settings.lease_duration),
            since=self._clock(),
            transitions=int(spec.get("leaseTransitions") or 0),
        )
        return Read(body, observe_lease(self._seen, seen))

    def _body(self, before: dict[str, Any] | None, holder: str, transitions: int) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        metadata = {"name": NAME, "namespace": self._settings.system_namespace}
        acquired = now
        if before is not None:
            metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
            if before.get("spec", {}).get("holderIdentity") == holder:
                acquired = before["spec"].get("acquireTime") or now
        return {
            "metadata": metadata,
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": round(self._settings.lease_duration) if holder else 1,
                "acquireTime": acquired,
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }
