"""Get a certificate, and keep a valid one."""

from __future__ import annotations

import asyncio
import itertools
import logging
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hawk_agent.identity.cluster import Bound, SigningReply
from hawk_agent.identity.errors import IdentityError
from hawk_agent.identity.material import (
    Files,
    Material,
    read_material,
    renew_at,
    write_authority,
    write_material,
)
from hawk_api.backoff import Backoff
from hawk_api.certificates import COMMON_NAME, server_name, uri
from hawk_kube.errors import ApiError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_SECONDS: Final = 60.0
"""Time between two looks at what is trusted and at the certificate's age. A new authority is published for an
hour before it signs, so this is soon enough."""

_RESTS: Final = Backoff(0.25, 5.0)
_PATIENCE: Final = 60.0

_log = logging.getLogger(__name__)


class Api(Protocol):
    """The part of `hawk_agent.identity.Cluster` that is used here."""

    async def whoami(self) -> Bound:
        """The pod and node that our token is bound to."""

    async def submit(self, request: bytes) -> str:
        """Hand in a request; its name."""

    async def answer(self, name: str) -> SigningReply:
        """The request's state."""

    async def authorities(self) -> bytes:
        """The trusted certificates (PEM)."""


async def ensure_identity(
    api: Api, node: str, files: Files, clock: Callable[[], float], patience: float = _PATIENCE
) -> None:
    """Make the files hold a certificate for this pod on `node`: a valid one that is there, or a new one.

    IdentityError when the request is refused, when the token isn't bound to a pod on `node`, or when there is
    no certificate after `patience` seconds; it says what was waited for. ApiError when the API server refuses
    a call. `clock` gives Unix seconds.
    """
    waiting_for = ["the API server"]
    try:
        async with asyncio.timeout(patience):
            bound = await _bound(api, node)
            if _usable(files, bound, clock()):
                return
            await _enrol(api, bound, files, clock, waiting_for)
    except TimeoutError:
        raise IdentityError(
            f"no certificate for node {node!r} after {patience:g} s, waiting for {waiting_for[0]}; "
            "is an operator leading, with trust mode Kubernetes?"
        ) from None


async def keep_identity(
    api: Api,
    node: str,
    files: Files,
    clock: Callable[[], float],
    look: float = LOOK_SECONDS,
) -> None:
    """Follow what is trusted and renew in time, for ever. A failure is logged and tried again later."""
    while True:
        await asyncio.sleep(look)
        try:
            async with asyncio.timeout(_PATIENCE):
                await _look(api, node, files, clock)
        except (IdentityError, ApiError, TimeoutError, OSError) as error:
            _log.warning("identity: not renewed yet: %s: %s", type(error).__name__, error)


async def _look(api: Api, node: str, files: Files, clock: Callable[[], float]) -> None:
    authorities = await api.authorities()
    if authorities and authorities != files.authority.read_bytes():
        write_authority(files, authorities)
        _log.info("identity: the trusted authorities have changed")
    bound = await _bound(api, node)
    if not _usable(files, bound, clock()):
        await _enrol(api, bound, files, clock, [""])


async def _bound(api: Api, node: str) -> Bound:
    """Our token's node and pod, once the API server answers."""
    for failures in itertools.count(1):
        try:
            bound = await api.whoami()
            break
        except UnavailableError as error:
            _log.info("identity: %s", error)
            await asyncio.sleep(_RESTS.rest(failures))
    if not bound.node or not bound.pod_uid:
        raise IdentityError(
            "token: not bound to a pod; use the projected token of the agent's pod, or a TokenRequest for it"
        )
    if bound.node != node:
        raise IdentityError(
            f"--node: {node!r}, but the token is bound to a pod on {bound.node!r}; they must be the same"
        )
    return bound


def _usable(files: Files, bound: Bound, now: float) -> bool:
    """True if the files hold what peers accept, and it isn't time to renew."""
    if not files.certificate.exists():
        return False
    try:
        material = read_material(files, looks=1)
    except IdentityError:
        return False
    time = datetime.fromtimestamp(now, tz=UTC)
    spread = zlib.crc32(bound.node.encode()) / 2**32
    return not material.objection(bound.node, bound.pod_uid, time) and time < renew_at(material.leaf, spread)


async def _enrol(
    api: Api, bound: Bound, files: Files, clock: Callable[[], float], waiting_for: list[str]
) -> None:
    """A new key and its certificate. `waiting_for[0]` says what is missing, for whoever gives up waiting."""
    key, request = make_request(bound)
    name = await api.submit(request)
    waiting_for[0] = f"an answer to certificate request {name}"
    certificate = await _answered(api, name)
    waiting_for[0] = "the trusted authorities"
    authorities = await _published(api)
    material = Material(certificate, key, authorities)
    if objection := material.objection(bound.node, bound.pod_uid, datetime.fromtimestamp(clock(), tz=UTC)):
        raise IdentityError(f"certificate request {name}: the certificate is not usable: {objection}")
    write_material(files, material)
    _log.info("identity: certificate for node %s until %s", bound.node, material.leaf.not_valid_after_utc)


async def _answered(api: Api, name: str) -> bytes:
    looks = 0
    while True:
        try:
            answer = await api.answer(name)
        except UnavailableError as error:
            _log.info("identity: %s", error)
            answer = SigningReply()
        if answer.refusal:
            raise IdentityError(f"certificate request {name} was refused: {answer.refusal}")
        if answer.certificate:
            return answer.certificate
        looks += 1
        await asyncio.sleep(_RESTS.rest(looks))


async def _published(api: Api) -> bytes:
    while True:
        if authorities := await api.authorities():
            return authorities
        await asyncio.sleep(_RESTS.first)


def make_request(bound: Bound) -> tuple[bytes, bytes]:
    """A new key and a request for it, both PEM. The key is made here and goes nowhere else."""
    key = ec.generate_private_key(ec.SECP256R1())
    alternative = x509.SubjectAlternativeName(
        [
            x509.DNSName(server_name(bound.node)),
            x509.UniformResourceIdentifier(uri(bound.node, bound.pod_uid)),
        ]
    )
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, COMMON_NAME)]))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, request.public_bytes(pem)
