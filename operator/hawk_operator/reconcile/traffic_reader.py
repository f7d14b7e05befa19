"""Reading the traffic: in a thread of its own, with a time-out, and never more often than the interval."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING

from hawk_operator.traffic.collect import collect_window
from hawk_operator.traffic.source import GroupTarget, Source
from hawk_planner.traffic import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hawk_api.v1alpha1 import HawkPool
    from hawk_operator.workloads.pods import GroupPods

_log = logging.getLogger(__name__)


def group_targets(pool: HawkPool, groups: Sequence[GroupPods]) -> list[GroupTarget]:
    """The pods whose series count; where no pod of a group is known, only the selector filters."""
    return [
        GroupTarget(
            name=group.name,
            role=group.role,
            pods=tuple(pod.name for pod in group.active),
            namespace=pool.metadata.namespace,
        )
        for group in groups
    ]


class TrafficReader:
    """Reads windows for the reconcile workers."""

    def __init__(
        self, threads: int, read: Callable[[Source, Sequence[GroupTarget], float], Window] = collect_window
    ) -> None:
        self._read = read
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="traffic")

    def read_window(self, pool: HawkPool, groups: Sequence[GroupPods], now: float) -> Window | None:
        """The traffic now; None where the pool has no spec.traffic. An error is in the window, never raised.

        Ends at the latest after twice the source's time-out: the reader keeps to one, and this is the
        net below it.
        """
        spec = pool.spec.traffic
        if spec is None:
            return None
        try:
            source = Source.of(spec)
        except ValueError as error:
            return Window(now, spec.window, error=f"spec.traffic.{error}")
        task = self._pool.submit(self._read, source, group_targets(pool, groups), now)
        try:
            return task.result(timeout=2 * source.timeout + 1)
        except FutureTimeout:
            task.cancel()
            problem = f"no answer from {source.url} in {2 * source.timeout + 1:g} s"
            return Window(now, spec.window, error=problem, answered=False)
        except Exception as error:  # noqa: BLE001 - a fault in reading is lost traffic, not a lost pool
            _log.exception("traffic of %s/%s", pool.metadata.namespace, pool.metadata.name)
            return Window(now, spec.window, error=f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Take no more work; what runs ends by its own time-outs."""
        self._pool.shutdown(wait=False, cancel_futures=True)
