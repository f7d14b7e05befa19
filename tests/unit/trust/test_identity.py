"""An agent gets, keeps and renews a certificate; the signer at the other end is the operator's own."""

from __future__ import annotations

import asyncio
import itertools
import os
import stat
import threading
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509

from hawk_agent import identity
from hawk_agent.identity.cluster import Bound, SigningReply
from hawk_agent.identity.keeper import make_request
from hawk_agent.identity.material import renew_at, write_authority, write_material
from hawk_api.certificates import NODE_NAME_EXTRA, POD_UID_EXTRA, USAGES
from hawk_kube.errors import UnavailableError
from hawk_operator.trust.authority import Lifetimes, advance_rotation, issue_certificate, utc
from hawk_operator.trust.policy import Approved, Denied, approve_request

from . import requests as make

NOW = 1_900_000_000.0
LIVES = Lifetimes(timedelta(days=30), timedelta(hours=24), timedelta(hours=1))


OURS = Bound(make.NODE, make.POD_UID)


class Signing:
    """A cluster whose operator answers at once, unless told otherwise."""

    def __init__(self, bound: Bound = OURS) -> None:
        self.bound = bound
        self.now = NOW
        self.looks = 0
        self.authority = advance_rotation(None, utc(NOW), LIVES)
        self.silent = False
        self.unavailable = 0
        self.published = True
        self.requests: list[bytes] = []

    def clock(self) -> float:
        self.looks += 1
        return self.now

    async def looked_at(self, times: int = 5) -> None:
        """Wait until it has been looked at so often again."""
        until_now = self.looks
        await until(lambda: self.looks >= until_now + times)

    async def whoami(self) -> Bound:
        if self.unavailable:
            self.unavailable -= 1
            raise UnavailableError("review: connection refused")
        return self.bound

    async def submit(self, request: bytes) -> str:
        self.requests.append(request)
        return f"request-{len(self.requests)}"

    async def answer(self, name: str) -> SigningReply:
        if self.silent:
            return SigningReply()
        extra = {NODE_NAME_EXTRA: (self.bound.node,), POD_UID_EXTRA: (self.bound.pod_uid,)}
        asked = make.request(extra=extra, pem=self.requests[int(name.split("-")[1]) - 1], usages=USAGES)
        verdict = approve_request(asked, make.EXPECTED)
        if isinstance(verdict, Denied):
            return SigningReply(refusal=f"{verdict.reason}: {verdict.message}")
        return SigningReply(certificate=self.issue(verdict))

    def issue(self, verdict: Approved) -> bytes:
        return issue_certificate(self.authority, verdict, utc(self.now), LIVES)

    async def authorities(self) -> bytes:
        return self.authority.bundle if self.published else b""


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "tls"
    return identity.Files(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")


async def ensure(api: Any, files: identity.Files, node: str = make.NODE, patience: float = 20.0) -> None:
    await identity.ensure_identity(api, node, files, api.clock, patience)


async def test_the_first_certificate_fits_its_key_and_names_node_and_pod(files):
    api = Signing()

    await ensure(api, files)

    material = identity.read_material(files)
    assert material.objection(make.NODE, make.POD_UID, utc(NOW)) == ""
    assert b"PRIVATE" not in api.requests[0]
    assert "is for" in material.objection("node-b", make.POD_UID, utc(NOW))
    assert "do not vouch" in material.objection(make.NODE, make.POD_UID, utc(NOW + 90_000))


async def test_nobody_else_may_read_the_files_and_nothing_is_left_beside_them(files):
    old_mask = os.umask(0)
    try:
        await ensure(Signing(), files)
    finally:
        os.umask(old_mask)

    folder = files.key.parent
    assert sorted(path.name for path in folder.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


async def test_a_restarted_container_goes_on_with_the_certificate_it_has(files):
    api = Signing()
    await ensure(api, files)

    await ensure(api, files)

    assert len(api.requests) == 1


@pytest.mark.parametrize("damage", ["certificate", "key", "authority"])
@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
async def test_what_is_missing_or_broken_is_asked_for_anew(files, damage, content):
    api = Signing()
    await ensure(api, files)
    path = getattr(files, damage)
    path.unlink() if content is None else path.write_bytes(content)

    await ensure(api, files)

    assert len(api.requests) == 2
    assert identity.read_material(files).objection(make.NODE, make.POD_UID, utc(NOW)) == ""


async def test_a_new_pod_on_the_node_gets_its_own(files):
    api = Signing()
    await ensure(api, files)
    api.bound = Bound(make.NODE, "another pod")

    await ensure(api, files)

    assert identity.read_material(files).objection(make.NODE, "another pod", utc(NOW)) == ""


async def test_another_node_name_than_the_tokens_is_refused_before_anything_is_asked(files):
    api = Signing()

    with pytest.raises(identity.IdentityError, match=r"--node: 'node-b'.*'node-a'"):
        await ensure(api, files, node="node-b")

    assert api.requests == []


async def test_an_unbound_token_is_an_error_that_says_so(files):
    with pytest.raises(identity.IdentityError, match="not bound to a pod"):
        await ensure(Signing(Bound("", "")), files)


async def test_a_refusal_ends_the_wait_with_the_operators_words(files):
    api = Signing()
    api.answer = refuse  # type: ignore[method-assign]

    with pytest.raises(identity.IdentityError, match=r"request-1 was refused: NotAnAgent: requester"):
        await ensure(api, files)

    assert not files.certificate.exists()


async def refuse(name: str) -> SigningReply:
    return SigningReply(refusal="NotAnAgent: requester: …")


@pytest.mark.parametrize(
    ("attribute", "value", "what"), [("silent", True, "request-1"), ("published", False, "auth")]
)
async def test_no_answer_is_an_error_that_names_what_was_waited_for(files, attribute, value, what):
    api = Signing()
    setattr(api, attribute, value)

    with pytest.raises(identity.IdentityError, match=rf"no certificate.*{what}"):
        await ensure(api, files, patience=0.3)


async def test_an_api_server_that_comes_later_is_waited_for(files):
    api = Signing()
    api.unavailable = 1

    await ensure(api, files)

    assert identity.read_material(files).fits()


async def test_a_certificate_of_an_authority_that_is_not_trusted_is_not_kept(files):
    api = Signing()
    stranger = advance_rotation(None, utc(NOW), LIVES)
    api.issue = lambda verdict: issue_certificate(stranger, verdict, utc(NOW), LIVES)  # type: ignore[method-assign]

    with pytest.raises(identity.IdentityError, match="not usable: the trusted authorities do not vouch"):
        await ensure(api, files)

    assert not files.certificate.exists()


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - files have no events
            await asyncio.sleep(0.001)


async def test_it_is_renewed_in_time_with_a_new_key_and_follows_the_authorities(files):
    api = Signing()
    await ensure(api, files)
    first = identity.read_material(files)
    keeper = asyncio.create_task(identity.keep_identity(api, make.NODE, files, api.clock, look=0.001))
    try:
        await api.looked_at()
        assert identity.read_material(files) == first

        api.authority = advance_rotation(
            api.authority, utc(NOW + 21 * 86_400), LIVES
        )  # a second one is published
        await until(lambda: identity.read_material(files).authority == api.authority.bundle)
        assert identity.read_material(files).certificate == first.certificate

        api.now = renew_at(first.leaf, 1.0).timestamp() - 60
        await api.looked_at()
        assert identity.read_material(files).certificate == first.certificate
        api.now = renew_at(first.leaf, 0.0).timestamp()
        await until(lambda: identity.read_material(files).certificate != first.certificate)
        second = identity.read_material(files)
        assert second.key != first.key
        assert second.objection(make.NODE, make.POD_UID, utc(api.now)) == ""
    finally:
        keeper.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeper


async def test_a_failed_renewal_is_tried_again(files, caplog):
    api = Signing()
    await ensure(api, files)
    first = identity.read_material(files)
    answer = api.answer
    api.answer = refuse  # type: ignore[method-assign]
    api.now = renew_at(first.leaf, 0.0).timestamp()
    keeper = asyncio.create_task(identity.keep_identity(api, make.NODE, files, api.clock, look=0.001))
    try:
        await until(lambda: "not renewed yet" in caplog.text)
        assert identity.read_material(files) == first
        api.answer = answer  # type: ignore[method-assign]
        await until(lambda: identity.read_material(files).certificate != first.certificate)
    finally:
        keeper.cancel()


def test_renewals_are_spread_over_a_tenth_of_the_life(files):
    verdict = approve_request(make.request(), make.EXPECTED)
    assert isinstance(verdict, Approved)
    leaf = x509.load_pem_x509_certificate(
        issue_certificate(advance_rotation(None, utc(NOW), LIVES), verdict, utc(NOW), LIVES)
    )
    life = leaf.not_valid_after_utc - leaf.not_valid_before_utc
    second = timedelta(seconds=1)

    latest = renew_at(leaf, 0.0)
    assert abs(latest - leaf.not_valid_before_utc - life * 2 / 3) < second
    assert abs(latest - renew_at(leaf, 1.0) - life / 10) < second


async def test_readers_never_see_halves_while_it_is_replaced(files):
    """A writer in a thread replaces the three files without rest; each read gives a pair that fits."""
    api = Signing()
    pairs = []
    for _ in range(2):
        key, request = make_request(api.bound)
        api.requests.append(request)
        answer = await api.answer(f"request-{len(api.requests)}")
        pairs.append(identity.Material(answer.certificate, key, api.authority.bundle))
    write_material(files, pairs[0])
    stop = threading.Event()

    def replace_for_ever() -> None:
        for pair in itertools.cycle(pairs):
            write_material(files, pair)
            if stop.is_set():
                return

    writer = asyncio.create_task(asyncio.to_thread(replace_for_ever))
    seen: Counter[bytes] = Counter()
    try:
        while seen.total() < 200 or len(seen) < len(pairs):
            material = await asyncio.to_thread(identity.read_material, files)
            assert material.fits()
            seen[material.certificate] += 1
    finally:
        stop.set()
        await writer
    assert set(seen) == {pair.certificate for pair in pairs}


def test_a_key_that_never_fits_is_an_error_that_names_both_files(files):
    key, _ = make_request(Bound(make.NODE, make.POD_UID))
    verdict = approve_request(make.request(), make.EXPECTED)
    assert isinstance(verdict, Approved)
    authority = advance_rotation(None, utc(NOW), LIVES)
    write_material(
        files,
        identity.Material(issue_certificate(authority, verdict, utc(NOW), LIVES), key, authority.bundle),
    )

    with pytest.raises(identity.IdentityError, match=r"tls\.key.*tls\.crt"):
        identity.read_material(files)


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(files, monkeypatch):
    write_authority(files, b"old")
    monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(OSError, match="disk"):
        write_authority(files, b"new")

    assert files.authority.read_bytes() == b"old"
    assert [path.name for path in files.authority.parent.iterdir()] == ["ca.crt"]


def fail(_: int) -> None:
    raise OSError("disk is full")
