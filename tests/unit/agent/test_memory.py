"""An engine's memory costs its agent nothing: it is there before it is registered, or it is refused."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from hawk_agent.client import allocate_shared
from hawk_agent.errors import BadRequestError, RegionError
from hawk_agent.memory import mapping

from .house import ROWS, House, off

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = os.sysconf("SC_PAGESIZE")
SHAPE = {"l": 2, "c": 2, "b": 1, "h": 2, "s": 16, "d": 64}
NEEDED = 2 * 2 * 2 * 16 * 64 * 2
OWNER = {"pool": "default/llama", "group": "decode", "worker": "w-0"}


@pytest.fixture
def sparse() -> Iterator[int]:
    """A sealed memfd of 64 MiB of which no page exists."""
    descriptor = os.memfd_create("sparse", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, 64 << 20)
    fcntl.fcntl(descriptor, mapping.F_ADD_SEALS, mapping.F_SEAL_SHRINK)
    yield descriptor
    os.close(descriptor)


def pages(descriptor: int) -> int:
    return os.fstat(descriptor).st_blocks * mapping.BLOCK_BYTES // PAGE


def test_the_client_allocates_what_is_there_already() -> None:
    descriptor, memory = allocate_shared("kv", 8 * PAGE)
    there = pages(descriptor)
    memory.close()
    os.close(descriptor)

    assert there == 8


@pytest.mark.parametrize("writable", [True, False])
def test_mapping_touches_nothing(sparse: int, writable: bool) -> None:
    mapping.map_memory(sparse, 64 << 20, writable=writable, label="kv").close()

    assert pages(sparse) == 0


@pytest.mark.parametrize("written", [0, 1, NEEDED // PAGE - 1])
async def test_memory_with_pages_missing_is_refused_and_stays_as_it_was(
    house: House, sparse: int, written: int
) -> None:
    await house.agent("npu")
    engine = await house.engine("npu")
    os.pwrite(sparse, bytes(written * PAGE), 0)
    with pytest.raises(RegionError, match=f"needs {NEEDED} bytes and no page was ever written at byte"):
        await off(engine.register, "kv", sparse, ROWS, SHAPE, "float16", **OWNER)

    assert pages(sparse) == written
    assert os.lseek(sparse, 0, os.SEEK_CUR) == 0
    assert len(house.agents["npu"].regions) == 0


async def test_only_what_the_layout_needs_has_to_be_there_and_is_mapped(house: House, sparse: int) -> None:
    await house.agent("npu")
    engine = await house.engine("npu")
    os.pwrite(sparse, bytes(NEEDED), 0)
    await off(engine.register, "kv", sparse, ROWS, SHAPE, "float16", **OWNER)

    assert house.region("npu").nbytes == NEEDED
    assert pages(sparse) == NEEDED // PAGE


async def test_pages_that_are_allocated_and_unwritten_are_paid_for(house: House) -> None:
    await house.agent("npu")
    engine = await house.engine("npu")
    descriptor = os.memfd_create("reserved", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.posix_fallocate(descriptor, 0, NEEDED)
    await off(engine.register, "kv", descriptor, ROWS, SHAPE, "float16", **OWNER)
    os.close(descriptor)

    assert len(house.agents["npu"].regions) == 1


async def test_two_workers_of_one_image_use_one_name(house: House) -> None:
    await house.agent("npu")
    for worker in ("w-0", "w-1"):
        engine = await house.engine("npu")
        descriptor, memory = allocate_shared(worker, NEEDED)
        await off(engine.register, "kv", descriptor, ROWS, SHAPE, "float16", **OWNER | {"worker": worker})
        memory.close()
        os.close(descriptor)
    again = await house.engine("npu")
    descriptor, memory = allocate_shared("again", NEEDED)
    with pytest.raises(RegionError, match="region kv of worker w-1 in pool default/llama is registered"):
        await off(again.register, "kv", descriptor, ROWS, SHAPE, "float16", **OWNER | {"worker": "w-1"})
    with pytest.raises(RegionError, match="this engine has registered no region kv; its regions: none"):
        await off(again.reserve, "kv", "r1")
    memory.close()
    os.close(descriptor)

    assert {region.worker for region in house.agents["npu"].regions} == {"w-0", "w-1"}


async def test_a_worker_is_known_by_its_environment(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.agent("npu")
    engine = await house.engine("npu")
    descriptor, memory = allocate_shared("kv", NEEDED)
    with pytest.raises(BadRequestError, match="pool is not known: pass it, or set HAWK_POOL"):
        await off(engine.register, "kv", descriptor, ROWS, SHAPE, "float16")
    for name, value in {"POOL": "default/llama", "GROUP": "decode", "WORKER": "llama-decode-x"}.items():
        monkeypatch.setenv(f"HAWK_{name}", value)
    await off(engine.register, "kv", descriptor, ROWS, SHAPE, "float16")
    memory.close()
    os.close(descriptor)

    region = house.region("npu")
    assert (region.pool, region.group, region.worker) == ("default/llama", "decode", "llama-decode-x")
