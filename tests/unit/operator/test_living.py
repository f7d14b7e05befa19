"""Who lives by the Leases, on a clock that the test moves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hawk_kube.errors import UnavailableError
from hawk_operator.cache.cluster_cache import ClusterCache
from hawk_operator.runtime.settings import OperatorSettings

START = 1_800_000_000.0


class World:
    """One agent's Lease behind an API server that may be away."""

    def __init__(self) -> None:
        self.now = START
        self.renewed = START
        self.away = False
        self.lists = 0
        access: Any = SimpleNamespace(usable=lambda verb, kind, namespace="": True)
        api: Any = SimpleNamespace(pages=self.pages)
        self.cache = ClusterCache(
            api, access, OperatorSettings(), clock=lambda: self.now, wall=lambda: self.now
        )

    def pages(self, kind: object, namespace: str | None = None, labels: object = None) -> Any:
        self.lists += 1
        if self.away:
            raise UnavailableError("away")
        spec = {"holderIdentity": "n-1", "renewTime": f"t{self.renewed}", "leaseDurationSeconds": 40}
        yield "1", [{"metadata": {"name": "n"}, "spec": spec}]

    def run(self, seconds: float, *, renewing: bool = True, away: bool = False) -> None:
        """Let time pass, with a look every three seconds."""
        self.away = away
        for _ in range(round(seconds / 3)):
            self.now += 3
            if renewing and not away:
                self.renewed = self.now - self.now % 10
            try:
                self.cache.refresh_living()
            except UnavailableError:
                continue

    def lives(self) -> bool:
        return "n" in self.cache.living()


@pytest.fixture
def world() -> World:
    made = World()
    made.run(30)
    assert made.lives()
    return made


def test_an_agent_that_stops_renewing_is_lost_when_its_lease_has_run_out(world: World) -> None:
    world.run(36, renewing=False)
    assert world.lives()
    world.run(18, renewing=False)
    assert not world.lives()
    world.run(12)
    assert world.lives(), "and is back when it renews"


def test_while_the_api_server_is_away_nobody_is_lost(world: World) -> None:
    world.run(600, away=True)
    assert world.lives()
    world.run(12, renewing=False)  # it is back, and the agent is still waiting for its next try
    assert world.lives()
    world.run(60, renewing=False)
    assert not world.lives()


def test_reading_who_lives_asks_for_nothing(world: World) -> None:
    asked = world.lists
    world.now += 3600
    assert world.lives()
    assert world.lists == asked
