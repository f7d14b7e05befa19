"""Which key-value heads each tensor-parallel rank holds, and who sends them to whom.

Counts are the model's own, never a rank's: with more ranks than heads every head is kept by several
ranks, and one of them is as good as another. Each destination rank gets each of its heads exactly
once, and the copies of a head are asked in turn, so that no rank sends more than its share.
"""

from dataclasses import dataclass

from hawk_agent.layouts.errors import LayoutError


@dataclass(frozen=True, slots=True)
class HeadExchange:
    """Heads that one source rank sends to one destination rank.

    The windows are [start, stop) in the ranks' own head axes: narrow both layouts by them.
    """

    source_rank: int
    destination_rank: int
    heads: tuple[int, int]
    source: tuple[int, int]
    destination: tuple[int, int]


def heads_of_rank(heads: int, ranks: int, rank: int) -> tuple[int, int]:
    """The model's heads [start, stop) that a rank keeps.

    Raises:
        LayoutError: neither count divides the other, or there is no such rank.
    """
    _check(heads, ranks)
    if not 0 <= rank < ranks:
        raise LayoutError(f"rank: {rank} of {ranks}; give one in 0..{ranks - 1}")
    if ranks >= heads:
        head = rank // (ranks // heads)
        return head, head + 1
    each = heads // ranks
    return rank * each, (rank + 1) * each


def head_exchanges(heads: int, source_ranks: int, destination_ranks: int) -> list[HeadExchange]:
    """Every exchange that fills all destination ranks, by destination rank and head.

    Raises:
        LayoutError: a number of ranks that neither divides the heads nor is a multiple of them.
    """
    _check(heads, source_ranks)
    copies = max(1, source_ranks // heads)
    each = max(1, heads // source_ranks)
    found = []
    for rank in range(destination_ranks):
        start, stop = heads_of_rank(heads, destination_ranks, rank)
        at = start
        while at < stop:
            group = at // each
            end = min(stop, (group + 1) * each)
            sender = group * copies + rank % copies
            first = heads_of_rank(heads, source_ranks, sender)[0]
            found.append(
                HeadExchange(sender, rank, (at, end), (at - first, end - first), (at - start, end - start))
            )
            at = end
    return found


def _check(heads: int, ranks: int) -> None:
    if heads < 1 or ranks < 1 or (heads % ranks and ranks % heads):
        raise LayoutError(
            f"parallelism.tensor: {ranks} ranks for {heads} key-value heads; "
            "choose a number of ranks that divides the heads, or a multiple of them"
        )
