"""Keeps the cluster informed of this agent, and the agent of its peers.

Three loops that don't wait for each other: the Lease is renewed, the status is written when it changed, the
own HawkNode is watched. While the API is away the links stay as they are; when it is back, what is there is
read anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hawk_agent.kube import status as statuses
from hawk_agent.service import pools
from hawk_agent.service.settings import PeerAddress
from hawk_api.backoff import Backoff
from hawk_api.reasons import Reason
from hawk_kube.errors import ApiError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from hawk_agent.kube.api import NodeApi
    from hawk_agent.service.agent import NodeAgent
    from hawk_agent.supervision import Duty

RENEW_SECONDS: Final = 10.0
LEASE_SECONDS: Final = 40
"""As kubelets do. A lost agent is noticed by its peers' connections long before; the Lease is for agents
without peers."""
GATHER_SECONDS: Final = 0.2
"""Changes that come together are written together."""
RESTS = Backoff(0.5, 15.0)

log = logging.getLogger(__name__)


class Publisher:
    """Start it after the agent, close it before the agent and `api`'s client."""

    def __init__(self, agent: NodeAgent, api: NodeApi) -> None:
        self._agent = agent
        self._api = api
        self._changed = asyncio.Event()
        self._written: dict[str, Any] | None = None
        self._duties: list[Duty] = []

    async def start(self) -> None:
        """Begin. The API may be away."""
        self._agent.on_change = self._changed.set
        self._changed.set()
        loops = (("lease", self._renew), ("status", self._publish), ("peers", self._follow))
        self._duties = [
            self._agent.supervisor.keep(f"publishing: {name}", partial(self._for_ever, name, work))
            for name, work in loops
        ]

    async def close(self) -> None:
        """Stop, and give the Lease up so that nobody waits for it to run out."""
        self._agent.on_change = lambda: None
        tasks = [duty.task for duty in self._duties if duty.task is not None]
        for duty in self._duties:
            duty.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(ApiError):
            await self._api.beat("", _micro(), 1)

    async def _for_ever(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            try:
                await work()
                failures = 0
            except ApiError as error:
                self._agent.metrics.api_errors.labels(name).inc()
                log.log(logging.WARNING if failures in {0, 5} else logging.DEBUG, "%s", error)
                failures += 1
                await asyncio.sleep(RESTS.rest(failures))
            except Exception:
                log.exception("%s", name)
                await asyncio.sleep(RESTS.longest)

    async def _renew(self) -> None:
        if not self._agent.unhealthy():
            await self._api.beat(self._agent.identity.epoch, _micro(), LEASE_SECONDS)
        await asyncio.sleep(RENEW_SECONDS * random.uniform(0.9, 1.0))  # noqa: S311 -- spread, no secret

    async def _publish(self) -> None:
        """Write the status if it differs from what was written last."""
        await self._changed.wait()
        await asyncio.sleep(GATHER_SECONDS)
        self._changed.clear()
        agent = self._agent
        links = agent.links.facts()
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        before = self._written or {"conditions": []}
        rails = [rail for transport in agent.transports.values() for rail in transport.rails]
        wanted = statuses.build_node_status(
            agent.identity, agent.address, agent.regions, links, rails, busy=agent.usage.busy
        )
        wanted["conditions"] = statuses.node_conditions(links, before["conditions"], now, unused=agent.unused)
        if wanted == self._written:
            return
        try:
            if self._written is None:
                await self._api.ensure()
            await self._api.publish(wanted)
        except ApiError as error:
            if isinstance(error, NotFoundError):
                self._written = None
            self._changed.set()
            raise
        self._written = wanted
        agent.metrics.published.inc()

    async def _follow(self) -> None:
        """Read the HawkNode, then follow its changes for a while."""
        try:
            body = await self._api.get()
        except NotFoundError:
            self._missing()
            raise
        self._take(body)
        async with contextlib.aclosing(self._api.watch(body["metadata"]["resourceVersion"])) as events:
            async for kind, changed in events:
                if kind == "DELETED":
                    self._missing()
                    return
                self._take(changed)

    def _missing(self) -> None:
        """Write the HawkNode again: it was removed, or is contradicted. Links stay until another word."""
        self._written = None
        self._changed.set()

    def _take(self, body: Mapping[str, Any]) -> None:
        own = self._agent.settings
        spec = body.get("spec") or {}
        self._agent.pools.terms = pools.parse_pools(spec)
        self._agent.links.wire((*own.peers, *wanted(spec)))
        if self._written is not None and taken_back(body.get("status") or {}):
            self._missing()


def taken_back(status: Mapping[str, Any]) -> bool:
    """True if the operator took this agent for lost. Pure."""
    return any(
        condition["type"] == "Ready" and condition.get("reason") == Reason.AGENT_LOST.value
        for condition in status.get("conditions") or ()
    )


def wanted(spec: Mapping[str, Any]) -> list[PeerAddress]:
    """The peers of a HawkNode's spec; a node that prefills and decodes for a pool is its own. Pure."""
    return [
        PeerAddress(peer["address"], peer["node"], peer.get("epoch") or "")
        for peer in spec.get("peers") or ()
    ]


def _micro() -> str:
    """Now, as a Lease wants it."""
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
