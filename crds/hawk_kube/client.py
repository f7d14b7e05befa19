"""The calls: plain dictionaries in and out, each with a time-out, safe for several threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hawk_kube import config
from hawk_kube.connection import ApiConnection
from hawk_kube.errors import NotFoundError, UnavailableError
from hawk_kube.gate import Gate
from hawk_kube.request import APPLY, CALL_SECONDS, MERGE, ApiRequest
from hawk_kube.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hawk_kube.kinds import ResourceKind

_PAGE: Final = 500

Object = dict[str, Any]
Objects = list[Object]


def connect_client(
    manager: str,
    gate: Gate | None = None,
    may_write: Callable[[], bool] = lambda: True,
    endpoint: config.Endpoint | None = None,
) -> Client:
    """A client that writes as field manager `manager`. Nothing is sent yet.

    Without an `endpoint` the rules of `hawk_kube.config` find one. Clients of one process share a `gate`.
    `may_write` is asked before each write, so that a leader that lost its Lease stops at once. Raises
    ConfigError.
    """
    return Client(
        ApiConnection(endpoint or config.load_config(), gate or Gate(), manager), manager, may_write
    )


class Client:
    """Calls to the API server. Each raises ApiError, one of its four kinds."""

    def __init__(self, connection: ApiConnection, manager: str, may_write: Callable[[], bool]) -> None:
        self._connection = connection
        self._manager = {"fieldManager": manager}
        self._may_write = may_write

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context, or of the pod."""
        return self._connection.endpoint.namespace

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    # Reading

    def get(self, kind: ResourceKind, name: str, namespace: str | None = None) -> Object:
        """One object, or NotFoundError."""
        return self._send(ApiRequest(f"get {kind.plural}/{name}", "GET", kind.path(namespace, name)))

    def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        labels: Mapping[str, str] | str = "",
        fields: Mapping[str, str] | str = "",
    ) -> Objects:
        """Every object of a kind, in all namespaces when `namespace` is None; read in pages."""
        return [item for _, items in self.pages(kind, namespace, labels, fields) for item in items]

    def pages(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        labels: Mapping[str, str] | str = "",
        fields: Mapping[str, str] | str = "",
    ) -> Iterator[tuple[str, Objects]]:
        """The pages of a list: (resourceVersion of the whole list, objects). Nothing else holds the pages, so
        a reader that keeps a part of each object needs the memory of one page only.

        Selectors are pairs that must be equal, or text such as the one that /scale gives.
        """
        query = {"labelSelector": _selector(labels), "fieldSelector": _selector(fields), "limit": str(_PAGE)}
        while True:
            page = self._send(ApiRequest(f"list {kind.plural}", "GET", kind.path(namespace), query))
            metadata = page.get("metadata") or {}
            yield str(metadata.get("resourceVersion") or ""), page.get("items") or []
            query["continue"] = metadata.get("continue") or ""
            if not query["continue"]:
                return

    def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        *,
        version: str,
        seconds: int,
        labels: Mapping[str, str] | str = "",
        fields: Mapping[str, str] | str = "",
    ) -> Watch:
        """Changes after a resourceVersion, which the server ends after `seconds`; see `Watch`."""
        query = {
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
            "labelSelector": _selector(labels),
            "fieldSelector": _selector(fields),
        }
        limit = seconds + CALL_SECONDS
        request = ApiRequest(f"watch {kind.plural}", "GET", kind.path(namespace), query, seconds=limit)
        return Watch(request.call, self._connection.open(request), limit)

    def document(self, path: str) -> Object:
        """A JSON document by its path: discovery, OpenAPI."""
        return self._send(ApiRequest(f"get {path}", "GET", path))

    def review(self, kind: ResourceKind, spec: Object) -> Object:
        """Ask a question that the API poses as an object to create, such as a TokenReview; its status."""
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}, "spec": spec}
        answer = self._send(ApiRequest(f"create {kind.plural}", "POST", kind.path(), body=body))
        return answer.get("status") or {}

    def scale_of(self, kind: ResourceKind, namespace: str, name: str) -> tuple[int, str]:
        """(replicas asked for, label selector of the pods) through /scale."""
        path = kind.path(namespace, name, "scale")
        scale = self._send(ApiRequest(f"get {kind.plural}/{name}/scale", "GET", path))
        replicas = scale.get("spec", {}).get("replicas", 0)
        return int(replicas), str(scale.get("status", {}).get("selector", ""))

    # Writing

    def apply(
        self, kind: ResourceKind, body: Object, *, dry_run: bool = False, subresource: str = ""
    ) -> Object:
        """Server-side apply by our field manager; takes over fields that others set."""
        metadata = body["metadata"]
        name = metadata["name"]
        path = kind.path(metadata.get("namespace"), name, subresource)
        query = {**self._manager, "force": "true", "dryRun": "All" if dry_run else ""}
        request = ApiRequest(f"apply {kind.plural}/{name}", "PATCH", path, query, _typed(kind, body), APPLY)
        return self._write(request)

    def patch(self, kind: ResourceKind, name: str, namespace: str | None, body: Object) -> Object:
        """JSON merge patch: for single fields of objects that are not wholly ours."""
        path = kind.path(namespace, name)
        return self._write(
            ApiRequest(f"patch {kind.plural}/{name}", "PATCH", path, self._manager, body, MERGE)
        )

    def create(self, kind: ResourceKind, body: Object) -> Object:
        """Create, or ConflictError where the name is taken."""
        path = kind.path(body.get("metadata", {}).get("namespace"))
        return self._write(
            ApiRequest(f"create {kind.plural}", "POST", path, self._manager, _typed(kind, body))
        )

    def replace(self, kind: ResourceKind, body: Object, subresource: str = "") -> Object:
        """Put a whole object or a subresource; ConflictError when its resourceVersion is not current."""
        name = body["metadata"]["name"]
        path = kind.path(body["metadata"].get("namespace"), name, subresource)
        call = f"replace {kind.plural}/{name}"
        return self._write(ApiRequest(call, "PUT", path, self._manager, _typed(kind, body)))

    def delete(self, kind: ResourceKind, name: str, namespace: str | None = None) -> None:
        """Delete with its dependents in the background; an absent object is fine."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        path = kind.path(namespace, name)
        try:
            self._write(ApiRequest(f"delete {kind.plural}/{name}", "DELETE", path, body=options))
        except NotFoundError:
            return

    def scale(self, kind: ResourceKind, namespace: str, name: str, replicas: int) -> None:
        """Set a target's replicas through /scale."""
        path = kind.path(namespace, name, "scale")
        body = {"spec": {"replicas": replicas}}
        self._write(ApiRequest(f"scale {kind.plural}/{name}", "PATCH", path, self._manager, body, MERGE))

    # Sending

    def _write(self, request: ApiRequest) -> Object:
        if not self._may_write():
            text = f"{request.call}: not sent, because this process may not write now"
            raise UnavailableError(text, delay=2.0)
        return self._send(request)

    def _send(self, request: ApiRequest) -> Object:
        found = self._connection.send(request)
        if not isinstance(found, dict):
            raise UnavailableError(f"{request.call}: the answer is no object")
        return found


def _typed(kind: ResourceKind, body: Object) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}


def _selector(pairs: Mapping[str, str] | str) -> str:
    return pairs if isinstance(pairs, str) else ",".join(f"{key}={value}" for key, value in pairs.items())
