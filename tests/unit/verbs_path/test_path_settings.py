"""How an agent is told of RDMA, and what it says where there is none."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from hawk_agent.errors import TransportError
from hawk_agent.service.settings import AgentSettings
from hawk_agent.transports.verbs.strategy import VerbsStrategy
from hawk_api.settings import SettingsError
from tests.unit.agent.house import House, house

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BASE = ["--node", "a", "--insecure", "--no-kube", "--listen", "127.0.0.1:0"]


@pytest.fixture
async def home() -> AsyncIterator[House]:
    with TemporaryDirectory(prefix="hawk-") as folder:
        async with house(Path(folder)) as built:
            yield built


def test_options_become_settings() -> None:
    words = ["--transports", "verbs,tcp", "--rdma-device", "mlx5_0,mlx5_1:2", "--rdma-gid-index", "3"]
    made = AgentSettings.read([*BASE, *words, "--rails", "2", "--strategy", "tile-then-send"])

    assert made.transports == ("verbs", "tcp")
    assert made.rdma_device == ("mlx5_0", "mlx5_1:2")
    assert (made.rdma_gid_index, made.rails, made.strategy) == (3, 2, "tile-then-send")


def test_without_options_every_port_is_a_rail_and_the_cost_model_decides() -> None:
    made = AgentSettings.read(BASE)

    assert (made.rdma_device, made.rdma_gid_index, made.rails, made.strategy) == ((), None, 0, "auto")


def test_every_strategy_can_be_asked_for() -> None:
    for way in VerbsStrategy:
        assert AgentSettings.read([*BASE, "--strategy", way.value]).strategy == way.value


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--strategy", "magic", "'magic' is not allowed; use auto, gather-writes, contiguous"),
        ("--rails", "17", "'17' is not allowed; use a whole number, 0 to 16"),
        ("--rdma-gid-index", "-1", "'-1' is not allowed; use a whole number, 0 to 255"),
    ],
)
def test_options_that_cannot_be_right_are_refused_by_name(option: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError, match=f"{option}: {message}"):
        AgentSettings.read([*BASE, f"{option}={value}"])


async def test_a_path_that_is_not_there_is_said_and_the_next_allowed_one_serves(home: House) -> None:
    agent = await home.agent("a", transports=("verbs", "tcp"), rdma_device=("none0",))

    assert list(agent.transports) == list(agent.identity.transports) == ["tcp"]
    assert "none0 can't be used" in agent.unused["verbs"] or "libibverbs" in agent.unused["verbs"]


async def test_where_no_other_path_is_allowed_the_agent_does_not_start(home: House) -> None:
    with pytest.raises(TransportError, match="no data path: "):
        await home.agent("a", transports=("verbs",), rdma_device=("none0",))
