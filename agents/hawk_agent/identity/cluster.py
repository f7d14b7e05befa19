"""The API calls of the identity; the chart's role of the agent is a copy of this table.

| group                 | resource                                | verbs      | where   |
|-----------------------|-----------------------------------------|------------|---------|
| certificates.k8s.io   | certificatesigningrequests              | create get | cluster |
| ""                    | configmaps (resourceName of the bundle) | get        | system  |

SelfSubjectReviews are open to every account.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hawk_api.certificates import NODE_NAME_EXTRA, POD_UID_EXTRA, SIGNER, USAGES
from hawk_kube.kinds import CERTIFICATE_REQUEST, CONFIG_MAP, SUBJECT_REVIEW

if TYPE_CHECKING:
    from hawk_kube.threads import AsyncClient

BUNDLE_KEY: Final = "ca.crt"


@dataclass(frozen=True)
class SigningReply:
    """The state of a request: neither yet, a certificate (PEM), or a refusal with its message."""

    certificate: bytes = b""
    refusal: str = ""


@dataclass(frozen=True)
class Bound:
    """The pod and node that the agent's token is bound to; "" where it is bound to none."""

    node: str
    pod_uid: str


class Cluster:
    """The API server as the identity sees it; each call raises `hawk_kube.errors.ApiError`."""

    def __init__(
        self, kube: AsyncClient, system_namespace: str, config_map: str = "hawk-agent-trust"
    ) -> None:
        self._kube = kube
        self._system_namespace = system_namespace
        self._config_map = config_map

    async def whoami(self) -> Bound:
        """Read our token as the API server does."""
        review = await self._kube.call(self._kube.client.review, SUBJECT_REVIEW, {})
        extra = review.get("userInfo", {}).get("extra") or {}
        return Bound(_one(extra, NODE_NAME_EXTRA), _one(extra, POD_UID_EXTRA))

    async def submit(self, request: bytes) -> str:
        """Hand in a request (PEM); its name."""
        body = {
            "metadata": {"generateName": "hawk-agent-"},
            "spec": {
                "signerName": SIGNER,
                "request": base64.b64encode(request).decode(),
                "usages": list(USAGES),
            },
        }
        made = await self._kube.call(self._kube.client.create, CERTIFICATE_REQUEST, body)
        return str(made["metadata"]["name"])

    async def answer(self, name: str) -> SigningReply:
        """The present state of the request of that name."""
        item = await self._kube.call(self._kube.client.get, CERTIFICATE_REQUEST, name)
        status = item.get("status") or {}
        for condition in status.get("conditions") or []:
            if condition.get("type") in {"Denied", "Failed"}:
                return SigningReply(refusal=f"{condition.get('reason', '')}: {condition.get('message', '')}")
        return SigningReply(certificate=base64.b64decode(status.get("certificate") or ""))

    async def authorities(self) -> bytes:
        """Every trusted authority as PEM; b"" while the operator has not published any."""
        item = await self._kube.call(
            self._kube.client.get, CONFIG_MAP, self._config_map, self._system_namespace
        )
        return str((item.get("data") or {}).get(BUNDLE_KEY, "")).encode()


def _one(extra: dict[str, list[str]], key: str) -> str:
    values = extra.get(key) or []
    return values[0] if len(values) == 1 else ""
