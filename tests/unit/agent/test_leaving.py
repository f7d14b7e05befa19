"""A worker that is about to stop waits until nothing uses its memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from hawk_agent.client import AgentClient, leave
from hawk_agent.errors import NotYetError
from hawk_agent.service import engine_memory

from .house import ROWS, House, off, open_cache
from .test_engine_identity import connect

if TYPE_CHECKING:
    from pathlib import Path

SIZES = {"l": 2, "c": 2, "b": 1, "h": 2, "s": 16, "d": 8}
WORKER = {"pool": "default/llama", "worker": "decode-0"}


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment of a worker's container; a second of rest is short here."""
    monkeypatch.setenv("HAWK_POOL", WORKER["pool"])
    monkeypatch.setenv("HAWK_WORKER", WORKER["worker"])
    monkeypatch.setenv("HAWK_AGENT_SOCKET", str(tmp_path / "absent.sock"))
    monkeypatch.setattr(engine_memory, "IDLE_SECONDS", 0.1)


async def test_it_leaves_when_the_last_lease_has_ended(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.agent("npu")
    engine = await house.engine("npu")
    cache = await off(open_cache, engine, "kv", ROWS, SIZES, "decode")
    lease = await off(engine.reserve, "kv", "r-1")
    monkeypatch.setenv("HAWK_AGENT_SOCKET", str(house.folder / "npu.sock"))

    assert await off(leave.main, ["0.3"]) == 1
    leaving = asyncio.create_task(off(leave.main, ["60"]))
    await off(engine.release, lease)
    assert await leaving == 0
    cache.close()


async def test_another_workers_lease_is_not_waited_for(house: House) -> None:
    await house.agent("npu")
    engine = await house.engine("npu")
    cache = await off(open_cache, engine, "kv", ROWS, SIZES, "decode")
    await off(engine.reserve, "kv", "r-1")

    await off(lambda: engine.await_idle(30, worker="decode-1"))
    with pytest.raises(NotYetError, match="what uses decode-0"):
        await off(lambda: engine.await_idle(0.2))
    cache.close()


def test_without_an_agent_there_is_nothing_to_wait_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave.main(["60"]) == 0
    assert "no agent answers" in capsys.readouterr().err


@pytest.mark.parametrize(("token", "refused"), [("right", False), ("other", True), ("tenant", True)])
async def test_who_shows_a_token_asks_about_its_own_pod_alone(
    tmp_path: Path, token: str, refused: bool
) -> None:
    def ask(engine: AgentClient) -> None:
        engine.await_idle(10)

    said = await connect(tmp_path, token, ask)

    assert bool(said) is refused
