"""Peers that restart, die, lie or speak another version; the survivor is never restarted."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hawk_agent.client import AgentClient, Transfer, layer_events
from hawk_agent.errors import HandshakeRefusedError, LinkDownError, PeerError, TransferFailedError
from hawk_agent.identity import Files
from hawk_agent.protocol import common_pb2, engine_pb2, peer_pb2
from hawk_agent.service import handshake
from hawk_agent.service.links import LinkState
from hawk_agent.service.settings import PeerAddress
from hawk_agent.transfer.outcome import TransferOutcome
from hawk_api.addresses import parse_address
from hawk_api.certificates import server_name
from hawk_api.reasons import Reason
from tests.unit.agent.house import (
    GEOMETRY,
    ROWS,
    TILE,
    TILES,
    Cache,
    House,
    eventually,
    off,
    region_of,
    transfer_all,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TRANSPORTS = ["shm", "tcp"]


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_restart_at_the_same_address_is_noticed_and_wired_again(house: House, transport: str) -> None:
    source, destination = await house.pair(transport)
    old = await off(destination.engine.reserve, "kv", "r1")
    address = house.agents["npu"].address
    await house.stop("npu")
    await eventually(lambda: house.agents["gpu"].links.facts()[0].state is LinkState.DOWN)
    with pytest.raises(LinkDownError, match="the link to npu is down"):
        await off(source.engine.push, old.ticket, "kv", all_complete=True)
    await house.agent("npu", listen=address, transports=(transport,))
    await house.verified("gpu", "npu")
    with pytest.raises(PeerError, match="reserve again"):
        await off(source.engine.push, old.ticket, "kv", all_complete=True)
    fresh = await house.cache(await house.engine("npu"), "kv", TILES, GEOMETRY | TILE, "decode")
    fresh.clear()

    await transfer_all(source, fresh)


@pytest.fixture
async def child(house: House) -> AsyncIterator[dict[str, asyncio.subprocess.Process]]:
    """Agent processes, to be killed."""
    children: dict[str, asyncio.subprocess.Process] = {}
    yield children
    for process in children.values():
        if process.returncode is None:
            process.kill()
        await process.wait()


async def spawn(
    house: House, node: str, transport: str, *peers: str, listen: str = "127.0.0.1:0"
) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "hawk_agent.main", "--node", node, "--no-kube", "--insecure"]
    command += ["--listen", listen, "--metrics", "127.0.0.1:0", "--transports", transport]
    command += ["--socket", str(house.folder / f"{node}.sock"), "--log-level", "error"]
    for peer in peers:
        command += ["--peer", peer]
    process = await asyncio.create_subprocess_exec(*command)
    await eventually((house.folder / f"{node}.sock").exists, 60)
    return process


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_sender_that_is_killed_leaves_no_block_behind(
    house: House, transport: str, child: dict[str, asyncio.subprocess.Process]
) -> None:
    """The prefill node dies in the middle of a transfer."""
    agent = await house.agent("npu", transports=(transport,))
    child["gpu"] = await spawn(house, "gpu", transport, f"npu={agent.address}")
    engine = await off(AgentClient, house.folder / "gpu.sock")
    source = await house.cache(engine, "kv", ROWS, GEOMETRY, "prefill")
    destination = await house.cache(await house.engine("npu"), "kv", TILES, GEOMETRY | TILE, "decode")
    lease, events = await off(destination.engine.reserve, "kv", "r1"), layer_events(6)
    await _push_when_wired(source, lease.ticket, events)
    os.eventfd_write(events[0], 1)
    await off(destination.engine.wait, lease, 0)
    child["gpu"].kill()
    await child["gpu"].wait()
    with pytest.raises(TransferFailedError) as caught:
        await off(destination.engine.wait, lease, 5)
    for event in events:
        os.close(event)
    await off(engine.close)

    assert caught.value.outcome is TransferOutcome.PEER_LOST
    assert len(agent.table) == 0
    await off(destination.engine.reserve, "kv", "r2")


async def test_a_receiver_killed_unacknowledged_is_fenced_and_the_source_may_be_resent(
    house: House, child: dict[str, asyncio.subprocess.Process]
) -> None:
    agent = await house.agent("gpu", transports=("tcp",))
    child["npu"] = await spawn(house, "npu", "tcp")
    engine = await off(AgentClient, house.folder / "npu.sock")
    source = await house.cache(await house.engine("gpu"), "kv", ROWS, GEOMETRY, "prefill")
    destination = await house.cache(engine, "kv", TILES, GEOMETRY | TILE, "decode")
    lease = await off(engine.reserve, "kv", "r1")
    agent.links.wire([PeerAddress(engine_pb2.Ticket.FromString(lease.ticket).address, "npu")])
    transfer = await _push_when_wired(source, lease.ticket, [])
    await off(engine.wait, lease, 5)
    child["npu"].kill()
    await child["npu"].wait()
    result = await off(transfer.result)
    await off(engine.close)

    assert result.outcome is TransferOutcome.PEER_LOST
    assert result.may_resend
    assert result.nbytes == len(destination.memory) == len(source.memory)


async def _push_when_wired(source: Cache, ticket: bytes, events: list[int]) -> Transfer:
    """Push as soon as the link is there; until then the agent says why not."""
    async with asyncio.timeout(60):
        while True:
            try:
                push = source.engine.push
                return await asyncio.to_thread(push, ticket, "kv", 1, events, all_complete=not events)
            except PeerError:
                await asyncio.sleep(0.05)


async def test_a_hundred_transfers_cut_off_leave_nothing_behind(house: House) -> None:
    source, destination = await house.pair("tcp", grant=5)
    await transfer_all(source, destination)
    await eventually(lambda: len(house.agents["npu"].table) == 0)
    gpu, npu = house.agents["gpu"], house.agents["npu"]
    baseline = descriptors()
    for turn in range(102):
        events = layer_events(6)
        os.eventfd_write(events[0], 1)
        lease = await off(destination.engine.reserve, "kv", f"r{turn}")
        transfer = await off(source.engine.push, lease.ticket, "kv", 1, events)
        if turn % 3 == 0:
            await off(destination.engine.release, lease)
        elif turn % 3 == 1:
            await off(transfer.abort)
        else:  # as if the stream broke
            await eventually(lambda held=lease: held.id in npu.receiver._incoming)  # type: ignore[misc]
            npu.receiver._incoming[lease.id].peer_gone()
        result = await off(transfer.result)
        assert not result.outcome.ok
        await eventually(lambda: len(npu.table) == 0)
        for event in events:
            os.close(event)

    assert len(region_of(npu).blocks) == 0
    assert npu.receiver.running == 0
    assert not gpu.sends.running
    assert region_of(gpu).users == region_of(npu).users == 0
    await eventually(lambda: descriptors() <= baseline + 2)
    await transfer_all(source, destination)


async def test_regions_that_no_translation_joins_are_a_problem_before_any_push(house: House) -> None:
    await house.agent("gpu")
    await house.agent("npu")
    await house.wire(("gpu", "npu"))
    await house.cache(await house.engine("gpu"), "kv", ROWS, GEOMETRY, "prefill")
    await house.cache(await house.engine("npu"), "kv", TILES, GEOMETRY | TILE | {"l": 5}, "decode")
    links = house.agents["gpu"].links
    await eventually(lambda: links.facts()[0].problem is not None)
    problem = links.facts()[0].problem

    assert problem is not None
    assert problem.reason is Reason.LAYOUTS_INCOMPATIBLE
    assert "6 of 6 and 5 of 5" in problem.message


async def test_an_agent_of_another_protocol_is_refused_with_both_numbers(house: House) -> None:
    await house.agent("gpu")
    old = await house.agent("npu")
    old.identity.protocol = 0
    links = house.agents["gpu"].links
    links.wire([PeerAddress(old.address, "npu")])
    await eventually(lambda: links.facts()[0].state is LinkState.REFUSED)

    assert "protocol 0" in str(links.facts()[0].problem)
    assert links.facts()[0].problem.reason is Reason.AGENT_INCOMPATIBLE  # type: ignore[union-attr]
    with pytest.raises(HandshakeRefusedError):
        links.to("npu", old.identity.epoch)


async def test_an_address_that_answers_as_another_node_is_refused(house: House) -> None:
    await house.agent("gpu")
    await house.agent("npu")
    links = house.agents["gpu"].links
    links.wire([PeerAddress(house.agents["npu"].address, "tpu")])
    await eventually(lambda: links.facts()[0].state is LinkState.REFUSED)

    assert "answers as node npu, tpu was meant" in str(links.facts()[0].problem)


async def test_agents_on_ipv6_exchange(house: House) -> None:
    source, destination = await house.pair("tcp", listen="[::1]:0")
    assert parse_address(house.agents["npu"].address).is_ipv6

    await transfer_all(source, destination)


def _certificates(folder: Path, *nodes: str) -> dict[str, Files]:
    """A certificate for each node from one authority."""
    now = datetime.now(UTC)

    def make(
        name: str,
        key: ec.EllipticCurvePrivateKey,
        issuer: str,
        signer: ec.EllipticCurvePrivateKey,
        *,
        ca: bool,
    ) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if not ca:
            names = x509.SubjectAlternativeName([x509.DNSName(server_name(name))])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    root = ec.generate_private_key(ec.SECP256R1())
    authority = folder / "ca.pem"
    authority.write_bytes(make("root", root, "root", root, ca=True))
    found = {}
    for node in nodes:
        key = ec.generate_private_key(ec.SECP256R1())
        files = Files(folder / f"{node}.crt", folder / f"{node}.key", authority)
        files.certificate.write_bytes(make(node, key, "root", root, ca=False))
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        found[node] = files
    return found


def _tls(files: Files) -> dict[str, object]:
    paths = {"tls_cert": files.certificate, "tls_key": files.key, "tls_ca": files.authority}
    return {**paths, "insecure": False}


async def test_mutual_tls_lets_in_whom_the_certificate_names_and_nobody_else(house: House) -> None:
    files = _certificates(house.folder, "gpu", "npu", "thief")
    for node in ("gpu", "npu"):
        await house.agent(node, **_tls(files[node]))
    await house.wire(("gpu", "npu"))
    source = await house.cache(await house.engine("gpu"), "kv", ROWS, GEOMETRY, "prefill")
    destination = await house.cache(await house.engine("npu"), "kv", TILES, GEOMETRY | TILE, "decode")
    source.fill(1)
    await transfer_all(source, destination)

    # A right certificate of another node, and none at all.
    npu = PeerAddress(house.agents["npu"].address, "npu")
    liar = await house.agent("gpu2", **_tls(files["thief"]))
    plain = await house.agent("plain")
    for agent in (liar, plain):
        agent.links.wire([npu])
    await eventually(lambda: liar.links.facts()[0].state is LinkState.REFUSED)
    assert liar.links.facts()[0].problem.reason is Reason.NOT_TRUSTED  # type: ignore[union-attr]
    await eventually(lambda: "UNAVAILABLE" in str(plain.links.facts()[0].problem))


async def test_without_a_certificate_the_agent_says_what_to_give(house: House) -> None:
    with pytest.raises(Exception, match="--tls-cert, --tls-key, --tls-ca: missing; give them"):
        await house.agent("npu", insecure=False)


def _region(group: str, **changes: int) -> peer_pb2.Region:
    sizes = GEOMETRY | changes
    return peer_pb2.Region(
        pool="default/llama",
        group=group,
        layout=common_pb2.Layout(notation=ROWS, sizes=sizes, dtype="float16"),
    )


@pytest.mark.parametrize(
    ("changes", "value"),
    [({"l": 5}, "6 of 6"), ({"h": 3}, "4 of 4"), ({"d": 64}, "32 of 32"), ({"c": 1}, "2 of 2")],
)
def test_what_must_match_is_refused_with_both_values(changes: dict[str, int], value: str) -> None:
    problem = handshake.check_regions([_region("prefill")], [_region("decode", **changes)])

    assert problem is not None
    assert problem.reason is Reason.LAYOUTS_INCOMPATIBLE
    assert value in problem.message
    assert str(next(iter(changes.values()))) in problem.message


def test_element_types_must_match() -> None:
    other = _region("decode")
    other.layout.dtype = "float8"
    problem = handshake.check_regions([_region("prefill")], [other])

    assert problem is not None
    assert "float16 and float8" in problem.message


@pytest.mark.parametrize("changes", [{"s": 128}, {"b": 8}, {"h": 8}, {"h": 2}])
def test_capacities_and_whole_factors_of_heads_may_differ(changes: dict[str, int]) -> None:
    assert handshake.check_regions([_region("prefill")], [_region("decode", **changes)]) is None
    assert handshake.check_regions([_region("prefill")], [_region("prefill", l=2)]) is None
