"""Queue pairs through every state and every failure, with books that balance."""

from __future__ import annotations

import dataclasses
import errno
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.transports.verbs import registration
from hawk_agent.transports.verbs.completion import CompletionQueue, finish_posting
from hawk_agent.transports.verbs.errors import (
    CompletionError,
    DeviceError,
    FlushedError,
    LocalProtectionError,
    PeerUnreachableError,
    QueuePairStateError,
    ReceiverNotReadyError,
    RemoteAccessError,
)
from hawk_agent.transports.verbs.posting import LocalMemory, Posting, RemoteMemory
from hawk_agent.transports.verbs.queue_pair import QueuePair, Timeouts
from hawk_agent.transports.verbs.registration import AccessFlags, RemoteRange
from hawk_agent.transports.verbs.windows import MemoryWindow

from .ends import BOTH, Pair, drain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .fake import Fake

ROWS = 40
WIDTH = 80
"""Bytes of a row: too many to be carried inline, so that local keys count."""


class Bench:
    """A connected pair with memory at both ends, and rows to move that are a request each."""

    def __init__(self, fake: Fake, access: AccessFlags = registration.DESTINATION) -> None:
        self.fake = fake
        self.pair = Pair.make(fake.infos(), depth=16)
        sizes = {"s": ROWS, "d": WIDTH}
        source = Layout.parse("s d", sizes, "int8")
        target = Layout.parse("s d", sizes, "int8", strides={"s": WIDTH + 4})
        self.nest = compile_nest(source, target)
        self.data = np.arange(source.nbytes, dtype=np.uint64).astype(np.uint8)
        self.landed = np.zeros(target.nbytes, np.uint8)
        self.here = self.pair.a.register(self.data, registration.GATHERED)
        self.there = self.pair.b.register(self.landed, access)

    def post(self, *, lkey: int | None = None, remote: RemoteRange | None = None, **more: object) -> Posting:
        near = self.here.local_ranges[0]
        local = near if lkey is None else dataclasses.replace(near, lkey=lkey)
        return Posting(
            self.pair.a.queue,
            self.nest,
            LocalMemory(self.here.nbytes, (local,)),
            RemoteMemory(self.there.nbytes, (remote or self.there.remote_ranges[0],)),
            **more,
        )

    def fails(self, posting: Posting, kind: type[CompletionError]) -> CompletionError:
        """It fails so; then every request that was posted has ended, and the pair can be used again."""
        with pytest.raises(kind) as caught:
            finish_posting(posting, seconds=5)
        books = self.pair.a.queue.raw
        drain(self.pair.a)
        assert books.posted == books.retired
        assert books.failed > 0
        assert self.pair.a.queue.state == "IBV_QPS_ERR"
        return caught.value

    def works_again(self) -> None:
        self.pair.recover()
        self.landed[:] = 0
        finish_posting(self.post(), seconds=5)
        expected = np.zeros_like(self.landed)
        self.nest.run(self.data, expected)
        assert np.array_equal(self.landed, expected)

    def close(self) -> None:
        self.here.close()
        self.there.close()
        self.pair.close()


@pytest.fixture
def bench(fake: Fake) -> Iterator[Bench]:
    made = Bench(fake)
    yield made
    made.close()


def test_a_wrong_remote_key_is_a_remote_access_error(bench: Bench):
    far = bench.there.remote_ranges[0]
    wrong = dataclasses.replace(far, rkey=far.rkey ^ 0x55)
    error = bench.fails(bench.post(remote=wrong), RemoteAccessError)

    assert error.reason == "remote-access"
    assert error.vendor == 0x51
    assert str(wrong.rkey) not in str(error)
    assert f"{wrong.rkey:#x}" not in str(error)
    assert "fakea port 1" in str(error)
    assert bench.pair.b.queue.state == "IBV_QPS_ERR", "both ends of a pair fail"
    assert not bench.landed.any()
    bench.works_again()


def test_a_wrong_local_key_is_a_local_protection_error(bench: Bench):
    bench.fails(bench.post(lkey=0xBAD), LocalProtectionError)
    bench.works_again()


def test_a_peer_that_is_gone_is_unreachable(bench: Bench):
    bench.fake.knobs.gone = 1
    bench.fails(bench.post(), PeerUnreachableError)
    bench.fake.knobs.gone = 0
    bench.works_again()


def test_a_region_that_is_deregistered_under_way_is_a_remote_access_error(bench: Bench):
    bench.fake.knobs.work = 3  # requests are worked off three at a time
    posting = bench.post()
    posting.step()
    bench.pair.a.completions.poll()
    bench.there.close()
    bench.fails(posting, RemoteAccessError)
    bench.fake.knobs.work = 1 << 20
    bench.there = bench.pair.b.register(bench.landed, registration.DESTINATION)
    bench.works_again()


@pytest.mark.parametrize(
    "access",
    [
        AccessFlags.IBV_ACCESS_LOCAL_WRITE,
        AccessFlags.IBV_ACCESS_LOCAL_WRITE | AccessFlags.IBV_ACCESS_REMOTE_READ,
    ],
)
def test_a_region_that_is_not_open_to_writes_refuses_them(fake: Fake, access: AccessFlags):
    bench = Bench(fake, access)
    bench.fails(bench.post(), RemoteAccessError)
    bench.close()


def test_what_is_flushed_without_a_word_is_not_taken_for_success(bench: Bench):
    """Some provider may complete only what was signalled; after a failure nothing before it can be well."""
    bench.fake.knobs.work, bench.fake.knobs.quiet = 0, 1
    posting = bench.post()
    assert posting.step() == 16
    bench.there.close()
    bench.fake.knobs.work = 1 << 20
    bench.fails(posting, RemoteAccessError)
    books = bench.pair.a.queue.raw

    assert (books.posted, books.retired, books.failed) == (16, 16, 16)
    bench.there = bench.pair.b.register(bench.landed, registration.DESTINATION)


def test_an_immediate_without_a_receive_is_receiver_not_ready(fake: Fake):
    bench = Bench(fake)
    sender, receiver = bench.pair.a, bench.pair.b
    for number in range(receiver.queue.receives):  # the receiver doesn't look: nothing is posted anew
        finish_posting(bench.post(immediate=number), seconds=5)
    bench.fails(bench.post(immediate=99), ReceiverNotReadyError)
    assert sender.queue.failure.reason == "receiver-not-ready"
    bench.close()


def test_five_hundred_immediates_pass_a_receive_queue_of_sixteen(bench: Bench):
    """Receives are posted anew as completions are taken, whoever consumes the immediates."""
    seen = []
    for number in range(512):
        finish_posting(bench.post(immediate=0xA0000000 | number), seconds=5)
        seen += bench.pair.b.completions.poll()[1]

    assert [arrival.immediate for arrival in seen] == [0xA0000000 | n for n in range(512)]
    assert {arrival.queue for arrival in seen} == {bench.pair.b.queue}
    assert bench.pair.b.queue.raw.receives == bench.pair.b.queue.receives


def test_the_last_write_alone_carries_the_immediate(bench: Bench):
    finish_posting(bench.post(immediate=0x01020304), seconds=5)
    _, arrivals = bench.pair.b.completions.poll()

    assert [(arrival.immediate, arrival.nbytes) for arrival in arrivals] == [(0x01020304, WIDTH)]


def test_a_nest_that_moves_nothing_still_tells(bench: Bench):
    bench.nest = bench.nest.window("s", 0, 0)
    posting = bench.post(immediate=7)
    finish_posting(posting, seconds=5)
    _, arrivals = bench.pair.b.completions.poll()

    assert (posting.requests, posting.nbytes) == (1, 0)
    assert [(arrival.immediate, arrival.nbytes) for arrival in arrivals] == [(7, 0)]
    assert bench.post().settled, "without an immediate there is nothing to post"


def test_a_fence_flushes_what_is_under_way_and_nothing_lands_after_it(bench: Bench):
    bench.fake.knobs.work = 2
    posting = bench.post()
    posting.step()
    bench.pair.a.completions.poll()
    bench.pair.b.queue.to_error()
    landed = bench.landed.copy()
    bench.fails(posting, PeerUnreachableError)

    assert landed.any()
    assert np.array_equal(bench.landed, landed)
    bench.fake.knobs.work = 1 << 20
    bench.works_again()


def test_our_own_fence_ends_our_posting(bench: Bench):
    bench.fake.knobs.work = 2
    posting = bench.post()
    posting.step()
    bench.pair.a.queue.to_error()
    error = bench.fails(posting, FlushedError)

    assert error.reason == "flushed"
    bench.fake.knobs.work = 1 << 20
    bench.works_again()


def test_a_reset_writes_off_what_never_ended(bench: Bench):
    bench.fake.knobs.work = 0
    posting = bench.post()
    posted = posting.step()
    lost = bench.pair.a.queue.reset()
    books = bench.pair.a.queue.raw

    assert posted == lost == books.failed == books.retired == books.posted == 16
    bench.fake.knobs.work = 1 << 20
    bench.pair.b.queue.reset()
    bench.pair.connect()
    bench.works_again()
    assert books.strays == 0


def test_a_window_opens_a_range_and_a_late_write_finds_it_closed(fake: Fake):
    bench = Bench(fake, registration.WINDOWED)
    receiver = bench.pair.b
    window = MemoryWindow(receiver.device)
    number = window.bind(receiver.queue, bench.there, 0, bench.there.nbytes)
    drain(receiver)
    assert receiver.queue.raw.retired > number
    opened = window.remote_range
    finish_posting(bench.post(remote=opened), seconds=5)
    assert bench.landed.any()
    bench.landed[:] = 0
    window.invalidate(receiver.queue)
    drain(receiver)
    bench.fails(bench.post(remote=opened), RemoteAccessError)
    assert not bench.landed.any()

    bench.pair.recover()
    window.bind(receiver.queue, bench.there, 84, 168)
    drain(receiver)
    assert window.remote_range.rkey != opened.rkey, "each bind has a key of its own"
    with pytest.raises(Exception, match="no key opens"):
        finish_posting(bench.post(remote=window.remote_range), seconds=5)
    drain(bench.pair.a)
    window.close()
    bench.close()


@pytest.mark.parametrize("state", ["IBV_QPS_INIT", "IBV_QPS_RTR", "IBV_QPS_RTS"])
@pytest.mark.parametrize("number", [errno.EINVAL, errno.ETIMEDOUT])
def test_a_state_that_is_refused_is_told_with_all_that_helps(fake: Fake, state: str, number: int):
    fake.knobs.modify_state = {"IBV_QPS_INIT": 1, "IBV_QPS_RTR": 2, "IBV_QPS_RTS": 3}[state]
    fake.knobs.modify_errno = number
    with pytest.raises(QueuePairStateError) as caught:
        Pair.make(fake.infos())
    told = str(caught.value)
    for word in (
        state,
        "fakea",
        "port 1",
        "GID 3",
        "::ffff:10.9.0.1",
        "::ffff:10.9.0.2",
        "MTU 4096",
        f"errno {number}",
    ):
        assert word in told
    fake.reset()


@pytest.mark.parametrize(
    ("ours", "theirs", "told", "expected"),
    [(5, 3, True, 1024), (3, 5, True, 1024), (5, 5, True, 4096), (5, 5, False, 1024), (1, 5, False, 256)],
)
def test_the_path_mtu_is_what_both_ends_take(fake: Fake, ours, theirs, told, expected):
    fake.knobs.mtu[0], fake.knobs.mtu[1] = ours, theirs
    infos = fake.infos()
    pair = Pair.make(infos)
    peer = pair.b.queue.info if told else dataclasses.replace(pair.b.queue.info, mtu=0)
    pair.a.queue.to_error()
    pair.a.queue.reset()
    pair.a.queue.connect(peer, BOTH)

    assert pair.a.queue.mtu == expected
    assert bool(pair.a.queue.warnings) is not told
    pair.close()


def test_a_completion_queue_holds_all_that_its_queue_pairs_may_have_in_flight(fake: Fake):
    pair = Pair.make(fake.infos(), depth=64, receives=16)
    with pytest.raises(DeviceError, match="80 of 80 are spoken for"):
        QueuePair(pair.a.device, 1, 1, pair.a.completions, receives=1)
    with pytest.raises(DeviceError, match="takes 1 to 32767"):
        CompletionQueue(pair.a.device, 40_000)
    pair.close()


@pytest.mark.parametrize(
    ("name", "value"), [("retries", 7), ("rnr_retries", 7), ("rnr_timer", 0), ("ack", 0), ("ack", 32)]
)
def test_times_that_mean_for_ever_are_refused(name: str, value: int):
    with pytest.raises(DeviceError, match=name):
        Timeouts(**{name: value})


def test_a_device_that_takes_one_piece_gets_one(fake: Fake):
    fake.knobs.max_sge = 1
    infos = fake.infos()
    with pytest.raises(DeviceError, match="max_sge 2; the device takes 1 to 1"):
        Pair.make(infos, max_sge=2)
    fake.reset()


def test_a_closed_queue_pair_leaves_its_completions_to_nobody(fake: Fake):
    pair = Pair.make(fake.infos())
    data, landed = np.ones(64, np.uint8), np.zeros(64, np.uint8)
    line = Layout.parse("d", {"d": 64}, "int8")
    with pair.a.register(data, registration.GATHERED) as here, pair.b.register(landed) as there:
        posting = Posting(
            pair.a.queue,
            compile_nest(line, line),
            LocalMemory(64, here.local_ranges),
            RemoteMemory(64, there.remote_ranges),
        )
        posting.step()
        fake.work()
        pair.a.queue.close()
        taken, arrivals = pair.a.completions.poll()
    assert (taken, arrivals) == (1, [])
    pair.close()
