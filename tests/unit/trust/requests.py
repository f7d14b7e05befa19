"""Certificate requests as the API server would record them, right and wrong."""

from __future__ import annotations

import base64
from dataclasses import replace
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
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
from hawk_operator.trust.policy import Expected, SigningRequest

EXPECTED = Expected("system:serviceaccount:hawk-system:hawk-agent")
NODE, POD_UID = "node-a", "8d8a0a4c-7f7c-4f0b-9f1c-0a4b6d1a2b3c"


@cache
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def subject(common_name: str = COMMON_NAME) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def names(node: str = NODE, pod_uid: str = POD_UID) -> list[x509.GeneralName]:
    return [x509.DNSName(server_name(node)), x509.UniformResourceIdentifier(uri(node, pod_uid))]


def pem(
    alternative: list[x509.GeneralName] | None = None,
    common_name: str = COMMON_NAME,
    private_key: Any = None,
    extensions: tuple[x509.ExtensionType, ...] = (),
) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject(common_name))
    alternative = names() if alternative is None else alternative
    if alternative:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternative), critical=False)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=True)
    request = builder.sign(private_key or key(), hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM)


def request(**changes: Any) -> SigningRequest:
    """A request that is granted, with changes."""
    granted = SigningRequest(
        name="hawk-agent-x",
        signer=SIGNER,
        username=EXPECTED.username,
        extra={NODE_NAME_EXTRA: (NODE,), POD_UID_EXTRA: (POD_UID,)},
        usages=USAGES,
        pem=pem(),
    )
    return replace(granted, **changes)


def item(name: str = "hawk-agent-x", **changes: Any) -> dict[str, Any]:
    """The same as the API's object."""
    asked = request(name=name, **changes)
    spec: dict[str, Any] = {
        "signerName": asked.signer,
        "username": asked.username,
        "extra": {key: list(values) for key, values in asked.extra.items()},
        "usages": list(asked.usages),
        "request": base64.b64encode(asked.pem).decode(),
    }
    if asked.expiration_seconds is not None:
        spec["expirationSeconds"] = asked.expiration_seconds
    return {"metadata": {"name": asked.name, "resourceVersion": "1"}, "spec": spec, "status": {}}
