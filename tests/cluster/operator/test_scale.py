"""Tens of pools and hundreds of nodes: results alone. `make soak-scale` is the same with thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.scale import fleet
from tests.cluster.scale.soak import Soak

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.support.supervisor import Supervisor

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]


def test_nothing_is_written_and_reads_do_not_grow_while_nothing_changes(
    fresh_plane: Cluster, processes: Supervisor
) -> None:
    size = fleet.Size(pools=24, nodes=240, interval_s=5, window_s=10)
    figures = Soak(fresh_plane, processes, size).run(idle_s=20)

    assert figures.idle_writes == 0
    first, second = (figures.idle_s * sum(reads.values()) for reads in figures.idle_reads)
    assert second <= first + figures.one_round(), figures.idle_reads
    per_pool = [
        w for reads in figures.idle_reads for w, n in reads.items() if n * figures.idle_s >= figures.pools
    ]
    assert per_pool == [], "a read a pool, though nothing changed"
    assert figures.idle_looks >= 2 * figures.pools, "every pool was looked at"
    assert figures.rss_mib < 400
