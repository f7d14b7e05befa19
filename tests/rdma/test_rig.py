"""The rig itself: what it promises to the tests that run on it."""

from __future__ import annotations

import os
import re
import resource
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from .conftest import Port
    from .counterpart import End

PIECE, GAP = 96, 160
SENTINEL = 0xEE


@pytest.fixture
def ends(pyverbs: ModuleType, rxa: Port, rxb: Port) -> Iterator[tuple[End, End]]:
    del pyverbs
    from .counterpart import End, join

    with End(rxa) as one, End(rxb) as other:
        join(one, other)
        yield one, other


def test_both_devices_are_active_with_the_largest_mtu(rdma_pair: tuple[Port, Port]):
    for port in rdma_pair:
        said = subprocess.run(
            ["ibv_devinfo", "-v", "-d", port.device], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        assert "PORT_ACTIVE" in said
        assert re.search(r"active_mtu:\s+4096", said)
        assert re.search(r"max_sge:\s+32", said)
        assert f"::ffff:{port.address}" in said


def test_memory_may_be_locked_without_limit():
    assert resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    assert os.geteuid() == 0


@pytest.mark.parametrize("pieces", [1, 2, 31, 32])
def test_a_write_gathers_its_pieces_into_one_run(ends: tuple[End, End], pieces: int):
    one, other = ends
    source = np.random.default_rng(pieces).integers(0, 256, pieces * (PIECE + GAP), np.uint8)
    target = np.full((pieces + 2) * PIECE, SENTINEL, np.uint8)
    expected = target.copy()
    expected[PIECE:-PIECE] = source.reshape(pieces, PIECE + GAP)[:, :PIECE].reshape(-1)
    local, remote = one.register(source), other.register(target)
    starts = range(0, source.nbytes, PIECE + GAP)

    one.post(
        [(source.ctypes.data + start, PIECE, local.lkey) for start in starts],
        to=(target.ctypes.data + PIECE, remote.rkey),
    )
    [done] = one.completions()

    assert done.status == 0
    assert np.array_equal(target, expected)
    local.close()
    remote.close()


def test_one_piece_more_than_the_device_takes_is_refused(ends: tuple[End, End]):
    from pyverbs.pyverbs_error import PyverbsError

    one, _ = ends
    source = np.zeros(33, np.uint8)
    local = one.register(source)
    with pytest.raises(PyverbsError):
        one.post([(source.ctypes.data + at, 1, local.lkey) for at in range(33)], to=(0, 0))
    local.close()


def test_an_immediate_arrives_with_the_data(ends: tuple[End, End]):
    one, other = ends
    source, target = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    local, remote = one.register(source), other.register(target)
    other.expect(wr_id=7)

    one.post(
        [(source.ctypes.data, 64, local.lkey)], to=(target.ctypes.data, remote.rkey), immediate=0x01020304
    )
    [sent], [received] = one.completions(), other.completions()

    assert (sent.status, received.status, received.wr_id) == (0, 0, 7)
    assert received.imm_data == 0x01020304
    assert np.array_equal(target, source)
    local.close()
    remote.close()
