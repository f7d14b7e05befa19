"""Approve and sign the agents' certificate requests, and keep the authority that signs them.

Level-triggered: each round reads what is there and does what is due. A round that fails half way is done
again; doing it twice changes nothing, because every write carries the resourceVersion it was decided on.

Requests are listed and not watched: the list is filtered by signer in the API server, short, and a wait of
two seconds is nothing to an agent that starts. A watch that died in silence would be worse.

The rights that this takes; the chart's roles are a copy of the table.

| group               | resource                                | verbs        | where   |
|---------------------|-----------------------------------------|--------------|---------|
| ""                  | secrets (resourceName of the CA)        | get update   | system  |
| ""                  | configmaps (resourceName of the bundle) | get update   | system  |
| certificates.k8s.io | certificatesigningrequests              | list         | cluster |
| certificates.k8s.io | certificatesigningrequests/approval     | update       | cluster |
| certificates.k8s.io | certificatesigningrequests/status       | update       | cluster |
| certificates.k8s.io | signers (resourceName of the signer)    | approve sign | cluster |

Secret and ConfigMap are made by the chart, empty: so no right to create either is needed.
"""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from hawk_api.backoff import Backoff
from hawk_api.certificates import SIGNER
from hawk_kube.errors import ApiError, ConflictError
from hawk_kube.kinds import CERTIFICATE_REQUEST, CONFIG_MAP, SECRET
from hawk_operator.trust.authority import (
    Authority,
    AuthorityError,
    Lifetimes,
    advance_rotation,
    dump_authority,
    issue_certificate,
    load_authority,
    utc,
)
from hawk_operator.trust.policy import Approved, Denied, Expected, SigningRequest, approve_request

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from hawk_kube.client import Client
    from hawk_operator.trust.metrics import TrustMetrics

BUNDLE_KEY: Final = "ca.crt"
"""The ConfigMap's key with every trusted certificate."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SignerSettings:
    """Where the authority lives and whom it serves; durations are seconds."""

    system_namespace: str
    agent_namespace: str
    agent_service_account: str = "hawk-agent"
    secret: str = "hawk-agent-ca"  # noqa: S105 - its name
    config_map: str = "hawk-agent-trust"
    signer: str = SIGNER
    poll: float = 2.0
    """Time between two lists of the requests."""

    authority_poll: float = 60.0
    """Time between two checks of the authority and of what is published of it."""

    lifetimes: Lifetimes = field(default_factory=Lifetimes)

    @property
    def expected(self) -> Expected:
        """Who may ask."""
        account = f"system:serviceaccount:{self.agent_namespace}:{self.agent_service_account}"
        return Expected(account, self.signer)


class Signer:
    """One round at a time; `run` repeats it."""

    def __init__(
        self, api: Client, settings: SignerSettings, clock: Callable[[], float], metrics: TrustMetrics
    ) -> None:
        self._api = api
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._authority: Authority | None = None
        self._looked = float("-inf")

    def run_signer(self, stop: threading.Event) -> None:
        """Repeat `round` until `stop` is set. Never raises: a failed round is logged and repeated."""
        rests = Backoff(2 * self._settings.poll, 20 * self._settings.poll, jitter=0)
        failures = 0
        while not stop.is_set():
            rest = self._settings.poll
            try:
                self.round()
                failures = 0
            except (ApiError, AuthorityError) as error:
                self._metrics.errors.inc()
                self._looked = float("-inf")
                _log.warning("trust: %s", error)
                failures += 1
                rest = rests.rest(failures)
            except Exception:  # noqa: BLE001 - a loop that ended in silence would leave agents without certificates
                self._metrics.errors.inc()
                self._looked = float("-inf")
                _log.exception("trust: unexpected error")
                failures += 1
                rest = rests.rest(failures)
            stop.wait(rest)

    def round(self) -> None:
        """Renew and publish the authority when it is due, then answer every open request."""
        now = self._clock()
        if self._authority is None or now - self._looked >= self._settings.authority_poll:
            self._authority = self._tend(utc(now))
            self._looked = now
        for item in self._requests():
            if open_for_us(item):
                self._answer(item, self._authority, utc(now))

    def _tend(self, now: datetime) -> Authority:
        """The stored authority, advanced and published."""
        where = self._settings.system_namespace
        secret = self._api.get(SECRET, self._settings.secret, where)
        data = {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
        stored = load_authority(data)
        authority = advance_rotation(stored, now, self._settings.lifetimes)
        if authority is not stored:
            # Stored before it is published or used: what others trust must not be lost with this process.
            secret["data"] = {
                key: base64.b64encode(value).decode() for key, value in dump_authority(authority).items()
            }
            self._api.replace(SECRET, secret)
            _log.info("trust: the authority has changed; it signs until %s", authority.signing.expires)
        config = self._api.get(CONFIG_MAP, self._settings.config_map, where)
        bundle = authority.bundle.decode()
        if (config.get("data") or {}).get(BUNDLE_KEY) != bundle:
            config["data"] = {BUNDLE_KEY: bundle}
            self._api.replace(CONFIG_MAP, config)
        self._metrics.authority_expiry.set(authority.signing.expires.timestamp())
        return authority

    def _requests(self) -> list[dict[str, Any]]:
        return self._api.list(CERTIFICATE_REQUEST, fields={"spec.signerName": self._settings.signer})

    def _answer(self, item: dict[str, Any], authority: Authority, now: datetime) -> None:
        """Approve or deny, and sign. A request that somebody else has just changed waits for a round."""
        request = SigningRequest.of(item)
        verdict = approve_request(request, self._settings.expected)
        try:
            if isinstance(verdict, Denied):
                self._refuse(item, verdict, now)
                return
            if not has_condition(item, "Approved"):
                message = f"asked by the agent's pod {verdict.pod_uid} on node {verdict.node}"
                item = self._put(item, "approval", signing_condition("Approved", "OwnName", message, now))
            self._sign(item, request, verdict, authority, now)
        except ConflictError as conflict:
            _log.info("trust: %s; reading it again", conflict)

    def _sign(
        self,
        item: dict[str, Any],
        request: SigningRequest,
        approved: Approved,
        authority: Authority,
        now: datetime,
    ) -> None:
        asked = timedelta(seconds=request.expiration_seconds) if request.expiration_seconds else None
        certificate = issue_certificate(authority, approved, now, self._settings.lifetimes, asked)
        item = dict(item)
        item["status"] = {
            **(item.get("status") or {}),
            "certificate": base64.b64encode(certificate).decode(),
        }
        self._api.replace(CERTIFICATE_REQUEST, item, "status")
        self._metrics.requests.labels("Signed").inc()
        _log.info("trust: signed %s for node %s", request.name, approved.node)

    def _refuse(self, item: dict[str, Any], denied: Denied, now: datetime) -> None:
        """Deny; where somebody else has approved what the policy does not allow, fail instead of signing."""
        if has_condition(item, "Approved"):
            self._put(item, "status", signing_condition("Failed", denied.reason, denied.message, now))
        else:
            self._put(item, "approval", signing_condition("Denied", denied.reason, denied.message, now))
        self._metrics.requests.labels(denied.reason).inc()
        _log.warning("trust: refused %s: %s", item["metadata"]["name"], denied.message)

    def _put(self, item: dict[str, Any], subresource: str, added: dict[str, Any]) -> dict[str, Any]:
        status = dict(item.get("status") or {})
        status["conditions"] = [*(status.get("conditions") or []), added]
        return self._api.replace(CERTIFICATE_REQUEST, {**item, "status": status}, subresource)


def open_for_us(item: dict[str, Any]) -> bool:
    """True if a request still waits for an answer: not signed, denied or failed."""
    signed = bool((item.get("status") or {}).get("certificate"))
    return not signed and not has_condition(item, "Denied") and not has_condition(item, "Failed")


def has_condition(item: dict[str, Any], kind: str) -> bool:
    """True if a request has the condition; for requests all of them are True where they are present."""
    return any(found.get("type") == kind for found in (item.get("status") or {}).get("conditions") or [])


def signing_condition(kind: str, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """A condition of a request."""
    time = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastUpdateTime": time,
        "lastTransitionTime": time,
    }


def run(
    api: Client,
    settings: SignerSettings,
    clock: Callable[[], float],
    metrics: TrustMetrics,
    stop: threading.Event,
) -> None:
    """Answer requests until `stop` is set; only the leader runs it. `clock` gives Unix seconds."""
    Signer(api, settings, clock, metrics).run_signer(stop)
