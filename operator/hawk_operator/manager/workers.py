"""Threads that take keys off the queue, and what becomes of each outcome.

One pool's error is its own: it is said in its condition, counted, and tried again ever more slowly, while the
other keys go on.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from hawk_kube.errors import ApiError, UnavailableError
from hawk_operator.runtime.workqueue import WIRING

if TYPE_CHECKING:
    from hawk_operator.manager.health import Activity
    from hawk_operator.manager.leader import Leadership
    from hawk_operator.reconcile.context import ReconcileContext
    from hawk_operator.reconcile.pool import PoolReconciler
    from hawk_operator.reconcile.wiring import WiringReconciler
    from hawk_operator.runtime.workqueue import WorkKey

_log = logging.getLogger(__name__)

_WAIT: Final = 1.0


class Workers:
    """The pool of threads."""

    def __init__(
        self,
        context: ReconcileContext,
        pools: PoolReconciler,
        wiring: WiringReconciler,
        leadership: Leadership,
        activity: Activity,
    ) -> None:
        self._context = context
        self._pools = pools
        self._wiring = wiring
        self._leadership = leadership
        self._activity = activity
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name=f"worker-{index}", daemon=True)
            for index in range(context.settings.workers)
        ]

    def start(self) -> None:
        """Begin to work."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Take no more keys; returns at once."""
        self._stop.set()
        self._context.queue.close()

    def join(self, timeout: float) -> None:
        """Wait until what is being worked on is done, at most `timeout` seconds in all."""
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _run(self) -> None:
        queue = self._context.queue
        while not self._stop.is_set():
            key = queue.take(_WAIT)
            if key is None:
                continue
            try:
                self._work(key)
            finally:
                queue.done(key)

    def _work(self, key: WorkKey) -> None:
        metrics, queue = self._context.metrics, self._context.queue
        if not self._leadership.may_write():
            queue.add(key, _WAIT)
            return
        outcome = "success"
        with metrics.seconds.labels(key.kind).time():
            try:
                self._reconcile(key)
            except UnavailableError as error:
                outcome = "retry"
                _log.info("%s: %s; again in %.1f s", key, error, queue.failed(key, error.delay))
            except ApiError as error:
                outcome = "retry"
                _log.warning("%s: %s; again in %.1f s", key, error, queue.failed(key))
            except Exception as error:  # noqa: BLE001 - a fault with one pool must not end the others' thread
                outcome = "error"
                _log.exception("%s: unexpected error; again in %.1f s", key, queue.failed(key))
                self._say(key, error)
        metrics.reconciles.labels(key.kind, outcome).inc()

    def _reconcile(self, key: WorkKey) -> None:
        if key == WIRING:
            self._wiring.reconcile()
            self._context.queue.succeeded(key)
            return
        self._pools.reconcile(key)
        self._activity.reconciled()

    def _say(self, key: WorkKey, error: Exception) -> None:
        if key == WIRING:
            return
        try:
            self._pools.report_failure(key, f"{type(error).__name__}: {error}")
        except ApiError as failure:
            _log.info("%s: could not be told of it: %s", key, failure)
