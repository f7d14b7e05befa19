"""The authority is renewed without a moment in which a valid certificate is not trusted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.verification import PolicyBuilder, Store
from hypothesis import given, settings
from hypothesis import strategies as st

from hawk_api.certificates import server_name, uri
from hawk_operator.trust.authority import (
    SKEW,
    Authority,
    AuthorityError,
    Lifetimes,
    advance_rotation,
    dump_authority,
    issue_certificate,
    load_authority,
    make_authority,
    renewal_time,
)
from hawk_operator.trust.policy import Approved

START = datetime(2030, 1, 1, tzinfo=UTC)
LIVES = Lifetimes(timedelta(days=30), timedelta(hours=24), timedelta(hours=1))


def approved(node: str = "node-a") -> Approved:
    return Approved(node, "uid", ec.generate_private_key(ec.SECP256R1()).public_key())


def trusted(bundle: bytes, leaf: bytes, node: str, now: datetime) -> bool:
    """True if another implementation accepts the certificate for the node's name."""
    store = Store(x509.load_pem_x509_certificates(bundle))
    verifier = PolicyBuilder().store(store).time(now).build_server_verifier(x509.DNSName(server_name(node)))
    try:
        verifier.verify(x509.load_pem_x509_certificate(leaf), [])
    except x509.verification.VerificationError:
        return False
    return True


def test_a_certificate_names_the_approved_node_and_pod_and_no_more():
    authority = advance_rotation(None, START, LIVES)

    leaf = issue_certificate(authority, approved(), START, LIVES)

    certificate = x509.load_pem_x509_certificate(leaf)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [
        x509.DNSName(server_name("node-a")),
        x509.UniformResourceIdentifier(uri("node-a", "uid")),
    ]
    assert certificate.not_valid_after_utc == START + LIVES.certificate
    assert trusted(authority.bundle, leaf, "node-a", START)
    assert not trusted(authority.bundle, leaf, "node-b", START)
    assert not trusted(advance_rotation(None, START, LIVES).bundle, leaf, "node-a", START)


@pytest.mark.parametrize("node", ["10.0.0.7", "a" * 63 + "." + "b" * 63, "n"])
def test_nodes_named_by_an_address_or_at_length_get_certificates_too(node):
    authority = advance_rotation(None, START, LIVES)

    leaf = issue_certificate(authority, approved(node), START, LIVES)

    assert trusted(authority.bundle, leaf, node, START)


def test_the_authority_can_vouch_for_agents_only():
    """A certificate for another name, signed with the very key of the authority, is not accepted."""
    pair = make_authority(START, LIVES.authority)
    key = ec.generate_private_key(ec.SECP256R1())
    forged = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(pair.certificate.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(START - SKEW)
        .not_valid_after(START + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("kubernetes.default.svc")]), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(pair.key.public_key()), critical=False
        )
        .sign(pair.key, hashes.SHA256())
    )
    store = Store([pair.certificate])
    verifier = (
        PolicyBuilder().store(store).time(START).build_server_verifier(x509.DNSName("kubernetes.default.svc"))
    )

    with pytest.raises(x509.verification.VerificationError, match="constraint"):
        verifier.verify(forged, [])


@pytest.mark.parametrize(("asked", "given_life"), [(None, 24), (1, 1), (24, 24), (1000, 24)])
def test_the_asked_life_is_granted_up_to_the_limit(asked, given_life):
    authority = advance_rotation(None, START, LIVES)

    leaf = issue_certificate(authority, approved(), START, LIVES, timedelta(hours=asked) if asked else None)

    assert x509.load_pem_x509_certificate(leaf).not_valid_after_utc == START + timedelta(hours=given_life)


def test_a_certificate_never_outlives_its_authority():
    authority = advance_rotation(None, START, LIVES)
    late = authority.signing.expires - timedelta(hours=1)

    leaf = issue_certificate(authority, approved(), late, LIVES)

    assert x509.load_pem_x509_certificate(leaf).not_valid_after_utc == authority.signing.expires


def test_the_next_authority_is_trusted_for_the_overlap_before_it_signs():
    first = advance_rotation(None, START, LIVES)
    due = renewal_time(first.signing)

    assert due == START + LIVES.authority * 2 / 3
    assert advance_rotation(first, due - timedelta(seconds=1), LIVES) is first
    second = advance_rotation(first, due, LIVES)
    assert second.signing == first.signing
    assert second.waiting is not None
    assert advance_rotation(second, due + LIVES.overlap - timedelta(seconds=1), LIVES) is second
    third = advance_rotation(second, due + LIVES.overlap, LIVES)
    assert third == Authority(second.waiting, None, (first.signing.certificate,))
    just_after = first.signing.expires + timedelta(seconds=1)
    assert advance_rotation(third, just_after, LIVES).retired == ()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0.01, 5), min_size=5, max_size=40))
def test_whenever_the_operator_looks_every_living_certificate_is_trusted(steps):
    """Days between two looks; one certificate is issued at each. Agents see the bundle of the last look."""
    now, authority, issued = START, None, []
    for step in steps:
        before = authority
        authority = advance_rotation(authority, now, LIVES)
        issued.append((issue_certificate(authority, approved(), now, LIVES), now))
        if before is not None and authority.signing != before.signing and before.signing.expires >= now:
            assert authority.signing.certificate in x509.load_pem_x509_certificates(before.bundle)
            assert now - authority.signing.born >= LIVES.overlap
        for leaf, born in issued:
            alive = now <= x509.load_pem_x509_certificate(leaf).not_valid_after_utc
            assert trusted(authority.bundle, leaf, "node-a", now) == alive, born
        now = (now + timedelta(days=step)).replace(microsecond=0)


def states():
    first = advance_rotation(None, START, LIVES)
    second = advance_rotation(first, renewal_time(first.signing), LIVES)
    return [first, second, advance_rotation(second, renewal_time(first.signing) + LIVES.overlap, LIVES)]


@pytest.mark.parametrize("authority", states(), ids=["signing", "waiting", "retired"])
def test_the_secret_holds_all_of_it(authority):
    loaded = load_authority(dump_authority(authority))

    assert loaded is not None
    assert dump_authority(loaded) == dump_authority(authority)
    assert loaded.bundle == authority.bundle
    assert load_authority({}) is None


BROKEN = [
    (key, content)
    for key in ("signing.crt", "signing.key", "waiting.crt", "waiting.key")
    for content in (None, b"", b"nonsense")
    if (key, content) != ("waiting.crt", None)  # that is a Secret in which none waits
]


@pytest.mark.parametrize(("broken", "content"), BROKEN)
def test_a_broken_secret_is_an_error_that_names_the_key_and_is_not_overwritten(broken, content):
    data = dump_authority(states()[1])
    if content is None:
        del data[broken]
    else:
        data[broken] = content

    with pytest.raises(AuthorityError, match=broken.split(".")[0]):
        load_authority(data)


def test_the_key_of_another_certificate_is_an_error():
    data = dump_authority(states()[1])
    data["signing.key"] = data["waiting.key"]

    with pytest.raises(AuthorityError, match=r"signing\.key"):
        load_authority(data)
