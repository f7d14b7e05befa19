"""Whatever happens in whatever order, each request that was posted is accounted for exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.transports.verbs import registration
from hawk_agent.transports.verbs.posting import LocalMemory, Posting, RemoteMemory

from .ends import Pair, drain

if TYPE_CHECKING:
    from .fake import Fake

ROWS, DEPTH = 500, 12


class Life(RuleBasedStateMachine):
    """One queue pair's life: posted to, worked off, polled, broken in all ways, fenced and recovered.

    The model counts what it did with each request: executed well, executed and failed, or flushed.
    """

    fake: Fake

    @initialize()
    def connect(self) -> None:
        self.fake.reset()
        self.pair = Pair.make(self.fake.infos(), depth=DEPTH, receives=8)
        sizes = {"s": ROWS, "d": 70}
        source = Layout.parse("s d", sizes, "int8")
        self.nest = compile_nest(source, Layout.parse("s d", sizes, "int8", strides={"s": 71}))
        self.data = np.ones(source.nbytes, np.uint8)
        self.landed = np.zeros(self.nest.destination.nbytes, np.uint8)
        self.here = self.pair.a.register(self.data, registration.GATHERED)
        self.there = self.pair.b.register(self.landed)
        self.fake.knobs.work = 0
        self.fenced = False
        self.postings: list[Posting] = []

    @property
    def books(self):
        return self.pair.a.queue.raw

    @rule(count=st.integers(1, 20), immediate=st.none() | st.integers(0, 2**32 - 1), steps=st.integers(0, 30))
    def post(self, count: int, immediate: int | None, steps: int) -> None:
        local = LocalMemory(self.here.nbytes, self.here.local_ranges)
        remote = RemoteMemory(self.there.nbytes, self.there.remote_ranges)
        nest = self.nest.window("s", 0, count)
        posting = Posting(self.pair.a.queue, nest, local, remote, immediate=immediate)
        posting.step(steps)
        self.postings.append(posting)

    @precondition(lambda self: self.postings)
    @rule()
    def go_on(self) -> None:
        self.postings[-1].step()

    @rule(count=st.integers(1, 10))
    def work(self, count: int) -> None:
        self.fake.work(count)

    @rule(limit=st.integers(1, 10))
    def poll(self, limit: int) -> None:
        self.pair.a.completions.poll(limit)

    @rule(limit=st.integers(1, 10))
    def poll_the_receiver(self, limit: int) -> None:
        self.pair.b.completions.poll(limit)

    @rule()
    def close_the_memory(self) -> None:
        self.there.close()
        self.there = self.pair.b.register(self.landed)

    @rule(ours=st.booleans())
    def fence(self, ours: bool) -> None:
        end = self.pair.a if ours else self.pair.b
        end.queue.to_error()
        self.fenced = self.fenced or ours

    @rule(after=st.integers(0, 12))
    def refuse(self, after: int) -> None:
        self.fake.knobs.refuse_in, self.fake.knobs.refuse_errno = after, 12

    @rule()
    def settle_and_recover(self) -> None:
        self.fake.knobs.refuse_in = -1
        self.fake.knobs.work = 1 << 20
        for end in (self.pair.a, self.pair.b):
            end.queue.to_error()
            drain(end)
        books, seen = self.books, self.fake.seen
        assert books.posted == books.retired == seen.executed + seen.flushed
        assert books.failed == seen.flushed + seen.faults
        assert books.strays == 0
        for posting in self.postings:
            assert posting.settled or not posting.posted
        for end in (self.pair.a, self.pair.b):
            assert end.queue.reset() == 0
        self.pair.connect()
        self.fake.knobs.work = 0
        self.fenced = False
        self.postings.clear()

    @invariant()
    def the_books_are_never_ahead(self) -> None:
        if not hasattr(self, "pair"):
            return
        books, seen = self.books, self.fake.seen
        assert books.failed <= books.retired <= books.posted
        assert books.retired <= seen.executed + seen.flushed
        assert books.failed <= seen.flushed + seen.faults
        assert books.posted - books.retired <= DEPTH
        assert seen.most_outstanding <= DEPTH
        assert seen.lost == 0

    def teardown(self) -> None:
        if hasattr(self, "pair"):
            self.here.close()
            self.there.close()
            self.pair.close()


def test_every_request_is_accounted_for_once(fake: Fake):
    class Here(Life):
        pass

    Here.fake = fake
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    Here.TestCase.settings = settings(
        max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=checks
    )
    Here.TestCase().runTest()
