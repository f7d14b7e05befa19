"""The engines' socket: what is wrong is said at once, and stays with the connection that said it."""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hawk_agent.client import AgentClient, allocate_shared
from hawk_agent.client.connection import refuse_stranger
from hawk_agent.errors import (
    AgentUnavailableError,
    BadRequestError,
    BlocksBusyError,
    LayoutMismatchError,
    RegionError,
    SocketInUseError,
    UnknownLeaseError,
    VersionMismatchError,
)
from hawk_agent.protocol import engine_pb2, framing
from tests.unit.agent.house import GEOMETRY, PAGES, ROWS, TILE, TILES, House, eventually, off

if TYPE_CHECKING:
    from hawk_agent.client.connection import Connection

SHAPE = {"l": 2, "c": 2, "b": 1, "h": 2, "s": 16, "d": 8}
OWNER = {"pool": "default/llama", "group": "decode", "worker": "w-0"}


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def talk(path: Path, data: bytes, fds: list[int] | None = None) -> engine_pb2.Reply | None:
    """Say something raw; the reply, or None when the agent only closes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(10)
        client.connect(str(path))
        socket.send_fds(client, [data], fds or [])
        decoder = framing.Decoder()
        while received := client.recv(65536):
            for frame in decoder.feed(received):
                return engine_pb2.Reply.FromString(frame)
    return None


@pytest.mark.parametrize(("user", "owner"), [(0, 0), (0, 1000), (1000, 1000)])
def test_the_client_talks_to_root_and_to_the_owner_of_the_sockets_folder(user: int, owner: int) -> None:
    refuse_stranger(user, owner, Path("/run/hawk/agent.sock"))


def test_the_client_shows_no_token_to_anybody_else() -> None:
    with pytest.raises(
        AgentUnavailableError, match=r"user 1001 listens at /run/hawk/agent.sock, whose folder"
    ):
        refuse_stranger(1001, 1000, Path("/run/hawk/agent.sock"))


async def test_a_descriptor_that_is_too_small_is_refused_with_both_sizes(house: House) -> None:
    await house.agent("npu")
    engine = await house.engine("npu")
    descriptor, memory = allocate_shared("small", 100)
    with pytest.raises(
        RegionError, match=r"region kv: the descriptor holds 100 bytes, its layout needs 2048"
    ):
        await off(engine.register, "kv", descriptor, ROWS, SHAPE, "float16", **OWNER)
    memory.close()
    os.close(descriptor)

    assert len(house.agents["npu"].regions) == 0


async def test_memory_that_could_shrink_or_is_none_is_refused(house: House, tmp_path: Path) -> None:
    await house.agent("npu")
    engine = await house.engine("npu")
    with (tmp_path / "file").open("w+b") as file:
        file.truncate(4096)
        with pytest.raises(RegionError, match="can't be sealed against shrinking"):
            await off(engine.register, "kv", file.fileno(), ROWS, SHAPE, "float16", **OWNER)
    event = os.eventfd(0)
    with pytest.raises(RegionError, match="is no memory"):
        await off(engine.register, "kv", event, ROWS, SHAPE, "float16", **OWNER)
    os.close(event)


async def test_memory_without_the_seal_gets_it(house: House) -> None:
    await house.agent("npu")
    engine = await house.engine("npu")
    descriptor = os.memfd_create("open", os.MFD_ALLOW_SEALING)
    os.posix_fallocate(descriptor, 0, 4096)
    await off(engine.register, "kv", descriptor, ROWS, SHAPE, "float16", **OWNER)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    os.close(descriptor)


async def test_an_unreadable_layout_a_taken_name_and_a_foreign_region_are_refused(house: House) -> None:
    await house.agent("npu")
    engine, other = await house.engine("npu"), await house.engine("npu")
    await house.cache(engine, "kv", ROWS, SHAPE, "decode")
    descriptor, memory = allocate_shared("more", 4096)
    with pytest.raises(LayoutMismatchError, match="unknown axis 'q'"):
        await off(engine.register, "x", descriptor, "q s d", SHAPE, "float16", **OWNER)
    taken = OWNER | {"worker": house.region("npu").worker}
    for one in (engine, other):
        with pytest.raises(RegionError, match="registered already"):
            await off(one.register, "kv", descriptor, ROWS, SHAPE, "float16", **taken)
    with pytest.raises(RegionError, match="this engine has registered no region kv; its regions: none"):
        await off(other.reserve, "kv", "r1")
    with pytest.raises(RegionError, match="this engine has registered no region nope; its regions: kv"):
        await off(engine.reserve, "nope", "r1")
    lease = await off(engine.reserve, "kv", "r1")
    with pytest.raises(UnknownLeaseError, match="belongs to another engine"):
        await off(other.release, lease)
    memory.close()
    os.close(descriptor)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([0], "1 blocks given; 32 of axis s in blocks of 16 need 2"),
        ([0, 64], "block 64 is outside the region's 0 to 63"),
        ([0, -1], "block -1 is outside"),
        ([5, 5], "stands twice"),
    ],
)
async def test_a_block_table_that_does_not_fit_is_refused(
    house: House, blocks: list[int], message: str
) -> None:
    await house.agent("npu")
    engine = await house.engine("npu")
    sizes = {"l": 2, "c": 2, "h": 2, "s0": 16, "s1": 64, "d": 8}
    await house.cache(engine, "kv", PAGES, sizes, "decode")
    with pytest.raises(BadRequestError, match=message):
        await off(engine.reserve, "kv", "r1", blocks=blocks, windows={"s": (0, 32)})


async def test_slots_of_a_batch_are_leased_apart(house: House) -> None:
    await house.agent("npu")
    engine = await house.engine("npu")
    await house.cache(engine, "kv", TILES, GEOMETRY | TILE | {"b": 4}, "decode")
    await off(engine.reserve, "kv", "r1", windows={"b": (0, 1)})
    await off(engine.reserve, "kv", "r2", windows={"b": (1, 3)})
    with pytest.raises(BlocksBusyError, match="block 2 is held by lease"):
        await off(engine.reserve, "kv", "r3", windows={"b": (2, 4)})


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", 2**31) + b"x",
        struct.pack(">I", 3) + b"\xff\xff\xff",
        framing.encode_frame(engine_pb2.Request(id=1).SerializeToString()),
        framing.encode_frame(
            engine_pb2.Request(id=1, descriptors=3, hello=engine_pb2.Hello()).SerializeToString()
        ),
    ],
    ids=["too long", "no message", "no body", "missing descriptors"],
)
async def test_a_bad_frame_gets_an_error_and_closes_only_its_connection(house: House, data: bytes) -> None:
    agent = await house.agent("npu")
    good = await house.engine("npu")
    reply = await off(talk, agent.settings.socket, data)

    assert reply is not None
    assert reply.failure.kind == "FrameError"
    cache = await house.cache(good, "kv", ROWS, SHAPE, "decode")
    assert (await off(good.reserve, cache.name, "r1")).id
    assert agent.metrics.registry.get_sample_value("hawk_agent_bad_frames_total") == 1


async def test_descriptors_that_nobody_claims_are_closed(house: House) -> None:
    agent = await house.agent("npu")
    before = descriptors()
    hello = engine_pb2.Request(id=1, hello=engine_pb2.Hello(protocol=1)).SerializeToString()
    event = os.eventfd(0)
    for _ in range(20):
        reply = await off(talk, agent.settings.socket, framing.encode_frame(hello), [event] * 5)
        assert reply is not None
    os.close(event)
    await eventually(lambda: descriptors() == before)


async def test_an_engine_of_another_version_is_told_both(house: House) -> None:
    agent = await house.agent("npu")
    hello = engine_pb2.Request(id=1, hello=engine_pb2.Hello(protocol=9)).SerializeToString()
    reply = await off(talk, agent.settings.socket, framing.encode_frame(hello))
    early = engine_pb2.Request(id=1, unregister=engine_pb2.Unregister(region="kv")).SerializeToString()
    rude = await off(talk, agent.settings.socket, framing.encode_frame(early))

    assert reply is not None
    assert rude is not None
    assert reply.failure.kind == rude.failure.kind == VersionMismatchError.__name__
    assert "the engine speaks protocol 9, the agent 1" in reply.failure.message


async def test_the_socket_is_for_its_group_a_stale_one_is_replaced_and_a_live_one_refused(
    house: House,
) -> None:
    path = house.folder / "npu.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stale:
        stale.bind(str(path))
    await house.agent("npu")

    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    with pytest.raises(SocketInUseError, match="another process listens there"):
        await house.agent("other", socket=path, transports=("tcp",))
    await house.engine("npu")
    await house.stop("npu")
    assert not path.exists()


async def test_a_path_that_is_no_socket_is_left_alone(house: House) -> None:
    path = house.folder / "npu.sock"
    path.write_text("precious")
    with pytest.raises(SocketInUseError, match="exists and is no socket"):
        await house.agent("npu", transports=("tcp",))
    assert path.read_text() == "precious"


async def test_a_client_without_an_agent_says_where_it_looked(house: House) -> None:
    with pytest.raises(AgentUnavailableError, match=f"no agent answers at {house.folder}/none.sock"):
        await off(AgentClient, house.folder / "none.sock")


async def test_a_client_whose_agent_goes_hears_of_it(house: House) -> None:
    await house.agent("npu")
    engine = await house.engine("npu")
    await house.stop("npu")
    with pytest.raises(AgentUnavailableError):
        await off(engine.reserve, "kv", "r1")
    connection: Connection = engine._connection
    assert connection._waiting == {}
