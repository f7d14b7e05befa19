"""Periodic work, which happens even if no watch delivers.

`Resync` lists the pools itself: new ones are found, gone ones forgotten, known ones kept on their grid.
`Pulse` lists the agents' Leases every few seconds, since a Lease that runs out makes no event.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from hawk_kube.errors import ApiError
from hawk_kube.kinds import ACCELERATOR_CLASS, DEPLOYMENT, HAWK_NODE, HAWK_POOL, POD
from hawk_operator.cache import classes
from hawk_operator.kube import schema_check
from hawk_operator.reconcile import agent_pods
from hawk_operator.runtime.workqueue import next_tick, pool_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_operator.manager.health import Activity
    from hawk_operator.manager.leader import Leadership
    from hawk_operator.reconcile.context import ReconcileContext

_log = logging.getLogger(__name__)

PULSE_SECONDS: Final = 3.0
_RETRY_SECONDS: Final = 2.0
_HOUSEKEEPING_SECONDS: Final = 120.0


class Periodic:
    """Repeats `round` every `interval` seconds in a thread; a failed round is repeated sooner."""

    def __init__(self, name: str, interval: float, context: ReconcileContext, leadership: Leadership) -> None:
        self._name = name
        self._interval = interval
        self._context = context
        self._leadership = leadership
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present round; returns at once."""
        self._stop.set()

    def join(self, timeout: float) -> None:
        """Wait for the end."""
        self._thread.join(timeout)

    def round(self) -> None:
        """The work; raises ApiError to be repeated sooner."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self._stop.is_set():
            rest = self._interval
            if self._leadership.may_write():
                try:
                    self.round()
                except ApiError as error:
                    rest = min(self._interval, max(_RETRY_SECONDS, getattr(error, "delay", 0.0)))
                    _log.warning("%s: %s; again in %.1f s", self._name, error, rest)
                except Exception:  # noqa: BLE001 - the safety net must not tear
                    _log.exception("%s: unexpected error", self._name)
            self._stop.wait(rest)


class Resync(Periodic):
    """The list of pools, and now and then the classes and the schema."""

    def __init__(
        self,
        context: ReconcileContext,
        leadership: Leadership,
        activity: Activity,
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("resync", context.settings.resync, context, leadership)
        self._activity = activity
        self._wall = wall
        self._kept_house = float("-inf")
        self._needed = schema_check.needed_fields()

    def round(self) -> None:
        """List, compare with what is known, enqueue what changed."""
        metrics = self._context.metrics
        try:
            self._housekeeping()
            self._look_at_agents_pods()
            for kind in (HAWK_POOL, DEPLOYMENT, POD, HAWK_NODE, ACCELERATOR_CLASS):
                self._context.cache.refresh(kind, 0.9 * self._interval)
            pools = self._context.cache.pools()
        except ApiError:
            metrics.lists.labels("failure").inc()
            raise
        metrics.lists.labels("success").inc()
        metrics.pools.set(len(pools))
        self._activity.listed(len(pools))
        queue, present = self._context.queue, set()
        for entry in pools:
            metadata, body = entry.body["metadata"], entry.body
            key = pool_key(metadata["namespace"], metadata["name"])
            present.add(key)
            seen = (body.get("status") or {}).get("observedGeneration")
            if seen != metadata.get("generation") or metadata.get("deletionTimestamp"):
                queue.add(key)
            else:
                queue.add_at(key, next_tick(metadata["uid"], self._interval, self._wall()))
        for key in self._context.memories.known() - present:
            queue.add(key)
        self._context.enqueue_wiring()

    def _look_at_agents_pods(self) -> None:
        settings = self._context.settings
        if settings.agent_daemon_set:
            namespace = settings.agent_namespace or settings.system_namespace
            try:
                said = agent_pods.refused_agent_pods(self._context.api, namespace, settings.agent_daemon_set)
            except ApiError as error:
                _log.debug("agents: %s", error)  # it explains, nothing depends on it
                return
            if said and said != self._context.shared.agents_refused:
                _log.warning("agents: %s", said)
            self._context.shared.agents_refused = said

    def _housekeeping(self) -> None:
        """Keep the shipped classes current and compare the served schema with the needed one."""
        now = time.monotonic()
        if now - self._kept_house < _HOUSEKEEPING_SECONDS:
            return
        schema = schema_check.compare_schemas(self._needed, schema_check.served_fields(self._context.api))
        self._context.shared.schema = schema
        for kind, lacking in schema.lacking.items():
            _log.warning(
                "schema: the served %s lacks %s; apply this release's CRDs", kind, ", ".join(sorted(lacking))
            )
        present = self._context.cache.classes()
        if present is not None and self._context.access.usable("patch", ACCELERATOR_CLASS):
            for body in classes.apply_shipped(self._context.api, present, schema):
                _log.info("applied AcceleratorClass %s", body["metadata"]["name"])
                self._context.cache.put_class(body)
                self._context.metrics.writes.labels(ACCELERATOR_CLASS.plural, "apply").inc()
        self._kept_house = now


class Pulse(Periodic):
    """The agents' Leases: an agent that appears or dies enqueues the pools on its node."""

    def __init__(self, context: ReconcileContext, leadership: Leadership) -> None:
        super().__init__("pulse", PULSE_SECONDS, context, leadership)
        self._living: frozenset[str] | None = None

    def round(self) -> None:
        """Compare who lives with who lived."""
        living = self._context.cache.refresh_living()
        before, self._living = self._living, living
        if before is None or before == living:
            return
        self._context.enqueue_wiring()
        for name in before ^ living:
            for key in self._context.shared.pools_on(name):
                self._context.queue.add(key)
