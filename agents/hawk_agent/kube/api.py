"""The calls to the Kubernetes API that an agent makes about its node.

| verb | resource | why |
|---|---|---|
| get | nodes (its own) | the owner of its HawkNode |
| get, watch (list) | hawknodes (its own) | peers |
| create, patch | hawknodes (its own) | there is one as long as the agent runs |
| patch | hawknodes/status (its own) | what it reports |
| get, create, patch | leases in the system namespace (its own) | liveness |
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from hawk_api import fitting
from hawk_kube.errors import ApiError, NotFoundError
from hawk_kube.kinds import HAWK_NODE, LEASE, NODE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hawk_kube.threads import AsyncClient

WATCH_SECONDS: Final = 50

Object = dict[str, Any]

log = logging.getLogger(__name__)


class NodeApi:
    """Calls about one node; each raises `hawk_kube.errors.ApiError`."""

    def __init__(self, kube: AsyncClient, node: str, system_namespace: str) -> None:
        self._kube = kube
        self._node = node
        self._namespace = system_namespace
        self._lacking: frozenset[str] = frozenset()

    async def ensure(self) -> None:
        """Make the HawkNode be there, owned by its Node where there is one."""
        metadata: Object = {"name": self._node}
        try:
            node = await self._kube.call(self._kube.client.get, NODE, self._node)
        except NotFoundError:
            pass
        else:
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": node["metadata"]["uid"]}
            metadata["ownerReferences"] = [owner]
        await self._kube.call(self._kube.client.apply, HAWK_NODE, {"metadata": metadata})

    async def publish(self, status: Object) -> None:
        """Apply the status; without the fields that an older CRD doesn't know, which is said once."""
        try:
            await self._publish(status)
        except ApiError as error:  # API servers answer an undeclared field with a 500
            lacking = fitting.undeclared(str(error)) - self._lacking
            if not lacking:
                raise
            log.warning("the served HawkNode lacks %s; apply this release's CRDs", ", ".join(sorted(lacking)))
            self._lacking |= lacking
            await self._publish(status)

    async def _publish(self, status: Object) -> None:
        known = fitting.without(status, self._lacking, "status")
        body = {"metadata": {"name": self._node}, "status": known}
        await self._kube.call(self._kube.client.apply, HAWK_NODE, body, subresource="status")

    async def get(self) -> Object:
        """The HawkNode."""
        return await self._kube.call(self._kube.client.get, HAWK_NODE, self._node)

    def watch(self, version: str) -> AsyncGenerator[tuple[str, Object], None]:
        """Changes of the HawkNode from a version on, until the server or the time ends it."""
        begin, own = self._kube.client.watch, {"metadata.name": self._node}
        return self._kube.watch(lambda: begin(HAWK_NODE, version=version, seconds=WATCH_SECONDS, fields=own))

    async def beat(self, epoch: str, now: str, seconds: int) -> None:
        """Renew the Lease; without an epoch, give it up."""
        spec: Object = {"leaseDurationSeconds": seconds, "renewTime": now}
        if epoch:
            spec["holderIdentity"] = epoch
        body = {"metadata": {"name": self._node, "namespace": self._namespace}, "spec": spec}
        await self._kube.call(self._kube.client.apply, LEASE, body)
