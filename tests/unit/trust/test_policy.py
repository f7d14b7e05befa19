"""A certificate is granted for the node and pod of the asker's own token, and for nothing else."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from hawk_api.certificates import NODE_NAME_EXTRA, POD_UID_EXTRA, server_name, uri
from hawk_operator.trust.policy import Approved, Denied, SigningRequest, approve_request

from . import requests as make

NODES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]{1,20}){0,3}", fullmatch=True)
UIDS = st.uuids().map(str)
RSA = rsa.generate_private_key(65537, 2048)
SMALL = ec.generate_private_key(ec.SECP224R1())


def test_an_agent_gets_a_certificate_for_its_own_node_and_pod():
    verdict = approve_request(make.request(), make.EXPECTED)

    assert isinstance(verdict, Approved)
    assert (verdict.node, verdict.pod_uid) == (make.NODE, make.POD_UID)
    assert verdict.public_key == make.key().public_key()


WRONG = {
    "another signer": ({"signer": "kubernetes.io/kube-apiserver-client"}, "OtherSigner"),
    "another account": ({"username": "system:serviceaccount:default:default"}, "NotAnAgent"),
    "the account's name in another namespace": (
        {"username": "system:serviceaccount:default:hawk-agent"},
        "NotAnAgent",
    ),
    "a token that is not bound": ({"extra": {}}, "TokenNotBound"),
    "a token bound to a pod but no node": ({"extra": {POD_UID_EXTRA: (make.POD_UID,)}}, "TokenNotBound"),
    "a token bound to a node but no pod": ({"extra": {NODE_NAME_EXTRA: (make.NODE,)}}, "TokenNotBound"),
    "two nodes in the token": (
        {"extra": {NODE_NAME_EXTRA: (make.NODE, "node-b"), POD_UID_EXTRA: (make.POD_UID,)}},
        "TokenNotBound",
    ),
    "too few usages": ({"usages": ("client auth",)}, "UsagesNotAllowed"),
    "the usage of an authority": (
        {"usages": ("digital signature", "server auth", "client auth", "cert sign")},
        "UsagesNotAllowed",
    ),
    "a life of a second": ({"expiration_seconds": 1}, "LifetimeTooShort"),
    "no request": ({"pem": b""}, "RequestNotReadable"),
    "two requests": ({"pem": make.pem() * 2}, "RequestNotReadable"),
    "an RSA key": ({"pem": make.pem(private_key=RSA)}, "KeyNotAllowed"),
    "a small curve": (
        {"pem": make.pem(private_key=ec.generate_private_key(ec.SECP224R1()))},
        "KeyNotAllowed",
    ),
    "the common name of an administrator": ({"pem": make.pem(common_name="admin")}, "SubjectNotAllowed"),
    "no names": ({"pem": make.pem([])}, "NotItsOwnName"),
    "another node": ({"pem": make.pem(make.names("node-b"))}, "NotItsOwnName"),
    "another pod": ({"pem": make.pem(make.names(pod_uid="other"))}, "NotItsOwnName"),
    "its own names and another's": (
        {"pem": make.pem([*make.names(), *make.names("node-b")])},
        "NotItsOwnName",
    ),
    "its own names and an address": (
        {"pem": make.pem([*make.names(), x509.DNSName("kubernetes.default.svc")])},
        "NotItsOwnName",
    ),
    "to be an authority": (
        {"pem": make.pem(extensions=(x509.BasicConstraints(ca=True, path_length=None),))},
        "ExtensionsNotAllowed",
    ),
}


@pytest.mark.parametrize(("changes", "reason"), WRONG.values(), ids=WRONG)
def test_asking_for_more_or_as_somebody_else_is_denied_with_the_reason(changes, reason):
    verdict = approve_request(make.request(**changes), make.EXPECTED)

    assert isinstance(verdict, Denied)
    assert verdict.reason == reason
    assert ":" in verdict.message  # it names the field


def test_an_ed25519_key_is_denied_though_its_signature_needs_no_digest():
    builder = x509.CertificateSigningRequestBuilder().subject_name(make.subject())
    builder = builder.add_extension(x509.SubjectAlternativeName(make.names()), critical=False)
    asked = builder.sign(ed25519.Ed25519PrivateKey.generate(), None)

    verdict = approve_request(
        make.request(pem=asked.public_bytes(make.serialization.Encoding.PEM)), make.EXPECTED
    )

    assert isinstance(verdict, Denied)
    assert verdict.reason == "KeyNotAllowed"


def test_a_key_that_the_asker_does_not_hold_is_denied():
    """The last bytes of a request are its signature; one changed bit is another's key without its proof."""
    der = x509.load_pem_x509_csr(make.pem()).public_bytes(make.serialization.Encoding.DER)
    forged = der[:-1] + bytes([der[-1] ^ 1])
    label = b"CERTIFICATE REQUEST-----\n"
    text = b"-----BEGIN " + label + make.base64.encodebytes(forged) + b"-----END " + label

    verdict = approve_request(make.request(pem=text), make.EXPECTED)

    assert isinstance(verdict, Denied)
    assert verdict.reason in {"SignatureNotValid", "RequestNotReadable"}


@given(token=st.tuples(NODES, UIDS), asked=st.tuples(NODES, UIDS))
def test_the_names_must_be_those_of_the_token(token, asked):
    extra = {NODE_NAME_EXTRA: (token[0],), POD_UID_EXTRA: (token[1],)}

    verdict = approve_request(make.request(extra=extra, pem=make.pem(make.names(*asked))), make.EXPECTED)

    assert isinstance(verdict, Approved) == (token == asked)


@given(node=NODES, uid=UIDS)
def test_no_two_identities_share_a_name(node, uid):
    """A node's name is read back from its certificate's, so it can't be mistaken for another's."""
    from hawk_api.certificates import node_of

    assert node_of(server_name(node)) == node
    assert uri(node, uid).split("/")[-3:] == [node, "pod", uid]


@given(st.binary(max_size=300))
def test_any_bytes_as_a_request_are_denied_and_raise_nothing(raw):
    assert isinstance(approve_request(make.request(pem=raw), make.EXPECTED), Denied)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "signerName": st.text(),
            "username": st.text(),
            "extra": st.none() | st.dictionaries(st.text(), st.none() | st.lists(st.text())),
            "usages": st.none() | st.lists(st.text()),
            "request": st.text(),
            "expirationSeconds": st.none() | st.integers(),
        },
    )
)
def test_any_object_is_read_and_denied(spec):
    asked = SigningRequest.of({"metadata": {"name": "x"}, "spec": spec})

    assert isinstance(approve_request(asked, make.EXPECTED), Denied)
