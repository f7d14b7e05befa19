"""Which keys can stay: made once for a region, used by every transfer of it.

A key holds absolute addresses. Its stream is addressed from zero, so a key over all tokens of a head serves
any run of tokens by an offset, and with it every request in that memory. What moves a key is a block table:
its pages are others each time. Such keys are kept one for each page of the pool, if a card can hold so
many, or made anew for each message: the same handle takes a new start when it has been invalidated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hawk_agent.plans.keys import DESTINATION, SOURCE

if TYPE_CHECKING:
    from hawk_agent.layouts import Layout, Nest
    from hawk_agent.plans.counts import RequestLimits
    from hawk_agent.plans.keys import KeyPart, KeyPlan

_OCTOWORD = 16


@dataclass(frozen=True, slots=True)
class Keeping:
    """The cost of keeping a plan's keys.

    Attributes:
        source, destination: keys to hold for all transfers of the two regions.
        moving: keys of this transfer that have to be made anew all the same, such as those of ragged ends.
        card_nbytes: translations that the cards hold for the keys that are kept.
        refused: why they can't be kept, or an empty text.
    """

    source: int
    destination: int
    moving: int
    card_nbytes: int
    refused: str

    @property
    def kept(self) -> int:
        """Keys to hold, at both ends."""
        return self.source + self.destination


def keeping(nest: Nest, plan: KeyPlan, limits: RequestLimits) -> Keeping:
    """Make the object that keeps a plan's keys, so that they are made once and not for each transfer."""
    kept, moving, nbytes = [0, 0], 0, 0
    for part in plan.parts:
        for side, layout in ((SOURCE, nest.source), (DESTINATION, nest.destination)):
            key = part.keys[side]
            if key is None:
                continue
            if key != plan.largest.keys[side] or any(piece.entry for piece in key.pieces):
                moving += part.program.runs
                continue
            count = _everywhere(part, side, layout)
            kept[side] += count
            nbytes += count * key.octowords * _OCTOWORD
    refused = ""
    if max(kept) > limits.max_keys:
        refused = f"{max(kept):,} keys to keep; the device is asked to hold {limits.max_keys:,} at most"
    return Keeping(kept[SOURCE], kept[DESTINATION], moving, nbytes, refused)


def _everywhere(part: KeyPart, side: int, layout: Layout) -> int:
    """Keys of one side of a part over the whole region: every page of a pool, or every slot of the batch."""
    table, count, paged = layout.table, 1, False
    for loop in part.program.loops:
        steps = bool(loop.steps[side + 3])
        count *= table.size if table and steps else loop.count
        paged |= steps
    if table is not None:
        return count if paged else count * table.size
    batch = layout.extent("b")
    return count // batch.count * batch.size
