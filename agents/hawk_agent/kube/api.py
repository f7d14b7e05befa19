"""The calls to the Kubernetes API that an agent makes, each with a time-out, none fatal.

| verb | resource | why |
|---|---|---|
| get | nodes (its own) | the owner of its HawkNode |
| get, watch (list) | hawknodes (its own) | peers |
| create, patch | hawknodes (its own) | there is one as long as the agent runs |
| patch | hawknodes/status (its own) | what it reports |
| get, create, patch | leases in the system namespace (its own) | liveness |
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx2
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.core.resource import ApiInfo
from lightkube.generic_resource import (
    GenericGlobalResource,
    GenericGlobalStatus,
    GenericNamespacedResource,
    create_api_info,
)

from hawk_agent.errors import HawkAgentError
from hawk_api import fitting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

CALL_SECONDS: Final = 5.0
WATCH_SECONDS: Final = 50
MANAGER: Final = "hawk-agent"
API: Final = "hawkpool.dev/v1alpha1"


class _HawkNode(GenericGlobalResource):
    _api_info = create_api_info("hawkpool.dev", "v1alpha1", "HawkNode", "hawknodes")


class _HawkNodeStatus(GenericGlobalStatus):
    _api_info = ApiInfo(
        resource=_HawkNode._api_info.resource,
        parent=_HawkNode._api_info.resource,
        plural="hawknodes",
        verbs=["patch"],
        action="status",
    )


class _Node(GenericGlobalResource):
    _api_info = create_api_info("", "v1", "Node", "nodes")


class _Lease(GenericNamespacedResource):
    _api_info = create_api_info("coordination.k8s.io", "v1", "Lease", "leases")


Object = dict[str, Any]
T = TypeVar("T")

log = logging.getLogger(__name__)


class ApiCallError(HawkAgentError):
    """A call that didn't succeed; `status` is HTTP's, 0 without an answer."""

    def __init__(self, call: str, problem: str, status: int = 0) -> None:
        super().__init__(f"{call}: {problem}")
        self.call = call
        self.status = status


def _client() -> AsyncClient:
    """A client by KUBECONFIG or the pod's own token, and without the proxies that the environment names."""
    return AsyncClient(KubeConfig.from_env(), trust_env=False, field_manager=MANAGER)


class NodeApi:
    """Calls about one node. A client that the server no longer knows is made anew, with the token of the
    day."""

    def __init__(self, node: str, system_namespace: str) -> None:
        self._node = node
        self._namespace = system_namespace
        self._client = _client()
        self._lacking: frozenset[str] = frozenset()

    async def ensure(self) -> None:
        """Make the HawkNode be there, owned by its Node where there is one."""
        metadata: Object = {"name": self._node}
        try:
            node = await self._call("get node", lambda: self._client.get(_Node, self._node))
        except ApiCallError as error:
            if error.status != 404:
                raise
        else:
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": node["metadata"]["uid"]}
            metadata["ownerReferences"] = [owner]
        body = {"apiVersion": API, "kind": "HawkNode", "metadata": metadata}
        await self._call("apply hawknode", lambda: self._client.apply(_HawkNode.from_dict(body), force=True))

    async def publish(self, status: Object) -> None:
        """Apply the status; without the fields that an older CRD doesn't know, which is said once."""
        try:
            await self._publish(fitting.without(status, self._lacking, "status"))
        except ApiCallError as error:
            lacking = fitting.undeclared(str(error)) - self._lacking
            if not lacking:
                raise
            log.warning("the served HawkNode lacks %s; apply this release's CRDs", ", ".join(sorted(lacking)))
            self._lacking |= lacking
            await self._publish(fitting.without(status, self._lacking, "status"))

    async def _publish(self, status: Object) -> None:
        body = {"apiVersion": API, "kind": "HawkNode", "metadata": {"name": self._node}, "status": status}
        await self._call(
            "apply hawknode status", lambda: self._client.apply(_HawkNodeStatus.from_dict(body), force=True)
        )

    async def get(self) -> Object:
        """The HawkNode."""
        return dict(await self._call("get hawknode", lambda: self._client.get(_HawkNode, self._node)))

    async def watch(self, version: str) -> AsyncIterator[tuple[str, Object]]:
        """Changes of the HawkNode from a version on, until the server or the time ends it."""
        try:
            async with asyncio.timeout(WATCH_SECONDS + CALL_SECONDS):
                async for kind, body in self._client.watch(
                    _HawkNode,
                    fields={"metadata.name": self._node},
                    resource_version=version,
                    server_timeout=WATCH_SECONDS,
                ):
                    yield kind, dict(body)
        except TimeoutError:
            return
        except (ApiError, httpx2.HTTPError) as error:
            raise _problem("watch hawknode", error) from error

    async def beat(self, epoch: str, now: str, seconds: int) -> None:
        """Renew the Lease; without an epoch, give it up."""
        spec: Object = {"leaseDurationSeconds": seconds, "renewTime": now}
        if epoch:
            spec["holderIdentity"] = epoch
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._node, "namespace": self._namespace},
            "spec": spec,
        }
        await self._call("apply lease", lambda: self._client.apply(_Lease.from_dict(body), force=True))

    async def _call(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await call()
        except (ApiError, httpx2.HTTPError, TimeoutError) as error:
            problem = _problem(what, error)
            if problem.status == 401:
                await self.close()
                self._client = _client()
            raise problem from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _problem(what: str, error: Exception) -> ApiCallError:
    if isinstance(error, ApiError):
        return ApiCallError(what, str(error.status.message or error), error.status.code or 0)
    return ApiCallError(what, f"{type(error).__name__} {error}".strip())
