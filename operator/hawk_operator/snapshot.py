"""What all pools share, read once for many: agents and their Leases, classes, pools, other scalers.

Each part is listed anew when it is older than its age, so hundreds of pools that are looked at in one second
cost one list. Nothing here comes from a watch: a watch only makes a part older (`stale`).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hawk_operator.resources import (
    AUTOSCALER,
    CLASS,
    LEASE,
    NODE,
    POD,
    POOL,
    SCALED_OBJECT,
    Kind,
)
from hawk_operator.wiring import liveness
from hawk_operator.wiring.peers import Agent, agent_of
from hawk_operator.workloads.children import MANAGED

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_operator.access import Access
    from hawk_operator.cluster_api import ClusterApi, Object
    from hawk_operator.settings import Settings

T = TypeVar("T")

_AGES: Final = {
    NODE: 2.0,
    LEASE: 4.0,
    CLASS: 30.0,
    POOL: 2.0,
    POD: 1.0,
    AUTOSCALER: 15.0,
    SCALED_OBJECT: 15.0,
}


class Snapshot:
    """Shared lists with an age; safe for several threads."""

    def __init__(
        self,
        api: ClusterApi,
        access: Access,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._access = access
        self._namespace = settings.namespace or None
        self._system = settings.system_namespace
        self._clock = clock
        self._wall = wall
        self._lists: dict[Kind, tuple[list[Object], float]] = {}
        self._locks = {kind: threading.Lock() for kind in _AGES}
        self._beats: dict[str, liveness.Beat] = {}

    def stale(self, kind: Kind) -> None:
        """List a kind anew at the next question."""
        self._lists.pop(kind, None)

    def pools(self) -> list[Object]:
        """Every HawkPool that is served."""
        return self._list(POOL, self._namespace)

    def pool_pods(self) -> list[Object]:
        """Every pod that belongs to a child of some pool."""
        return self._list(POD, self._namespace, MANAGED)

    def classes(self) -> list[Object] | None:
        """Every AcceleratorClass; None without the right to read them."""
        return self._list(CLASS) if self._access.usable("list", CLASS) else None

    def agents_known(self) -> bool:
        """Whether agents can be seen at all."""
        return self._access.usable("list", NODE) and self._access.usable("list", LEASE, self._system)

    def agents(self) -> dict[str, Agent]:
        """Every agent by the name of its HawkNode; none without the right to read them."""
        if not self.agents_known():
            return {}
        live = self.living()
        return {body["metadata"]["name"]: agent_of(body, live) for body in self._list(NODE)}

    def living(self) -> frozenset[str]:
        """The HawkNodes whose agents live, by a list of the Leases that is at most a few seconds old."""
        if not self._access.usable("list", LEASE, self._system):
            return frozenset()
        leases = self._list(LEASE, self._system)
        with self._locks[LEASE]:
            self._beats = liveness.observe(self._beats, leases, self._wall())
            return liveness.living(self._beats, self._wall())

    def autoscalers(self) -> list[Object]:
        """Every HorizontalPodAutoscaler and ScaledObject in the served namespaces."""
        found: list[Object] = []
        for kind in (AUTOSCALER, SCALED_OBJECT):
            if self._access.usable("list", kind, self._namespace or ""):
                found += [{**item, "kind": kind.kind} for item in self._list(kind, self._namespace)]
        return found

    def _list(
        self, kind: Kind, namespace: str | None = None, labels: dict[str, str] | None = None
    ) -> list[Any]:
        with self._locks[kind]:
            known = self._lists.get(kind)
            if known is not None and self._clock() - known[1] < _AGES[kind]:
                return known[0]
            begun = self._clock()
            items = self._api.list(kind, namespace if kind.namespaced else None, labels)
            self._lists[kind] = (items, begun)
            return items
