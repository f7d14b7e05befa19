"""Draft here, verify there: rounds of proposals, one verification each, and feedback.

The bytes of a round are tiny; start-up, synchronisation and the drafter's own steps decide.
A round of `k` drafts emits the accepted ones and one token of the target's own.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import checks

__all__ = [
    "MessageBytes",
    "Round",
    "RoundTimes",
    "acceptance_from_mean",
    "accepted_tokens",
    "best_draft_length",
    "break_even_acceptance",
    "message_bytes",
    "price_round",
]

TOKEN_ID_BYTES = 4


@dataclass(frozen=True)
class MessageBytes:
    """The messages of one round: candidates out, the verdict back, and feature vectors where drafters use
    them."""

    proposal_bytes: int
    response_bytes: int
    feature_bytes: float


def message_bytes(
    draft_tokens: int, hidden_size: int, feature_vectors: int = 0, element_bytes: float = 2
) -> MessageBytes:
    """Return the bytes of a round: int32 candidates; a greedy response of a count and one token."""
    checks.whole("draft tokens", draft_tokens)
    checks.whole("feature vectors", feature_vectors, least=0)
    checks.whole("hidden size", hidden_size)
    return MessageBytes(
        proposal_bytes=TOKEN_ID_BYTES * draft_tokens,
        response_bytes=2 * TOKEN_ID_BYTES,
        feature_bytes=feature_vectors * hidden_size * checks.positive("element bytes", element_bytes),
    )


@dataclass(frozen=True)
class Round:
    """One draft and verify round; times in seconds."""

    draft_tokens: int
    acceptance: float
    """Chance that a draft is accepted given that those before it were, 0 to 1."""
    draft_seconds_per_token: float
    verify_seconds: float
    """One target step over the drafts and the token before them."""
    target_seconds_per_token: float
    """One plain target step: what a token costs without drafting."""
    message_seconds: float = 0.0
    """Both messages and the features, bytes included."""
    synchronisation_seconds: float = 0.0
    """Fixed start-up and waiting of a round on both devices."""
    draft_overlap: float = 0.0
    """Share of the drafting done while the target verifies the round before, 0 to 1."""


@dataclass(frozen=True)
class RoundTimes:
    """The tokens that a round emits, and its time."""

    tokens: float
    round_seconds: float
    seconds_per_token: float
    speedup: float
    """Plain target time over drafted time for the same tokens: above 1 drafting pays."""
    break_even_acceptance: float | None


def accepted_tokens(acceptance: float, draft_tokens: int) -> float:
    """Return the mean accepted drafts of `draft_tokens`: a + a² + … + a^k."""
    checks.share("acceptance", acceptance)
    power, total = 1.0, 0.0
    for _ in range(draft_tokens):
        power *= acceptance
        total += power
    return total


def _round_seconds(round_: Round) -> float:
    drafting = round_.draft_tokens * round_.draft_seconds_per_token
    hidden = min(drafting * round_.draft_overlap, round_.verify_seconds)
    return drafting - hidden + round_.verify_seconds + round_.message_seconds + round_.synchronisation_seconds


def price_round(round_: Round) -> RoundTimes:
    """Return tokens, time and speed-up of a round; raises InputError for an impossible input."""
    checks.whole("draft tokens", round_.draft_tokens)
    checks.at_least("draft time per token", round_.draft_seconds_per_token)
    checks.positive("verification time", round_.verify_seconds)
    checks.positive("target time per token", round_.target_seconds_per_token)
    checks.at_least("message time", round_.message_seconds)
    checks.at_least("synchronisation time", round_.synchronisation_seconds)
    checks.share("draft overlap", round_.draft_overlap)
    tokens = 1 + accepted_tokens(round_.acceptance, round_.draft_tokens)
    seconds = _round_seconds(round_)
    return RoundTimes(
        tokens=tokens,
        round_seconds=seconds,
        seconds_per_token=seconds / tokens,
        speedup=tokens * round_.target_seconds_per_token / seconds,
        break_even_acceptance=break_even_acceptance(round_),
    )


def break_even_acceptance(round_: Round) -> float | None:
    """Return the acceptance at which a round takes what its tokens take undrafted; None if above 1."""
    needed = _round_seconds(round_) / round_.target_seconds_per_token - 1
    if needed <= 0:
        return 0.0
    return _invert(needed, round_.draft_tokens)


def _invert(mean: float, draft_tokens: int) -> float | None:
    """Return the acceptance whose mean accepted count is `mean`, by bisection; None when above all drafts."""
    if mean > draft_tokens:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if accepted_tokens(middle, draft_tokens) < mean:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def acceptance_from_mean(accepted: float, draft_tokens: int) -> float:
    """Return the chance a draft is accepted that gives `accepted` of `draft_tokens` on average."""
    checks.whole("draft tokens", draft_tokens)
    checks.at_least("accepted tokens", accepted)
    found = _invert(accepted, draft_tokens)
    if found is None:
        raise checks.InputError(
            "accepted tokens", f"{accepted:g} is above the {draft_tokens} drafted", "give at most the drafts"
        )
    return found


def best_draft_length(round_: Round, *, longest: int = 8, verify_seconds_per_draft: float = 0.0) -> int:
    """Return the draft length, 0 to `longest`, with the least time a token; 0 means: don't draft.

    `round_` gives the acceptance and the costs; its own length is ignored.
    `verify_seconds_per_draft` is what each more draft adds to a verification that reads the same weights.
    """
    checks.whole("longest draft", longest)
    best, least = 0, round_.target_seconds_per_token
    for length in range(1, longest + 1):
        trial = Round(
            draft_tokens=length,
            acceptance=round_.acceptance,
            draft_seconds_per_token=round_.draft_seconds_per_token,
            verify_seconds=round_.verify_seconds + length * verify_seconds_per_draft,
            target_seconds_per_token=round_.target_seconds_per_token,
            message_seconds=round_.message_seconds,
            synchronisation_seconds=round_.synchronisation_seconds,
            draft_overlap=round_.draft_overlap,
        )
        seconds = _round_seconds(trial) / (1 + accepted_tokens(trial.acceptance, length))
        if seconds < least:
            best, least = length, seconds
    return best
