"""The lease as a state machine: in whatever order things happen, one outcome, blocks after access."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hawk_agent.errors import BadRequestError
from hawk_agent.streaming import lease as leases
from hawk_agent.streaming.lease import LeaseState, LeaseTerms
from hawk_agent.transfer.outcome import TransferOutcome, outcome_from_wire

FAILURES = [outcome for outcome in TransferOutcome if outcome is not TransferOutcome.SUCCESS]


class LeaseMachine(RuleBasedStateMachine):
    """Any events in any order, compared with what a careful reader of the rules would keep."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.terms = LeaseTerms(grant=5, stall=2, grace=0.5, max_grace=3)
        self.lease = leases.grant(self.terms, self.now)
        self.writer = False
        self.complete = False
        self.outcome: TransferOutcome | None = None

    @rule(seconds=st.floats(0, 4))
    def time_goes_by(self, seconds: float) -> None:
        self.now += seconds

    @rule(seconds=st.floats(0.5, 100))
    def the_agent_stands_still(self, seconds: float) -> None:
        left, timed = (
            self.lease.deadline - self.now,
            self.lease.state in {LeaseState.GRANTED, LeaseState.WRITING},
        )
        self.now += seconds
        self.lease = leases.excuse(self.lease, seconds)
        if timed:
            assert self.lease.deadline - self.now == pytest.approx(left), "its own silence is nobody else's"

    @rule()
    def begin(self) -> None:
        if self.lease.state is LeaseState.GRANTED:
            self.lease = leases.begin(self.lease, self.now)
            self.writer = True
        else:
            with pytest.raises(BadRequestError):
                leases.begin(self.lease, self.now)

    @rule()
    def beat(self) -> None:
        self.lease = leases.beat(self.lease, self.now)

    @rule()
    def finish(self) -> None:
        if self.lease.state is LeaseState.WRITING:
            self.writer, self.complete = False, True
        self.lease = leases.finish(self.lease, self.now)

    @rule()
    def acknowledge(self) -> None:
        if self.lease.state in {LeaseState.COMPLETE, LeaseState.ACKNOWLEDGED}:
            self.lease = leases.acknowledge(self.lease)
            self.outcome = TransferOutcome.SUCCESS
        else:
            with pytest.raises(BadRequestError):
                leases.acknowledge(self.lease)

    @rule(outcome=st.sampled_from(FAILURES))
    def end(self, outcome: TransferOutcome) -> None:
        self.lease = leases.end(self.lease, outcome)
        self.outcome = self.outcome or outcome

    @rule()
    def extend(self) -> None:
        self.lease = leases.extend(self.lease, self.now)
        self.outcome = self.outcome or self.lease.outcome

    @rule()
    def tick(self) -> None:
        self.lease = leases.tick(self.lease, self.now)
        self.outcome = self.outcome or self.lease.outcome

    @precondition(lambda self: self.lease.state.ended)
    @rule()
    def writer_stops(self) -> None:
        self.lease = leases.access_ended(self.lease)
        self.writer = False

    @invariant()
    def one_outcome(self) -> None:
        assert self.lease.outcome is self.outcome
        assert self.lease.state.ended == (self.outcome is not None)

    @invariant()
    def success_only_after_every_byte(self) -> None:
        assert self.outcome is not TransferOutcome.SUCCESS or self.complete

    @invariant()
    def blocks_are_reused_only_after_access_has_ended(self) -> None:
        assert self.lease.reusable == (self.outcome is not None and not self.writer)

    @invariant()
    def grace_has_an_end(self) -> None:
        if self.lease.state is LeaseState.COMPLETE:
            assert self.lease.complete_at is not None
            assert self.lease.deadline <= self.lease.complete_at + self.terms.max_grace + 1e-9


TestLease = LeaseMachine.TestCase
TestLease.settings = settings(max_examples=40, stateful_step_count=30)


def test_no_outcome_but_success_is_success() -> None:
    assert [outcome for outcome in TransferOutcome if outcome.ok] == [TransferOutcome.SUCCESS]
    assert all(outcome.meaning for outcome in TransferOutcome)
    assert not TransferOutcome.SUCCESS.may_resend


@given(number=st.integers(-5, 200))
def test_a_number_that_nobody_knows_is_never_a_success(number: int) -> None:
    assert outcome_from_wire(number).ok == (number == TransferOutcome.SUCCESS)


@pytest.mark.parametrize("outcome", FAILURES)
@pytest.mark.parametrize("state", [LeaseState.GRANTED, LeaseState.WRITING, LeaseState.COMPLETE])
def test_every_failure_ends_a_lease_for_good(outcome: TransferOutcome, state: LeaseState) -> None:
    lease = leases.grant(LeaseTerms(), 0.0)
    if state is not LeaseState.GRANTED:
        lease = leases.begin(lease, 0.0)
    if state is LeaseState.COMPLETE:
        lease = leases.finish(lease, 0.0)
    ended = leases.end(lease, outcome)

    assert ended.outcome is outcome
    assert ended.state not in {LeaseState.ACKNOWLEDGED, LeaseState.COMPLETE}
    assert leases.finish(ended, 1.0) == ended
    assert leases.extend(ended, 1.0) == ended
    with pytest.raises(BadRequestError, match=f"can't be acknowledged: {outcome.meaning}"):
        leases.acknowledge(ended)


def test_an_acknowledged_lease_is_a_success_and_its_blocks_are_free() -> None:
    complete = leases.finish(leases.begin(leases.grant(LeaseTerms(), 0.0), 0.0), 0.0)
    done = leases.acknowledge(complete)

    assert not complete.reusable
    assert (done.state, done.outcome, done.reusable) == (
        LeaseState.ACKNOWLEDGED,
        TransferOutcome.SUCCESS,
        True,
    )
    assert leases.acknowledge(done) == done
    assert leases.end(done, TransferOutcome.FENCED) == done
    assert leases.tick(done, 1000.0) == done
    assert leases.access_ended(done) == done


def test_a_success_can_not_be_claimed_by_an_end() -> None:
    with pytest.raises(ValueError, match="by acknowledgement only"):
        leases.end(leases.grant(LeaseTerms(), 0.0), TransferOutcome.SUCCESS)


def test_what_time_alone_ends_says_which_limit_it_was() -> None:
    granted = leases.grant(LeaseTerms(grant=5), 0.0)
    writing = leases.begin(granted, 0.0)
    complete = leases.finish(writing, 0.0)

    assert leases.tick(granted, 5.0).outcome is TransferOutcome.EXPIRED
    assert leases.tick(writing, 10.0).outcome is TransferOutcome.TIMED_OUT
    assert leases.tick(leases.beat(writing, 9.0), 10.0).outcome is None
    assert leases.tick(complete, 29.9).outcome is None
    assert "maxGrace, 30 s" in leases.tick(complete, 30.0).message


def test_graces_are_counted_and_end_at_the_maximum() -> None:
    lease = leases.finish(leases.begin(leases.grant(LeaseTerms(grace=1, max_grace=2.5), 0.0), 0.0), 0.0)
    extensions = []
    for now in (1.0, 2.0, 2.5):
        lease = leases.extend(lease, now)
        extensions.append((lease.extensions, lease.outcome))

    assert extensions == [(1, None), (2, None), (2, TransferOutcome.EXPIRED)]


def test_a_grace_longer_than_its_maximum_is_refused_with_both() -> None:
    with pytest.raises(BadRequestError, match=r"grace 5 s .* maxGrace, 2 s"):
        LeaseTerms(grace=5, max_grace=2)


def test_a_refusal_says_where_the_lease_is() -> None:
    granted = leases.grant(LeaseTerms(), 0.0)
    writing = leases.begin(granted, 0.0)
    complete = leases.finish(writing, 0.0)
    at = {
        "writing": writing,
        "complete": complete,
        "acknowledged": leases.acknowledge(complete),
        "expired": leases.end(granted, TransferOutcome.EXPIRED),
        "aborted": leases.end(granted, TransferOutcome.ABORTED_BY_SENDER),
        "fenced": leases.end(granted, TransferOutcome.FENCED),
    }
    for word, lease in at.items():
        with pytest.raises(BadRequestError, match=f"is {word}, not granted"):
            leases.begin(lease, 0.0)
    with pytest.raises(BadRequestError, match=r"is granted and .* wait for the last layer"):
        leases.acknowledge(granted)


@pytest.mark.parametrize("outcome", FAILURES)
def test_a_lost_or_fenced_peer_fences_and_what_expires_is_expired(outcome: TransferOutcome) -> None:
    fenced = {TransferOutcome.PEER_LOST, TransferOutcome.FENCED}
    expected = LeaseState.FENCED if outcome in fenced else LeaseState.ABORTED
    expected = LeaseState.EXPIRED if outcome is TransferOutcome.EXPIRED else expected

    assert leases.end(leases.grant(LeaseTerms(), 0.0), outcome).state is expected


@pytest.mark.parametrize("state", [LeaseState.GRANTED, LeaseState.WRITING, LeaseState.COMPLETE])
def test_only_the_word_of_a_writer_that_stopped_frees_the_blocks_of_a_lease_that_ended(
    state: LeaseState,
) -> None:
    lease = leases.grant(LeaseTerms(), 0.0)
    if state is not LeaseState.GRANTED:
        lease = leases.begin(lease, 0.0)
    if state is LeaseState.COMPLETE:
        lease = leases.finish(lease, 0.0)
    with pytest.raises(ValueError, match=f"is {state.value} ends by"):
        leases.access_ended(lease)
    assert not lease.reusable
    ended = leases.end(lease, TransferOutcome.TRANSPORT_FAILED)

    assert ended.reusable == (state is not LeaseState.WRITING)
    assert leases.access_ended(ended).reusable


def test_an_end_says_why() -> None:
    granted = leases.grant(LeaseTerms(grant=5, stall=3), 0.0)

    assert granted.message == ""
    assert leases.end(granted, TransferOutcome.FENCED).message == TransferOutcome.FENCED.meaning
    assert leases.end(granted, TransferOutcome.FENCED, "its node went").message == "its node went"
    assert "within 5 s" in leases.tick(granted, 5.0).message
    assert "for 3 s" in leases.tick(leases.begin(granted, 0.0), 3.0).message
    complete = leases.finish(leases.begin(granted, 0.0), 0.0)
    assert "maxGrace, 30 s" in leases.extend(complete, 30.0).message


TIMES = st.floats(0, 100).map(lambda seconds: round(seconds, 3))


@given(start=TIMES, now=TIMES)
def test_each_state_has_its_own_limit(start: float, now: float) -> None:
    terms = LeaseTerms(grant=5, stall=2, grace=0.5, max_grace=3)
    granted = leases.grant(terms, start)
    writing = leases.begin(granted, start)
    complete = leases.finish(writing, start)

    for lease, limit in ((granted, start + 5), (writing, start + 2), (complete, start + 0.5)):
        assert lease.deadline == limit
        assert leases.due(lease, now) == (now >= limit)
        assert not leases.due(leases.end(lease, TransferOutcome.FENCED), now)
    assert leases.beat(writing, now).deadline == now + 2
    assert leases.beat(granted, now) == granted
    assert leases.beat(complete, now) == complete
    assert leases.finish(granted, now) == granted


@given(seconds=st.floats(0, 9), slack=st.sampled_from([0.0, 1.0, 5.0]))
def test_a_complete_lease_is_held_for_its_grace_and_the_slack(seconds: float, slack: float) -> None:
    terms = LeaseTerms(grant=5, stall=2, grace=0.5, max_grace=3)
    complete = leases.finish(leases.begin(leases.grant(terms, 0.0), 0.0), 10.0)
    ticked = leases.tick(complete, 10.0 + seconds, slack)

    assert ticked.outcome is (TransferOutcome.EXPIRED if 10.0 + seconds >= 13.0 + slack else None)


@given(asked=st.lists(st.floats(0, 1), max_size=12))
def test_a_grace_is_never_extended_beyond_its_maximum(asked: list[float]) -> None:
    lease = leases.finish(leases.begin(leases.grant(LeaseTerms(grace=1, max_grace=3), 0.0), 0.0), 10.0)
    now = 10.0
    for count, seconds in enumerate(asked, start=1):
        now += seconds
        lease = leases.extend(lease, now)
        if now >= 13.0:
            assert lease.outcome is TransferOutcome.EXPIRED
            return
        assert lease.deadline == min(now + 1, 13.0)
        assert lease.extensions == count


@pytest.mark.parametrize("state", [LeaseState.GRANTED, LeaseState.WRITING])
def test_only_a_complete_lease_is_extended(state: LeaseState) -> None:
    lease = leases.grant(LeaseTerms(), 0.0)
    lease = leases.begin(lease, 0.0) if state is LeaseState.WRITING else lease

    assert leases.extend(lease, 1000.0) == lease


def test_a_grace_may_be_its_maximum_and_is_above_zero() -> None:
    assert LeaseTerms(grace=2, max_grace=2).grace == 2
    with pytest.raises(BadRequestError, match="must be above 0"):
        LeaseTerms(grace=0)
