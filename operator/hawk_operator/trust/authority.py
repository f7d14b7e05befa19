"""The certificate authority of the agents: one that signs, one that may wait, some that are still trusted.

A new authority is trusted by everybody before it signs anything, and an old one stays trusted as long as a
certificate of its may live. So a renewal never breaks a handshake:

    age of the signing authority      what happens
    0 … 2/3 of its life               it signs
    2/3                               the next one is made and published, and waits
    2/3 + overlap                     the next one signs; the old one stays published until it expires

`advance` is the whole rule; it is a pure function of the state and the time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hawk_api.certificates import COMMON_NAME, DNS_SUFFIX, server_name, uri

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_operator.trust.policy import Approved

SKEW: Final = timedelta(minutes=5)
"""Certificates begin this much earlier, for nodes whose clocks are behind."""


class AuthorityError(ValueError):
    """The stored authority can't be used; the message names the Secret's key and the remedy."""


@dataclass(frozen=True)
class Lifetimes:
    """How long things live, and when they are replaced."""

    authority: timedelta = timedelta(days=365)
    certificate: timedelta = timedelta(hours=24)
    overlap: timedelta = timedelta(hours=1)
    """How long a new authority is published before it signs: well over the agents' time between two reads."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def born(self) -> datetime:
        """When it was made."""
        return self.certificate.not_valid_before_utc + SKEW

    @property
    def expires(self) -> datetime:
        """When it ends."""
        return self.certificate.not_valid_after_utc


@dataclass(frozen=True)
class Authority:
    """The key pair that signs, the next one, and the earlier ones that are still trusted."""

    signing: KeyPair
    waiting: KeyPair | None = None
    retired: tuple[x509.Certificate, ...] = ()

    @property
    def bundle(self) -> bytes:
        """Every trusted certificate as PEM, the signing one first."""
        trusted = [
            self.signing.certificate,
            *((self.waiting.certificate,) if self.waiting else ()),
            *self.retired,
        ]
        return b"".join(_pem(certificate) for certificate in trusted)


def advance_rotation(authority: Authority | None, now: datetime, lifetimes: Lifetimes) -> Authority:
    """The authority as it should be at `now`; the same object when nothing is due."""
    if authority is None or authority.signing.expires < now:
        heir = authority.waiting if authority else None
        alive = heir is not None and heir.expires >= now
        return Authority(heir if heir and alive else make_authority(now, lifetimes.authority))
    waiting = authority.waiting
    if waiting is not None and now >= waiting.born + lifetimes.overlap:
        authority = Authority(waiting, None, (authority.signing.certificate, *authority.retired))
    elif waiting is None and now >= renewal_time(authority.signing):
        authority = replace(authority, waiting=make_authority(now, lifetimes.authority))
    kept = tuple(certificate for certificate in authority.retired if certificate.not_valid_after_utc >= now)
    return authority if kept == authority.retired else replace(authority, retired=kept)


def renewal_time(pair: KeyPair) -> datetime:
    """When the next one is due: at two thirds of its life."""
    return pair.born + (pair.expires - pair.born) * 2 / 3


def make_authority(now: datetime, life: timedelta) -> KeyPair:
    """A new authority that can vouch for agents' DNS names alone.

    Common verifiers do not know constraints on URIs and would refuse the whole chain.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"hawk agents {now:%Y-%m-%d %H:%M}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(certificates=True), critical=True)
        .add_extension(x509.NameConstraints([x509.DNSName(DNS_SUFFIX)], None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(certificate, key)


def issue_certificate(
    authority: Authority,
    approved: Approved,
    now: datetime,
    lifetimes: Lifetimes,
    asked: timedelta | None = None,
) -> bytes:
    """A certificate as PEM for what was approved, of the asked life or less; it never outlives its authority.

    Every name in it is built here from the approved identity; nothing is copied from the request but its key.
    """
    signing = authority.signing
    life = min(asked or lifetimes.certificate, lifetimes.certificate)
    alternative = x509.SubjectAlternativeName(
        [
            x509.DNSName(server_name(approved.node)),
            x509.UniformResourceIdentifier(uri(approved.node, approved.pod_uid)),
        ]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, COMMON_NAME)]))
        .issuer_name(signing.certificate.subject)
        .public_key(approved.public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(min(now + life, signing.expires))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
        .add_extension(alternative, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.key.public_key()), critical=False
        )
        .sign(signing.key, hashes.SHA256())
    )
    return _pem(certificate)


SIGNING, WAITING, RETIRED = "signing", "waiting", "retired"
"""Prefixes of the Secret's keys: signing.crt, signing.key, waiting.crt, waiting.key, retired.crt."""


def dump_authority(authority: Authority) -> dict[str, bytes]:
    """The Secret's data."""
    pairs = {SIGNING: authority.signing} | ({WAITING: authority.waiting} if authority.waiting else {})
    data: dict[str, bytes] = {}
    for prefix, pair in pairs.items():
        data |= {f"{prefix}.crt": _pem(pair.certificate), f"{prefix}.key": _key_pem(pair)}
    if authority.retired:
        data[f"{RETIRED}.crt"] = b"".join(map(_pem, authority.retired))
    return data


def load_authority(data: Mapping[str, bytes]) -> Authority | None:
    """From the Secret's data; None when it is empty. AuthorityError when it holds something unusable."""
    if not data:
        return None
    signing = _load_pair(data, SIGNING)
    waiting = _load_pair(data, WAITING) if f"{WAITING}.crt" in data else None
    try:
        retired = x509.load_pem_x509_certificates(data[f"{RETIRED}.crt"]) if f"{RETIRED}.crt" in data else []
    except ValueError as error:
        raise _unusable(f"{RETIRED}.crt", str(error)) from error
    return Authority(signing, waiting, tuple(retired))


def _load_pair(data: Mapping[str, bytes], prefix: str) -> KeyPair:
    try:
        certificate = x509.load_pem_x509_certificate(data[f"{prefix}.crt"])
        key = serialization.load_pem_private_key(data[f"{prefix}.key"], password=None)
    except KeyError as error:
        raise _unusable(str(error.args[0]), "it is missing") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _unusable(f"{prefix}.crt or {prefix}.key", str(error)) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise _unusable(f"{prefix}.key", "it is not the key of the certificate beside it")
    return KeyPair(certificate, key)


def _unusable(key: str, why: str) -> AuthorityError:
    return AuthorityError(
        f"data[{key}]: {why}; restore the Secret, or empty its data to begin a new authority"
    )


def _key_usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certificates,
        crl_sign=certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(pair: KeyPair) -> bytes:
    return pair.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def utc(seconds: float) -> datetime:
    """Unix seconds as an aware datetime, without its fraction: certificates count whole seconds."""
    return datetime.fromtimestamp(int(seconds), tz=UTC)
