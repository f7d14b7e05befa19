"""Approval of certificate requests: a chain of pure checks, each with a reason of its own.

The API server vouches for who asks: user name, node and pod come from the requester's token, which the
kubelet got for that pod alone. The request itself is the agent's own claim. A request is granted when the two
say the same, and asks for nothing more.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hawk_api.certificates import (
    COMMON_NAME,
    NODE_NAME_EXTRA,
    POD_UID_EXTRA,
    SIGNER,
    USAGES,
    server_name,
    uri,
)

_CURVES: Final = ("secp256r1", "secp384r1")
_OPTIONAL_USAGES: Final = ("key encipherment",)
_SHORTEST_SECONDS: Final = 600
_LONGEST_PEM: Final = 16_384


@dataclass(frozen=True)
class SigningRequest:
    """A CertificateSigningRequest as the API server recorded it."""

    name: str
    signer: str
    username: str
    extra: Mapping[str, tuple[str, ...]]
    usages: tuple[str, ...]
    pem: bytes
    expiration_seconds: int | None = None

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> SigningRequest:
        """From the API's object; a field that is absent or unreadable is empty, and its check denies it."""
        spec = item.get("spec", {})
        try:
            pem = base64.b64decode(spec.get("request", ""), validate=True)
        except ValueError:
            pem = b""
        return cls(
            name=item["metadata"]["name"],
            signer=spec.get("signerName", ""),
            username=spec.get("username", ""),
            extra={key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()},
            usages=tuple(spec.get("usages") or ()),
            pem=pem,
            expiration_seconds=spec.get("expirationSeconds"),
        )


@dataclass(frozen=True)
class Expected:
    """Who may ask."""

    username: str
    """`system:serviceaccount:NAMESPACE:NAME` of the agents."""

    signer: str = SIGNER


@dataclass(frozen=True)
class Approved:
    """The content of a certificate, taken from the requester's token, and the key it is for."""

    node: str
    pod_uid: str
    public_key: ec.EllipticCurvePublicKey


@dataclass(frozen=True)
class Denied:
    """Why not: a CamelCase reason, and a message that names the value and the remedy."""

    reason: str
    message: str


def approve_request(request: SigningRequest, expected: Expected) -> Approved | Denied:
    """The verdict of the whole chain: the first check that objects, or what is approved."""
    for check in CHAIN:
        if objection := check(request, expected):
            return objection
    parsed = _parse(request)
    key = parsed.public_key() if parsed else None
    if not isinstance(key, ec.EllipticCurvePublicKey):  # the chain has seen to it
        return Denied("KeyNotAllowed", "request: no elliptic-curve key")
    return Approved(_one(request, NODE_NAME_EXTRA), _one(request, POD_UID_EXTRA), key)


def _signer(request: SigningRequest, expected: Expected) -> Denied | None:
    if request.signer == expected.signer:
        return None
    return Denied("OtherSigner", f"signerName: {request.signer!r} is not {expected.signer!r}")


def _requester(request: SigningRequest, expected: Expected) -> Denied | None:
    if request.username == expected.username:
        return None
    return Denied(
        "NotAnAgent",
        f"requester: {request.username!r} is not {expected.username!r}; only agents may ask",
    )


def _bound(request: SigningRequest, _: Expected) -> Denied | None:
    missing = [key for key in (NODE_NAME_EXTRA, POD_UID_EXTRA) if not _one(request, key)]
    if not missing:
        return None
    return Denied(
        "TokenNotBound",
        f"requester: its token does not name {' and '.join(missing)}; use one bound to the agent's pod",
    )


def _usages(request: SigningRequest, _: Expected) -> Denied | None:
    asked = set(request.usages)
    if set(USAGES) <= asked <= {*USAGES, *_OPTIONAL_USAGES}:
        return None
    return Denied("UsagesNotAllowed", f"usages: {sorted(asked)}; ask for {list(USAGES)}")


def _lifetime(request: SigningRequest, _: Expected) -> Denied | None:
    if request.expiration_seconds is None or request.expiration_seconds >= _SHORTEST_SECONDS:
        return None
    return Denied(
        "LifetimeTooShort",
        f"expirationSeconds: {request.expiration_seconds} is below {_SHORTEST_SECONDS}; ask for more",
    )


def _readable(request: SigningRequest, _: Expected) -> Denied | None:
    parsed = _parse(request)
    if parsed is None:
        return Denied("RequestNotReadable", "request: not one PEM certificate request with readable names")
    if not parsed.is_signature_valid:
        return Denied(
            "SignatureNotValid", "request: its signature does not match its key, so the key is not proved"
        )
    return None


def _key(request: SigningRequest, _: Expected) -> Denied | None:
    key = _parsed(request).public_key()
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return None
    kind = f"EC {key.curve.name}" if isinstance(key, ec.EllipticCurvePublicKey) else type(key).__name__
    return Denied("KeyNotAllowed", f"request: key {kind}; use EC {' or '.join(_CURVES)}")


def _subject(request: SigningRequest, _: Expected) -> Denied | None:
    subject = _parsed(request).subject
    if subject == x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, COMMON_NAME)]):
        return None
    return Denied(
        "SubjectNotAllowed", f"subject: {subject.rfc4514_string()!r}; it must be 'CN={COMMON_NAME}'"
    )


def _names(request: SigningRequest, _: Expected) -> Denied | None:
    node, pod_uid = _one(request, NODE_NAME_EXTRA), _one(request, POD_UID_EXTRA)
    wanted = [f"DNS:{server_name(node)}", f"URI:{uri(node, pod_uid)}"]
    asked = sorted(_alternative_names(_parsed(request)))
    if asked == wanted:
        return None
    return Denied(
        "NotItsOwnName",
        f"subjectAltName: {asked}, but the token is of pod {pod_uid} on node {node!r}; it must be {wanted}",
    )


def _extensions(request: SigningRequest, _: Expected) -> Denied | None:
    others = [
        extension.oid.dotted_string
        for extension in _parsed(request).extensions
        if not isinstance(extension.value, x509.SubjectAlternativeName)
    ]
    if not others:
        return None
    return Denied(
        "ExtensionsNotAllowed", f"request: extensions {', '.join(others)}; ask for subjectAltName alone"
    )


Check = Callable[[SigningRequest, Expected], Denied | None]

CHAIN: Final[tuple[Check, ...]] = (
    _signer,
    _requester,
    _bound,
    _usages,
    _lifetime,
    _readable,
    _key,
    _subject,
    _names,
    _extensions,
)
"""In this order: those after `_readable` may take a readable request for granted."""


def _one(request: SigningRequest, key: str) -> str:
    """The single value of an extra, or "": two values would leave open which one is meant."""
    values = request.extra.get(key, ())
    return values[0] if len(values) == 1 else ""


def _parse(request: SigningRequest) -> x509.CertificateSigningRequest | None:
    if len(request.pem) > _LONGEST_PEM or request.pem.count(b"-----BEGIN") != 1:
        return None
    try:
        parsed = x509.load_pem_x509_csr(request.pem)
        # Touched here, because these are parsed on first use and raise for malformed content.
        _ = parsed.extensions, parsed.subject, parsed.public_key()
    except Exception:  # noqa: BLE001 - whatever the parser raises for hostile bytes: unreadable
        return None
    return parsed


def _parsed(request: SigningRequest) -> x509.CertificateSigningRequest:
    parsed = _parse(request)
    if parsed is None:
        raise ValueError("request: not readable")
    return parsed


def _alternative_names(parsed: x509.CertificateSigningRequest) -> list[str]:
    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [_text(name) for name in names]


def _text(name: x509.GeneralName) -> str:
    if isinstance(name, x509.DNSName):
        return f"DNS:{name.value}"
    if isinstance(name, x509.UniformResourceIdentifier):
        return f"URI:{name.value}"
    return f"{type(name).__name__}:{name.value}"
