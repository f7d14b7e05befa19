"""Certificates and kubeconfigs of one throw-away cluster, or of agents without one."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hawk_api.certificates import COMMON_NAME, server_name, uri

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LIFETIME = datetime.timedelta(days=30)
SKEW = datetime.timedelta(hours=1)
SERVICE_ADDRESS = "10.96.0.1"
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        """The certificate in PEM form."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The private key in PEM form."""
        return private_pem(self.key)

    def write(self, folder: Path, name: str) -> None:
        """Write NAME.crt and NAME.key."""
        (folder / f"{name}.crt").write_bytes(self.certificate_pem)
        key = folder / f"{name}.key"
        key.touch(mode=0o600)
        key.write_bytes(self.key_pem)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key in PEM form."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the public half of a key in PEM form."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


class Authority:
    """A certificate authority that signs for servers on 127.0.0.1 and for users."""

    def __init__(self, now: datetime.datetime) -> None:
        self._now = now
        key = new_key()
        name = _name("hawkpool test cluster", ())
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = self._builder(name, key).issuer_name(name)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=True)
        self.pair = Pair(builder.sign(key, hashes.SHA256()), key)

    def server(self, common_name: str, host: str = "127.0.0.1") -> Pair:
        """Sign for a server on loopback and `host`, and for the cluster's own `kubernetes` Service."""
        texts = dict.fromkeys(("127.0.0.1", SERVICE_ADDRESS, host))
        names = [*map(x509.DNSName, SERVER_NAMES), *(x509.IPAddress(ipaddress.ip_address(t)) for t in texts)]
        return self._sign(common_name, (), [ExtendedKeyUsageOID.SERVER_AUTH], names)

    def user(self, common_name: str, groups: Sequence[str] = ()) -> Pair:
        """Sign for a client; Kubernetes takes the common name as user and the organisations as groups."""
        return self._sign(common_name, groups, [ExtendedKeyUsageOID.CLIENT_AUTH], [])

    def agent(self, node: str) -> Pair:
        """Sign for the agent of a node, as the operator does."""
        names = [
            x509.DNSName(server_name(node)),
            x509.UniformResourceIdentifier(uri(node, f"pod-of-{node}")),
        ]
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._sign(COMMON_NAME, (), uses, names)

    def _sign(
        self,
        common_name: str,
        groups: Sequence[str],
        uses: list[x509.ObjectIdentifier],
        names: Sequence[x509.GeneralName],
    ) -> Pair:
        key = new_key()
        builder = self._builder(_name(common_name, groups), key).issuer_name(self.pair.certificate.subject)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Pair(builder.sign(self.pair.key, hashes.SHA256()), key)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - SKEW)
            .not_valid_after(self._now + LIFETIME)
        )


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a fresh P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str, groups: Sequence[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def kubeconfig(server: str, authority_pem: bytes, user: dict[str, str], namespace: str = "default") -> str:
    """Return a kubeconfig (JSON, which is YAML) for one server and one user."""
    cluster = {"server": server, "certificate-authority-data": _base64(authority_pem)}
    context = {"cluster": "hawkpool", "user": "user", "namespace": namespace}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "hawkpool", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "hawkpool", "context": context}],
            "current-context": "hawkpool",
        },
        indent=2,
    )


def certificate_user(pair: Pair) -> dict[str, str]:
    """Return a kubeconfig's user entry that holds a client certificate."""
    return {
        "client-certificate-data": _base64(pair.certificate_pem),
        "client-key-data": _base64(pair.key_pem),
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
