"""Completions in an event loop: whoever waits is told, once, and a queue is never waited for without end."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hawk_agent.errors import TransportTimeoutError
from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.transports.verbs import completion, registration
from hawk_agent.transports.verbs.completion import Dispatcher
from hawk_agent.transports.verbs.errors import DeviceFaultError, FlushedError, PostError, RemoteAccessError
from hawk_agent.transports.verbs.posting import LocalMemory, Posting, RemoteMemory

from .ends import Pair

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from .fake import Fake

ROWS = 300


class Loop:
    """A pair whose ends are both listened to."""

    def __init__(self, fake: Fake) -> None:
        self.fake = fake
        self.pair = Pair.make(fake.infos(), depth=16)
        sizes = {"s": ROWS, "d": 80}
        source = Layout.parse("s d", sizes, "int8")
        self.nest = compile_nest(source, Layout.parse("s d", sizes, "int8", strides={"s": 84}))
        self.data = np.random.default_rng(3).integers(1, 256, self.nest.source.nbytes, dtype=np.uint8)
        self.landed = np.zeros(self.nest.destination.nbytes, np.uint8)
        self.here = self.pair.a.register(self.data, registration.GATHERED)
        self.there = self.pair.b.register(self.landed)
        self.arrived: list[int] = []
        self.broken: list[tuple[object, Exception]] = []
        self.sender = Dispatcher(self.pair.a.completions, broken=lambda *found: self.broken.append(found))
        self.receiver = Dispatcher(
            self.pair.b.completions, arrived=lambda arrival: self.arrived.append(arrival.immediate)
        )

    def post(self, immediate: int | None = None, first: int = 0, count: int = ROWS) -> Posting:
        return Posting(
            self.pair.a.queue,
            self.nest.window("s", first, first + count),
            LocalMemory(self.here.nbytes, self.here.local_ranges),
            RemoteMemory(self.there.nbytes, self.there.remote_ranges),
            immediate=immediate,
        )

    def expected(self) -> np.ndarray:
        memory = np.zeros_like(self.landed)
        self.nest.run(self.data, memory)
        return memory


@pytest.fixture
async def loop(fake: Fake) -> AsyncIterator[Loop]:
    made = Loop(fake)
    made.sender.start()
    made.receiver.start()
    yield made
    made.sender.close()
    made.receiver.close()
    made.here.close()
    made.there.close()
    made.pair.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 -- what a device did has no event of its own
            await asyncio.sleep(0.001)


async def test_a_posting_larger_than_the_queue_is_driven_to_its_end(loop: Loop):
    posting = loop.post(immediate=5)
    await loop.sender.drive(posting)
    await until(lambda: loop.arrived)

    assert np.array_equal(loop.landed, loop.expected())
    assert loop.arrived == [5]
    assert loop.fake.seen.most_outstanding <= 16
    assert loop.broken == []


async def test_postings_that_share_a_queue_each_end(loop: Loop):
    parts = [loop.post(immediate=n, first=n * 30, count=30) for n in range(10)]
    await asyncio.gather(*(loop.sender.drive(part) for part in parts))
    await until(lambda: len(loop.arrived) == 10)

    assert np.array_equal(loop.landed, loop.expected())
    assert sorted(loop.arrived) == list(range(10))
    assert sum(part.requests for part in parts) == loop.pair.a.queue.raw.retired == ROWS


async def test_a_slow_device_is_waited_for(loop: Loop):
    """Requests end a few at a time, long after they were posted."""
    loop.fake.knobs.work = 0

    async def work() -> None:
        while True:
            loop.fake.work(3)
            await asyncio.sleep(0.001)

    worker = asyncio.create_task(work())
    await loop.sender.drive(loop.post())
    worker.cancel()

    assert np.array_equal(loop.landed, loop.expected())


async def test_a_failure_is_told_once_and_every_posting_of_the_queue_fails(loop: Loop):
    first, second = loop.post(count=150), loop.post(first=150, count=150)
    loop.there.close()
    found = await asyncio.gather(loop.sender.drive(first), loop.sender.drive(second), return_exceptions=True)
    await asyncio.sleep(0)

    assert [type(error) for error in found] == [RemoteAccessError, RemoteAccessError]
    assert [(queue, type(error)) for queue, error in loop.broken] == [(loop.pair.a.queue, RemoteAccessError)]
    assert loop.pair.a.queue.outstanding == 0
    loop.there = loop.pair.b.register(loop.landed)
    loop.pair.recover()
    await loop.sender.drive(loop.post())
    assert np.array_equal(loop.landed, loop.expected())


async def test_a_fence_wakes_whoever_posts(loop: Loop):
    loop.fake.knobs.work = 0
    driven = asyncio.create_task(loop.sender.drive(loop.post()))
    await until(lambda: loop.pair.a.queue.outstanding)
    loop.pair.a.queue.to_error()
    loop.fake.knobs.work = 1 << 20
    with pytest.raises(FlushedError):
        await driven
    await loop.sender.drained(loop.pair.a.queue)
    assert not loop.landed.any()


async def test_a_provider_that_takes_nothing_is_given_up(loop: Loop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(completion, "REFUSED_SECONDS", 0.02)

    class Refusing:
        """Says no to every request, for ever."""

        done, requests, last = False, 0, 0

        def post(self, *_: object) -> tuple[int, int]:
            return 0, errno.ENOMEM

    posting = loop.post()
    posting._cursor = Refusing()
    with pytest.raises(PostError, match="takes no request"):
        await loop.sender.drive(posting)


async def test_a_device_that_stands_still_is_given_up(loop: Loop):
    loop.fake.knobs.work = 0
    with pytest.raises(TransportTimeoutError, match=r"nothing ended within 0\.05 s"):
        await loop.sender.drive(loop.post(), stall=0.05)
    assert loop.pair.a.queue.state == "IBV_QPS_ERR"
    with pytest.raises(TransportTimeoutError, match="didn't end"):
        await loop.sender.drained(loop.pair.a.queue, seconds=0.05)
    loop.fake.knobs.work = 1 << 20
    loop.fake.work()
    await loop.sender.drained(loop.pair.a.queue)


async def test_whoever_waits_is_told_when_the_dispatcher_closes(loop: Loop):
    loop.fake.knobs.work = 0
    driven = asyncio.create_task(loop.sender.drive(loop.post()))
    await until(lambda: loop.pair.a.queue.outstanding)
    loop.sender.close()
    with pytest.raises(TransportTimeoutError, match="nobody listens"):
        await driven
    loop.fake.knobs.work = 1 << 20


async def test_two_ends_that_connect_at_once_reach_each_other(fake: Fake):
    pairs = [Pair.make(fake.infos(), depth=8) for _ in range(4)]

    async def connect(pair: Pair) -> None:
        await asyncio.gather(asyncio.to_thread(pair.recover))

    await asyncio.gather(*(connect(pair) for pair in pairs))

    assert {pair.a.queue.state for pair in pairs} | {pair.b.queue.state for pair in pairs} == {"IBV_QPS_RTS"}
    for pair in pairs:
        pair.close()


@pytest.mark.parametrize("posted", [1, 3, 16])
async def test_what_a_cancelled_transfer_posted_is_accounted_for(loop: Loop, posted: int):
    """Requests that were done before the fence, unsignalled: only the mark behind them tells."""
    loop.post().step(posted)
    loop.pair.a.queue.to_error()
    await loop.sender.drained(loop.pair.a.queue, seconds=5)
    books = loop.pair.a.queue.raw

    assert books.posted == books.retired == posted + (posted % 4 != 0)
    assert loop.fake.seen.executed == posted


async def test_a_receiver_learns_that_its_queue_pair_failed(loop: Loop):
    """A write that its memory refuses flushes its receives: nothing else tells it."""
    told: list[object] = []
    loop.receiver._broken = lambda queue, error: told.append((queue, type(error)))
    posting = loop.post()
    loop.there.close()
    with pytest.raises(RemoteAccessError):
        await loop.sender.drive(posting)
    await until(lambda: told)
    assert told == [(loop.pair.b.queue, FlushedError)]
    loop.there = loop.pair.b.register(loop.landed)
    loop.pair.recover()
    await loop.sender.drive(loop.post(immediate=1))
    await until(lambda: loop.arrived)
    assert loop.pair.b.queue.broken is None


async def test_a_fence_of_our_own_breaks_nothing(loop: Loop):
    told: list[object] = []
    loop.receiver._broken = lambda *found: told.append(found)
    loop.pair.b.queue.to_error()
    await until(lambda: loop.pair.b.queue.raw.receives == 0)

    assert told == []


async def test_a_device_that_vanishes_fails_everything_at_once(loop: Loop):
    loop.fake.knobs.work = 0
    driven = asyncio.create_task(loop.sender.drive(loop.post()))
    await until(lambda: loop.pair.a.queue.outstanding)
    loop.fake.knobs.vanished = 1
    os.eventfd_write(loop.pair.a.completions.raw.fd, 1)  # as the kernel wakes whoever waits for it
    with pytest.raises(DeviceFaultError, match=r"fakea port 1 .*the completion queue is lost"):
        await driven
    assert [(queue, type(error)) for queue, error in loop.broken] == [(loop.pair.a.queue, DeviceFaultError)]
    with pytest.raises(DeviceFaultError):
        await loop.sender.drained(loop.pair.a.queue)
    loop.fake.knobs.vanished, loop.fake.knobs.work = 0, 1 << 20


async def test_a_post_to_a_device_that_vanished_is_an_error(loop: Loop):
    loop.fake.knobs.vanished = 1
    with pytest.raises(PostError, match=r"Input/output error \(errno 5\)"):
        await loop.sender.drive(loop.post())
    loop.fake.knobs.vanished = 0


async def test_an_idle_dispatcher_sleeps_and_is_woken(loop: Loop, monkeypatch: pytest.MonkeyPatch):
    """After work it looks on for a while, then it costs nothing; the next completion wakes it."""
    await loop.sender.drive(loop.post(immediate=1))
    await asyncio.sleep(0.05)
    looked: list[int] = []
    take = loop.sender._take
    monkeypatch.setattr(loop.sender, "_take", lambda: looked.append(1) or take())
    await asyncio.sleep(0.05)
    assert looked == []
    await loop.sender.drive(loop.post(immediate=2))
    await until(lambda: loop.arrived == [1, 2])
    assert looked


async def test_a_dispatcher_can_be_started_again(loop: Loop):
    loop.receiver.close()
    await loop.sender.drive(loop.post(immediate=1))
    assert loop.arrived == []
    loop.receiver.start()
    await until(lambda: loop.arrived == [1])
