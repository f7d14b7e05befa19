"""The API calls of the identity; the chart's role of the agent is a copy of this table.

| group                 | resource                                | verbs      | where   |
|-----------------------|-----------------------------------------|------------|---------|
| certificates.k8s.io   | certificatesigningrequests              | create get | cluster |
| ""                    | configmaps (resourceName of the bundle) | get        | system  |

SelfSubjectReviews are open to every account.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpx2
from lightkube import ApiError
from lightkube.generic_resource import (
    GenericGlobalResource,
    GenericNamespacedResource,
    create_api_info,
)

from hawk_agent.identity.errors import IdentityError
from hawk_api.certificates import NODE_NAME_EXTRA, POD_UID_EXTRA, SIGNER, USAGES

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from lightkube import AsyncClient

CALL_SECONDS: Final = 10.0
BUNDLE_KEY: Final = "ca.crt"


class _Review(GenericGlobalResource):
    _api_info = create_api_info(
        "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", verbs=["post"]
    )


class _Request(GenericGlobalResource):
    _api_info = create_api_info(
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        verbs=["get", "post"],
    )


class _ConfigMap(GenericNamespacedResource):
    _api_info = create_api_info("", "v1", "ConfigMap", "configmaps", verbs=["get"])


T = TypeVar("T")


class UnavailableError(IdentityError):
    """The API server didn't answer, or said to try again."""


@dataclass(frozen=True)
class Answer:
    """What became of a request: neither yet, a certificate (PEM), or a refusal with its message."""

    certificate: bytes = b""
    refusal: str = ""


@dataclass(frozen=True)
class Bound:
    """What the agent's token is bound to; "" where it isn't."""

    node: str
    pod_uid: str


class Cluster:
    """The API server as the identity sees it."""

    def __init__(
        self, client: AsyncClient, system_namespace: str, config_map: str = "hawk-agent-trust"
    ) -> None:
        self._client = client
        self._system_namespace = system_namespace
        self._config_map = config_map

    async def whoami(self) -> Bound:
        """What the API server reads from our token."""
        review = await self._call(
            "review of the agent's token", self._client.create(_Review.from_dict(_body(_Review)))
        )
        extra = (review.get("status") or {}).get("userInfo", {}).get("extra") or {}
        return Bound(_one(extra, NODE_NAME_EXTRA), _one(extra, POD_UID_EXTRA))

    async def submit(self, request: bytes) -> str:
        """Hand in a request (PEM); its name."""
        body = _Request.from_dict(
            {
                **_body(_Request),
                "metadata": {"generateName": "hawk-agent-"},
                "spec": {
                    "signerName": SIGNER,
                    "request": base64.b64encode(request).decode(),
                    "usages": list(USAGES),
                },
            }
        )
        made = await self._call("certificate request", self._client.create(body))
        return str(made["metadata"]["name"])

    async def answer(self, name: str) -> Answer:
        """What became of the request of that name."""
        item = await self._call(f"certificate request {name}", self._client.get(_Request, name))
        status = item.get("status") or {}
        for condition in status.get("conditions") or []:
            if condition.get("type") in {"Denied", "Failed"}:
                return Answer(refusal=f"{condition.get('reason', '')}: {condition.get('message', '')}")
        return Answer(certificate=base64.b64decode(status.get("certificate") or ""))

    async def authorities(self) -> bytes:
        """Every trusted authority as PEM; b"" while the operator has not published any."""
        item = await self._call(
            f"ConfigMap {self._system_namespace}/{self._config_map}",
            self._client.get(_ConfigMap, self._config_map, namespace=self._system_namespace),
        )
        return str((item.get("data") or {}).get(BUNDLE_KEY, "")).encode()

    async def _call(self, what: str, call: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await call
        except ApiError as error:
            code = error.status.code or 0
            kind = UnavailableError if code >= 500 or code in {401, 429} else IdentityError
            raise kind(f"{what}: {error.status.message}") from error
        except (httpx2.HTTPError, TimeoutError) as error:
            raise UnavailableError(f"{what}: {type(error).__name__}: {error}") from error


def _body(resource: Any) -> dict[str, Any]:
    info = resource._api_info.resource
    return {"apiVersion": f"{info.group}/{info.version}", "kind": info.kind}


def _one(extra: dict[str, list[str]], key: str) -> str:
    values = extra.get(key) or []
    return values[0] if len(values) == 1 else ""
