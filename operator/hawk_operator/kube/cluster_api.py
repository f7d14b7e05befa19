"""The one door to the Kubernetes API: plain dictionaries in and out, each call with a time-out.

Errors are four: `NotFoundError`, `ConflictError`, `RefusedError` (the server understood and said no: it will
say no again) and `UnreachableError` (worth another try; it knows its delay where the server asked for one).
Resources and verbs are listed in `hawk_operator.kube.resources`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx2
from lightkube import Client, KubeConfig
from lightkube.config.client_adapter import Client as RawClient
from lightkube.config.client_adapter import ConnectionParams, verify_cluster
from lightkube.types import CascadeType, PatchType

from hawk_operator.kube.resources import FIELD_MANAGER, LEASE, Kind, lightkube_class
from hawk_operator.kube.throttle import Gate, GatedTransport, ThrottledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CALL_SECONDS: Final = 5.0
"""A call that takes longer has failed. Below the time between lost leadership and a standby's takeover."""

_PAGE: Final = 500

Object = dict[str, Any]
Objects = list[Object]
T = TypeVar("T")


class ApiCallError(Exception):
    """A call that did not succeed."""

    def __init__(self, message: str, status: int = 0, reason: str = "", fields: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.fields = fields


class NotFoundError(ApiCallError):
    """There is no such object, or no such kind."""


class ConflictError(ApiCallError):
    """Another writer was there first."""


class RefusedError(ApiCallError):
    """Invalid, forbidden or unsupported; `fields` names what the server objects to."""


class UnreachableError(ApiCallError):
    """No answer, or one that says try again; `delay` is in seconds where the server gave one."""

    def __init__(self, message: str, delay: float = 0.0, status: int = 0) -> None:
        super().__init__(message, status)
        self.delay = delay


class ClusterApi:
    """Calls to the API server, safe for several threads."""

    def __init__(self, client: Any, raw: httpx2.Client, may_write: Callable[[], bool]) -> None:
        self._client = client
        self._raw = raw
        self._may_write = may_write

    @classmethod
    def connect(
        cls,
        gate: Gate,
        throttled: Callable[[], None] = lambda: None,
        may_write: Callable[[], bool] = lambda: True,
    ) -> ClusterApi:
        """By the usual rules: in-cluster, else $KUBECONFIG, else ~/.kube/config.

        `may_write` is asked before each write, so that a leader that lost its Lease stops at once.
        """
        config = KubeConfig.from_env().get()
        assert config is not None
        timeout = httpx2.Timeout(CALL_SECONDS)
        user = config.user
        if user is None:
            raise ApiCallError(
                "kubeconfig: the current context has no user; set one with kubectl config set-context"
            )

        def transport() -> GatedTransport:
            verify = verify_cluster(config.cluster, user, config.abs_file)
            return GatedTransport(httpx2.HTTPTransport(verify=verify), gate, throttled)

        return cls(
            Client(config=config, timeout=timeout, field_manager=FIELD_MANAGER, transport=transport()),
            RawClient(config, ConnectionParams(timeout=timeout, transport=transport())),
            may_write,
        )

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context."""
        return str(self._client.namespace or "default")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._raw.close()

    # Reading

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        """One object, or NotFoundError."""
        return self._call(f"get {kind.plural}/{name}", lambda: self._get(kind, name, namespace))

    def _get(self, kind: Kind, name: str, namespace: str | None) -> Object:
        if kind.namespaced:
            return dict(self._client.get(lightkube_class(kind), name, namespace=namespace))
        return dict(self._client.get(lightkube_class(kind), name))

    def list(
        self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Objects:
        """Every object of a kind, in all namespaces when `namespace` is None; read in pages."""
        return [item for _, items in self.pages(kind, namespace, labels) for item in items]

    def select(self, kind: Kind, namespace: str, selector: str) -> Objects:
        """The objects that a label selector in its text form chooses, such as the one /scale gives."""
        return [item for _, items in self._pages(kind, namespace, selector) for item in items]

    def pages(
        self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Iterator[tuple[str, Objects]]:
        """The pages of a list: (resourceVersion of the whole list, objects). Nothing else holds the pages, so
        a reader that keeps a part of each object needs the memory of one page only."""
        return self._pages(kind, namespace, ",".join(f"{k}={v}" for k, v in (labels or {}).items()))

    def _pages(self, kind: Kind, namespace: str | None, selector: str) -> Iterator[tuple[str, Objects]]:
        where = f"/namespaces/{namespace}" if kind.namespaced and namespace else ""
        following = ""
        while True:
            page = self.document(
                f"/{_prefix(kind)}{where}/{kind.plural}",
                {"labelSelector": selector, "limit": str(_PAGE), "continue": following},
            )
            metadata = page.get("metadata") or {}
            yield str(metadata.get("resourceVersion") or ""), page.get("items") or []
            following = metadata.get("continue") or ""
            if not following:
                return

    def document(self, path: str, parameters: Mapping[str, str] | None = None) -> Object:
        """A JSON document by its path: discovery, OpenAPI, /scale."""

        def read() -> Object:
            response = self._raw.get(path, params={k: v for k, v in (parameters or {}).items() if v})
            response.raise_for_status()
            document = json.loads(response.content)
            return dict(document)

        return self._call(f"get {path}", read)

    def scale_of(self, kind: Kind, namespace: str, name: str) -> tuple[int, str]:
        """(replicas asked for, label selector of the pods) through /scale."""
        path = f"/{_prefix(kind)}/namespaces/{namespace}/{kind.plural}/{name}/scale"
        scale = self.document(path)
        replicas = scale.get("spec", {}).get("replicas", 0)
        return int(replicas), str(scale.get("status", {}).get("selector", ""))

    # Writing

    def apply(self, kind: Kind, body: Object, *, dry_run: bool = False, subresource: str = "") -> Object:
        """Server-side apply by our field manager; takes over fields that others set."""
        metadata = body["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace")
        resource = lightkube_class(kind)
        target = resource.Status if subresource == "status" else resource
        return self._write(
            f"apply {kind.plural}/{name}",
            lambda: dict(
                self._client.patch(
                    target,
                    name,
                    {"apiVersion": kind.api_version, "kind": kind.kind, **body},
                    patch_type=PatchType.APPLY,
                    force=True,
                    dry_run=dry_run,
                    **_where(kind, namespace),
                )
            ),
        )

    def patch(self, kind: Kind, name: str, namespace: str | None, body: Object) -> Object:
        """JSON merge patch: for single fields of objects that are not wholly ours."""
        return self._write(
            f"patch {kind.plural}/{name}",
            lambda: dict(
                self._client.patch(
                    lightkube_class(kind), name, body, patch_type=PatchType.MERGE, **_where(kind, namespace)
                )
            ),
        )

    def create(self, kind: Kind, body: Object, *, guarded: bool = True) -> Object:
        """Create, or ConflictError where the name is taken. Unguarded: the Lease, and reviews."""
        resource = lightkube_class(kind)
        made = resource({"apiVersion": kind.api_version, "kind": kind.kind, **body})
        call = self._write if guarded else self._call
        namespace = body.get("metadata", {}).get("namespace")
        return call(
            f"create {kind.plural}", lambda: dict(self._client.create(made, **_where(kind, namespace)))
        )

    def replace(self, kind: Kind, body: Object, subresource: str = "") -> Object:
        """Put a whole object or a subresource; ConflictError when its resourceVersion is no longer current.

        The Lease is not subject to `may_write`: renewing it is how the right to write is kept.
        """
        metadata = body["metadata"]
        where = f"namespaces/{metadata['namespace']}/" if kind.namespaced else ""
        path = f"/{_prefix(kind)}/{where}{kind.plural}/{metadata['name']}"

        def send() -> Object:
            response = self._raw.put(
                f"{path}/{subresource}" if subresource else path,
                content=json.dumps({"apiVersion": kind.api_version, "kind": kind.kind, **body}),
                headers={"Content-Type": "application/json"},
                params={"fieldManager": FIELD_MANAGER},
            )
            response.raise_for_status()
            return dict(json.loads(response.content))

        return (self._call if kind == LEASE else self._write)(f"replace {kind.plural}", send)

    def delete(self, kind: Kind, name: str, namespace: str) -> None:
        """Delete with its dependents in the background; an absent object is fine."""
        try:
            self._write(
                f"delete {kind.plural}/{name}",
                lambda: self._client.delete(
                    lightkube_class(kind), name, namespace=namespace, cascade=CascadeType.BACKGROUND
                ),
            )
        except NotFoundError:
            return

    def scale(self, kind: Kind, namespace: str, name: str, replicas: int) -> None:
        """Set a target's replicas through /scale."""
        path = f"/{_prefix(kind)}/namespaces/{namespace}/{kind.plural}/{name}/scale"

        def send() -> None:
            response = self._raw.patch(
                path,
                content=json.dumps({"spec": {"replicas": replicas}}),
                headers={"Content-Type": PatchType.MERGE.value},
                params={"fieldManager": FIELD_MANAGER},
            )
            response.raise_for_status()

        self._write(f"scale {kind.plural}/{name}", send)

    # Errors

    def _write(self, what: str, call: Callable[[], T]) -> T:
        if not self._may_write():
            raise UnreachableError(
                f"{what}: not sent, because this process does not hold the Lease now", delay=2.0
            )
        return self._call(what, call)

    def _call(self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except ThrottledError as error:
            raise UnreachableError(f"{what}: {error}", delay=error.remaining, status=429) from error
        except httpx2.HTTPStatusError as error:
            raise _failure(what, error) from error
        except httpx2.HTTPError as error:
            raise UnreachableError(f"{what}: {type(error).__name__}: {error}") from error


def _where(kind: Kind, namespace: str | None) -> dict[str, str]:
    return {"namespace": namespace} if kind.namespaced and namespace else {}


def _prefix(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def _failure(what: str, error: httpx2.HTTPStatusError) -> ApiCallError:
    """Sort a response into the four errors, with the server's own words where it gave some."""
    code = error.response.status_code
    try:
        status = json.loads(error.response.content)
    except ValueError:
        status = {}
    details = status.get("details") or {}
    fields = tuple(cause["field"] for cause in details.get("causes") or () if cause.get("field"))
    reason = str(status.get("reason") or "")
    text = f"{what}: {status.get('message') or error}"
    if code == 404:
        return NotFoundError(text, code, reason)
    if code == 409:
        return ConflictError(text, code, reason)
    if code >= 500 or code in {401, 408, 410, 429}:  # 410: the list took so long that its pages are gone
        return UnreachableError(text, status=code)
    return RefusedError(text, code, reason, fields)
