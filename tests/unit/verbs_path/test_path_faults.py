"""Random faults over the model: success with the right bytes or a typed error, and nothing left open."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from hawk_agent.transports.verbs.fence import FenceKind
from tests.rdma import path
from tests.rdma.test_path_faults import BRIEF, ROWS, TILES, Stage

if TYPE_CHECKING:
    from tests.rdma.conftest import Port
    from tests.unit.verbs.fake import Fake


@pytest.mark.parametrize("seed", range(4))
async def test_faults_end_in_success_or_a_typed_error(model: Fake, rxa: Port, rxb: Port, seed: int) -> None:
    rails = [rxa.device, rxb.device]
    with path.region(ROWS, seed=1) as source, path.region(TILES, spare=512) as destination:
        async with path.pair(rails, rails[::-1], fence=FenceKind.QUEUE_PAIR, timeouts=BRIEF) as pair:
            stage = Stage(pair, source, destination, random.Random(seed))
            before = model.seen.open
            ends = {await stage.play() for _ in range(25)}
            rings = 2 * len(rails)

            assert before <= model.seen.open <= before + rings
            assert "nothing: success" in ends
            assert "both_in_error: success" in ends
            assert any(not end.endswith("success") for end in ends)
