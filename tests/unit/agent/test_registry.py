"""Which transports there are: the installed ones, those of other packages, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hawk_agent.errors import BadRequestError
from hawk_agent.service.links import LinkState
from hawk_agent.service.settings import PeerAddress
from hawk_agent.transports.registry import TransportRegistry
from tests.support.mock_transport import MockTransport
from tests.unit.agent.house import House, eventually, transfer_all

if TYPE_CHECKING:
    from pathlib import Path

TOY = """
from tests.support.mock_transport import MockTransport

class Pigeon(MockTransport):
    name = "pigeon"

ONE = Pigeon()

def make(context):
    return ONE
"""


MOCK = """
from tests.support.mock_transport import MockTransport

def make(context):
    return MockTransport()
"""


def install(folder: Path, name: str, points: str, module: str = "") -> None:
    """A distribution as pip leaves it: its metadata beside its module."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[hawkpool.transports]\n{points}\n")
    (folder / f"{name}.py").write_text(module)


async def test_a_transport_of_another_package_carries_a_transfer(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "pigeons", "pigeon = pigeons:make", TOY)
    monkeypatch.syspath_prepend(tmp_path)

    source, destination = await house.pair("pigeon")
    sent, _ = await transfer_all(source, destination)

    assert sent.transport == "pigeon"


async def test_a_transport_of_one_host_is_not_used_between_two(house: House) -> None:
    path = MockTransport()
    path.same_host_only = True  # type: ignore[misc]
    await house.agent("gpu", path.registry(), transports=("mock",), host_id="one")
    await house.agent("npu", path.registry(), transports=("mock",), host_id="other")

    links = house.agents["gpu"].links
    links.wire([PeerAddress(house.agents["npu"].address, "npu")])
    refusal = "no data path in common: npu has mock, this agent has mock; mock works within one machine only"
    await eventually(lambda: refusal in str(links.facts()[0].problem))

    assert links.facts()[0].state is LinkState.UP


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ("pigeon = nowhere:make", "transport 'pigeon' can't be loaded from nowhere:make"),
        ("pigeon = birds:absent", "transport 'pigeon' can't be loaded from birds:absent"),
        ("pigeon = birds:make", "transport 'pigeon' calls itself 'mock'"),
    ],
)
async def test_a_wrong_entry_point_is_refused_by_its_name(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: str, message: str
) -> None:
    install(tmp_path, "birds", points, MOCK)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(BadRequestError, match=message):
        await house.agent("gpu", transports=("pigeon",))


def test_one_name_of_two_packages_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "mine", "tcp = mine:make")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(BadRequestError, match="'tcp' is declared by several installed packages"):
        TransportRegistry()
