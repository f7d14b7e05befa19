"""Which blocks of a region are held by which lease. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_agent.errors import BlocksBusyError

if TYPE_CHECKING:
    from collections.abc import Iterable

WHOLE = -1
"""The one block of a region whose layout has no block table."""


class Blocks:
    """Blocks spoken for. A block belongs to at most one lease, from the claim until its access has ended."""

    def __init__(self) -> None:
        self._holder: dict[int, int] = {}
        self._held: dict[int, tuple[int, ...]] = {}

    def claim(self, lease: int, blocks: Iterable[int]) -> None:
        """All or none. BlocksBusyError names the first that another lease holds."""
        wanted = tuple(dict.fromkeys(blocks))
        for block in wanted:
            if block in self._holder:
                what = "the region" if block == WHOLE else f"block {block}"
                raise BlocksBusyError(
                    f"{what} is held by lease {self._holder[block]} until remote access to it has ended; "
                    "acknowledge or release that lease first"
                )
        self._held[lease] = wanted
        self._holder.update(dict.fromkeys(wanted, lease))

    def free(self, lease: int) -> int:
        """Give a lease's blocks back; returns how many. Again is fine."""
        blocks = self._held.pop(lease, ())
        for block in blocks:
            del self._holder[block]
        return len(blocks)

    def __len__(self) -> int:
        return len(self._holder)
