"""The process: its parts, the order in which they start, and how it ends.

Health and the Lease come first. Everything else (watches, workers, lists) starts when the Lease is ours: a
standby holds no watches and no lists. The process ends with 0 when asked to, and with another code at once
when another process has the Lease.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

from hawk_kube.client import connect_client
from hawk_kube.errors import ApiError, NotFoundError
from hawk_kube.gate import Gate
from hawk_kube.kinds import ACCELERATOR_CLASS, HAWK_NODE, HAWK_POOL
from hawk_operator.kube.access import Access
from hawk_operator.kube.events import Recorder
from hawk_operator.manager.health import Activity, HealthServer, Progress, check_alive, check_ready
from hawk_operator.manager.leader import Leadership
from hawk_operator.runtime.metrics import Metrics
from hawk_operator.runtime.workqueue import WorkQueue

if TYPE_CHECKING:
    from hawk_kube.kinds import ResourceKind
    from hawk_operator.reconcile.context import ReconcileContext
    from hawk_operator.runtime.settings import OperatorSettings

_log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "hawk-operator"

LOST_LEASE: Final = 3
"""Exit code of a process that led and lost the Lease."""

_STOP_SECONDS: Final = 6.0


class Runnable(Protocol):
    """Something that runs beside the others."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End soon; returns at once."""

    def join(self, timeout: float) -> None:
        """Wait for the end at most `timeout` seconds."""


class Operator:
    """Runs until `stop` is called or the Lease is lost."""

    def __init__(self, settings: OperatorSettings) -> None:
        self._settings = settings
        self._metrics = Metrics()
        self._gate = Gate(self._metrics.throttled.inc)
        self._activity = Activity()
        self._stop = threading.Event()
        self._queue = WorkQueue()
        # The Lease is written without leave: renewing it is how the right to write is kept.
        self._leadership = Leadership(connect_client(FIELD_MANAGER, self._gate), settings)
        self._api = connect_client(FIELD_MANAGER, self._gate, self._leadership.may_write)
        self._server = HealthServer(
            settings.bind_address,
            settings.metrics_port,
            {
                "/healthz": lambda: check_alive(self._progress(), settings.stuck_after),
                "/readyz": lambda: check_ready(self._progress(), 3 * settings.resync),
            },
            self._exposition,
        )

    def stop(self) -> None:
        """End soon; callable from a signal handler."""
        self._stop.set()

    def run(self) -> int:
        """Lead when it is our turn, until the end; gives the exit code."""
        self._server.start()
        elect = threading.Thread(target=self._leadership.run, name="lease", daemon=True)
        elect.start()
        try:
            while not self._leadership.wait_until_leading(0.2):
                if self._stop.is_set():
                    return 0
            self._metrics.leading.set(1)
            self._lead()
            if self._leadership.lost.is_set():
                return LOST_LEASE
            self._leadership.stop()
            elect.join(_STOP_SECONDS)
            self._leadership.release()
            return 0
        finally:
            self._leadership.stop()
            self._server.stop()

    def _lead(self) -> None:
        parts = self._parts()
        if not parts:
            return
        for part in parts:
            part.start()
        while not self._stop.wait(0.2) and not self._leadership.lost.is_set():
            pass
        for part in parts:
            part.stop()
        if not self._leadership.lost.is_set():  # what is lost must not be waited for
            end = time.monotonic() + _STOP_SECONDS
            for part in parts:
                part.join(max(0.0, end - time.monotonic()))

    def _parts(self) -> list[Runnable]:
        """Everything that a leader runs, imported only now."""
        from hawk_operator.manager.periodic import Pulse, Resync  # noqa: PLC0415
        from hawk_operator.manager.workers import Workers  # noqa: PLC0415
        from hawk_operator.reconcile.pool import PoolReconciler  # noqa: PLC0415
        from hawk_operator.reconcile.wiring import WiringReconciler  # noqa: PLC0415
        from hawk_operator.trust.loop import TrustLoop  # noqa: PLC0415
        from hawk_operator.watch.event_handlers import EventHandlers  # noqa: PLC0415
        from hawk_operator.watch.watcher import Watcher, watched_kinds  # noqa: PLC0415

        context = self._context()
        asked = self._ask(context)
        if asked is None:
            return []
        allowed, signs = asked
        pools, wiring = PoolReconciler(context), WiringReconciler(context)
        return [
            Watcher(
                self._settings,
                EventHandlers(context, time.time),
                self._metrics,
                self._activity,
                watched_kinds(allowed),
            ),
            Resync(context, self._leadership, self._activity),
            Pulse(context, self._leadership),
            Workers(context, pools, wiring, self._leadership, self._activity),
            *([TrustLoop(context.api, self._settings, self._metrics.registry)] if signs else ()),
        ]

    def _ask(self, context: ReconcileContext) -> tuple[list[ResourceKind], bool] | None:
        """Which of the cluster's kinds may be watched, and whether certificates are signed here.

        Waits until the cluster serves HawkPools and answers; None when asked to end before that.
        """
        from hawk_operator.kube import schema_check  # noqa: PLC0415
        from hawk_operator.trust.loop import signs_here  # noqa: PLC0415

        said = ""
        while not self._stop.is_set() and not self._leadership.lost.is_set():
            try:
                context.api.document(HAWK_POOL.prefix)
                context.shared.schema = schema_check.compare_schemas(
                    schema_check.needed_fields(), schema_check.served_fields(context.api)
                )
                allowed = [
                    kind for kind in (HAWK_NODE, ACCELERATOR_CLASS) if context.access.usable("watch", kind)
                ]
                return allowed, signs_here(context.api, context.access, self._settings)
            except NotFoundError as error:
                problem = f"the cluster doesn't serve HawkPools yet ({error}); apply the CRDs"
            except ApiError as error:
                problem = str(error)
            if problem != said:
                _log.warning("start: %s", problem)
                said = problem
            self._stop.wait(2.0)
        return None

    def _context(self) -> ReconcileContext:
        from hawk_operator.cache.cluster_cache import ClusterCache  # noqa: PLC0415
        from hawk_operator.reconcile.act import Actor  # noqa: PLC0415
        from hawk_operator.reconcile.context import ReconcileContext, Shared  # noqa: PLC0415
        from hawk_operator.reconcile.memory import Memories  # noqa: PLC0415
        from hawk_operator.reconcile.observe import Observer  # noqa: PLC0415
        from hawk_operator.reconcile.traffic_reader import TrafficReader  # noqa: PLC0415

        settings, api = self._settings, self._api
        access = Access(api)
        cache = ClusterCache(api, access, settings)
        return ReconcileContext(
            settings=settings,
            api=api,
            access=access,
            cache=cache,
            queue=self._queue,
            metrics=self._metrics,
            recorder=Recorder(api),
            observer=Observer(api, cache),
            actor=Actor(api, cache, self._metrics, settings),
            traffic=TrafficReader(settings.workers),
            memories=Memories(),
            shared=Shared(),
        )

    def _progress(self) -> Progress:
        return self._activity.progress(
            leading=self._leadership.leading,
            lost=self._leadership.lost.is_set(),
            lease_age=self._leadership.since_contact(),
            throttled_for=self._gate.remaining(),
        )

    def _exposition(self) -> bytes:
        self._metrics.leading.set(1 if self._leadership.may_write() else 0)
        waiting, busy = self._queue.depth()
        self._metrics.queue.labels("waiting").set(waiting)
        self._metrics.queue.labels("busy").set(busy)
        return self._metrics.text()
