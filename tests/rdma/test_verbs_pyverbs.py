"""Our end against an independent one: pyverbs writes to us and we write to it."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.transports.verbs import registration
from hawk_agent.transports.verbs.completion import finish_posting
from hawk_agent.transports.verbs.posting import LocalMemory, Posting, RemoteMemory
from hawk_agent.transports.verbs.queue_pair import EndpointInfo
from tests.unit.verbs.ends import BOTH, End

from .test_verbs_transfer import PATIENT, infos

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from . import counterpart
    from .conftest import Port

IMMEDIATE = 0x01020304
AS_IN_MEMORY = int.from_bytes(IMMEDIATE.to_bytes(4, "big"), "little")
"""The same 32 bits as pyverbs hands them over: in network order, untouched."""
LINE = Layout.parse("d", {"d": 100}, "int8")


@pytest.fixture
def ends(pyverbs: ModuleType, rxa: Port, rxb: Port) -> Iterator[tuple[End, counterpart.End]]:
    assert pyverbs
    from . import counterpart

    ours, other = End.make(infos(rxa)[0]), counterpart.End(rxb)
    here = ours.queue.info
    other.connect(counterpart.Address(here.qpn, here.psn, IPv6Address(here.gid).exploded))
    there = other.address
    ours.queue.connect(
        EndpointInfo(there.qpn, there.psn, IPv6Address(there.gid).packed, here.mtu), BOTH, PATIENT
    )
    yield ours, other
    ours.close()
    other.close()


@pytest.mark.parametrize("direction", ["write", "read"])
def test_we_reach_memory_that_pyverbs_registered(ends: tuple[End, counterpart.End], direction: str):
    ours, other = ends
    sizes = {"h": 1, "s": 64, "d": 64}
    nest = compile_nest(Layout.preset("row-major", sizes), Layout.preset("tiles-16x16", sizes))
    data = np.random.default_rng(5).integers(0, 1 << 16, 4096, dtype=np.uint16)
    landed, expected = np.zeros_like(data), np.zeros_like(data)
    nest.run(data, expected)
    mine, theirs = (data, landed) if direction == "write" else (landed, data)
    access = registration.GATHERED if direction == "write" else registration.STAGING
    far = other.register(theirs)
    with ours.register(mine, access) as here:
        key = registration.RemoteRange(0, theirs.nbytes, theirs.ctypes.data, far.rkey)
        local, remote = LocalMemory(here.nbytes, here.local_ranges), RemoteMemory(theirs.nbytes, (key,))
        finish_posting(Posting(ours.queue, nest, local, remote, direction=direction), seconds=60)
    far.close()

    assert np.array_equal(landed, expected)


def test_our_immediate_arrives_in_network_order(ends: tuple[End, counterpart.End]):
    ours, other = ends
    data, landed = np.arange(100, dtype=np.uint8), np.zeros(100, np.uint8)
    far = other.register(landed)
    other.expect()
    with ours.register(data, registration.GATHERED) as here:
        key = registration.RemoteRange(0, 100, landed.ctypes.data, far.rkey)
        local, remote = LocalMemory(100, here.local_ranges), RemoteMemory(100, (key,))
        finish_posting(
            Posting(ours.queue, compile_nest(LINE, LINE), local, remote, immediate=IMMEDIATE), seconds=60
        )
    (done,) = other.completions()
    far.close()

    assert done.imm_data == AS_IN_MEMORY
    assert np.array_equal(landed, data)


def test_pyverbs_reaches_memory_that_we_registered(ends: tuple[End, counterpart.End]):
    ours, other = ends
    data, landed = np.arange(100, dtype=np.uint8), np.zeros(100, np.uint8)
    near = other.register(data)
    at = data.ctypes.data
    with ours.register(landed, registration.DESTINATION) as there:
        (key,) = there.remote_ranges
        pieces = [(at, 60, near.lkey), (at + 60, 40, near.lkey)]
        other.post(pieces, to=(key.address, key.rkey), immediate=AS_IN_MEMORY)
        (sent,) = other.completions()
        for _ in range(600):
            _, arrivals = ours.completions.poll()
            if arrivals:
                break
            ours.completions.wait(0.1)
    near.close()

    assert sent.status == 0
    assert [(found.immediate, found.nbytes) for found in arrivals] == [(IMMEDIATE, 100)]
    assert np.array_equal(landed, data)
