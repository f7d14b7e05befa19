"""Kubernetes Events: what changed about a pool, each thing said once.

An Event's name is derived from what it says, so saying it again (after a restart, too) raises a count instead
of adding objects. Events are for people; nothing is decided by them and a lost one costs nothing.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from hawk_api.names import child_name
from hawk_kube.errors import ApiError, ConflictError
from hawk_kube.kinds import EVENT, HAWK_POOL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hawk_api.conditions import Condition
    from hawk_kube.client import Client

_REPEAT_AFTER: Final = 600.0
_REMEMBERED: Final = 4096
_LONGEST: Final = 1024

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Happening:
    """Something worth an Event. `key` is what makes two of them the same; the message by default."""

    reason: str
    message: str
    warning: bool = False
    key: str = ""

    @property
    def identity(self) -> str:
        """Equal for happenings that are one."""
        return f"{self.reason}/{self.key or self.message}"


def condition_transitions(before: Mapping[str, Condition], after: Mapping[str, Condition]) -> list[Happening]:
    """A happening for each condition whose status or reason changed; of a new pool, only for those that
    are wrong."""
    found = []
    for kind, new in after.items():
        old = before.get(kind)
        if old is not None and (old.status, old.reason) == (new.status, new.reason):
            continue
        if old is None and not _wrong(new):
            continue
        found.append(
            Happening(
                new.reason,
                f"{kind} is {new.status}: {new.message or new.reason}",
                warning=_wrong(new),
                key=f"{kind}={new.status}",
            )
        )
    return found


def _wrong(condition: Condition) -> bool:
    return condition.status == "False" and condition.type != "Draining"


class Recorder:
    """Writes Events, at most one in ten minutes for the same thing about the same object.

    They are written in a separate thread, in order: no reconcile waits for an Event.
    """

    def __init__(self, api: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="events")
        self._clock = clock
        self._said: dict[tuple[str, str], float] = {}
        self._full = _REMEMBERED
        self._lock = threading.Lock()

    def record(self, metadata: Mapping[str, Any], happening: Happening) -> None:
        """Have an Event about the HawkPool with this metadata written; never raises for the API's sake."""
        if not self._due((str(metadata.get("uid")), happening.identity)):
            return
        _log.info(
            "%s/%s: %s: %s", metadata["namespace"], metadata["name"], happening.reason, happening.message
        )
        self._writer.submit(self._attempt, dict(metadata), happening)

    def _attempt(self, metadata: Mapping[str, Any], happening: Happening) -> None:
        try:
            self._write(metadata, happening)
        except ApiError as failure:
            _log.debug("event not written: %s", failure)
        except Exception:  # noqa: BLE001 - nobody waits for the result
            _log.exception("event not written")

    def _due(self, identity: tuple[str, str]) -> bool:
        now = self._clock()
        with self._lock:
            if now - self._said.get(identity, -_REPEAT_AFTER) < _REPEAT_AFTER:
                return False
            if len(self._said) >= self._full:
                self._said = {key: at for key, at in self._said.items() if now - at < _REPEAT_AFTER}
                self._full = max(_REMEMBERED, 2 * len(self._said))
            self._said[identity] = now
            return True

    def _write(self, metadata: Mapping[str, Any], happening: Happening) -> None:
        name = event_name(metadata, happening)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        message = happening.message[:_LONGEST]
        body = {
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": HAWK_POOL.api_version,
                "kind": HAWK_POOL.kind,
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "reason": happening.reason,
            "message": message,
            "type": "Warning" if happening.warning else "Normal",
            "source": {"component": "hawk-operator"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._api.create(EVENT, body)
        except ConflictError:
            # The count of earlier Events is not read back: that would cost a right to read all Events.
            self._api.patch(
                EVENT, name, metadata["namespace"], {"lastTimestamp": now, "message": message, "count": 2}
            )


def event_name(metadata: Mapping[str, Any], happening: Happening) -> str:
    """A name that only this happening about this very object has."""
    digest = hashlib.sha256(f"{metadata['uid']}/{happening.identity}".encode()).hexdigest()[:16]
    return f"{child_name(metadata['name'])}.{digest}"
