"""Our end against an independent one: pyverbs writes to us and we write to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.memory import registration
from hawk_agent.transports.verbs.completion import finish
from hawk_agent.transports.verbs.posting import Local, Posting, Remote
from hawk_agent.transports.verbs.queue_pair import EndpointInfo
from tests.unit.verbs.ends import BOTH, End

from .test_verbs_transfer import PATIENT, infos

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from .conftest import Port

IMMEDIATE = 0x01020304


class Other:
    """An end made of pyverbs' objects."""

    def __init__(self, port: Port, gid_index: int) -> None:
        from pyverbs.cq import CQ
        from pyverbs.device import Context
        from pyverbs.pd import PD
        from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

        try:
            import pyverbs.libibverbs_enums as enums
        except ImportError:
            import pyverbs.enums as enums
        self.e, self.index = enums, gid_index
        self.context = Context(name=port.device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 64)
        cap = QPCap(max_send_wr=16, max_recv_wr=16, max_send_sge=8, max_recv_sge=1)
        init = QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=0)
        self.qp = QP(self.pd, init, QPAttr())

    @property
    def info(self) -> EndpointInfo:
        from ipaddress import IPv6Address

        raw = IPv6Address(str(self.context.query_gid(1, self.index))).packed
        return EndpointInfo(self.qp.qp_num, 77, raw, 4096)

    def connect(self, peer: EndpointInfo) -> None:
        from ipaddress import IPv6Address

        from pyverbs.addr import GID, AHAttr, GlobalRoute
        from pyverbs.qp import QPAttr

        access = (
            self.e.IBV_ACCESS_LOCAL_WRITE | self.e.IBV_ACCESS_REMOTE_WRITE | self.e.IBV_ACCESS_REMOTE_READ
        )
        attr = QPAttr(port_num=1)
        attr.qp_access_flags, attr.pkey_index = access, 0
        self.qp.to_init(attr)
        attr = QPAttr(port_num=1)
        attr.path_mtu, attr.dest_qp_num, attr.rq_psn = self.e.IBV_MTU_4096, peer.qpn, peer.psn
        attr.max_dest_rd_atomic, attr.min_rnr_timer = 16, 12
        route = GlobalRoute(dgid=GID(IPv6Address(peer.gid).exploded), sgid_index=self.index)
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        self.qp.to_rtr(attr)
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.sq_psn, attr.max_rd_atomic = 18, 6, 6, 77, 16
        self.qp.to_rts(attr)

    def register(self, memory: np.ndarray) -> object:
        from pyverbs.mr import MR

        access = (
            self.e.IBV_ACCESS_LOCAL_WRITE | self.e.IBV_ACCESS_REMOTE_WRITE | self.e.IBV_ACCESS_REMOTE_READ
        )
        return MR(self.pd, memory.nbytes, access, address=memory.ctypes.data)

    def poll(self) -> object:
        for _ in range(6000):
            count, found = self.cq.poll(1)
            if count:
                return found[0]
        pytest.fail("pyverbs' end completed nothing")

    def close(self) -> None:
        for thing in (self.qp, self.cq, self.pd, self.context):
            thing.close()


@pytest.fixture
def ends(pyverbs: ModuleType, rxa: Port, rxb: Port) -> Iterator[tuple[End, Other]]:
    assert pyverbs
    first, second = infos(rxa, rxb)
    ours, other = End.make(first), Other(rxb, second.gid_index)
    other.connect(ours.queue.info)
    ours.queue.connect(other.info, BOTH, PATIENT)
    yield ours, other
    ours.close()
    other.close()


@pytest.mark.parametrize("direction", ["write", "read"])
def test_we_reach_memory_that_pyverbs_registered(ends: tuple[End, Other], direction: str):
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
        key = registration.Extent(0, theirs.nbytes, theirs.ctypes.data, far.rkey)
        posting = Posting(
            ours.queue,
            nest,
            Local(here.nbytes, here.local_keys),
            Remote(theirs.nbytes, (key,)),
            direction=direction,
        )
        finish(posting, seconds=60)
    far.close()

    assert np.array_equal(landed, expected)


def test_our_immediate_arrives_in_network_order(ends: tuple[End, Other]):
    """pyverbs hands the 32 bits over as they stand in memory."""
    from pyverbs.wr import SGE, RecvWR

    ours, other = ends
    data, landed = np.arange(100, dtype=np.uint8), np.zeros(100, np.uint8)
    far = other.register(landed)
    other.qp.post_recv(RecvWR(wr_id=3, num_sge=1, sg=[SGE(landed.ctypes.data, 0, far.lkey)]))
    line = Layout.parse("d", {"d": 100}, "int8")
    with ours.register(data, registration.GATHERED) as here:
        key = registration.Extent(0, 100, landed.ctypes.data, far.rkey)
        finish(
            Posting(
                ours.queue,
                compile_nest(line, line),
                Local(100, here.local_keys),
                Remote(100, (key,)),
                immediate=IMMEDIATE,
            ),
            seconds=60,
        )
    done = other.poll()
    far.close()

    assert done.imm_data == int.from_bytes(IMMEDIATE.to_bytes(4, "big"), "little")
    assert np.array_equal(landed, data)


def test_pyverbs_reaches_memory_that_we_registered(ends: tuple[End, Other]):
    from pyverbs.wr import SGE, SendWR

    ours, other = ends
    data, landed = np.arange(100, dtype=np.uint8), np.zeros(100, np.uint8)
    near = other.register(data)
    with ours.register(landed, registration.DESTINATION) as there:
        flags, opcode = other.e.IBV_SEND_SIGNALED, other.e.IBV_WR_RDMA_WRITE_WITH_IMM
        pieces = [SGE(data.ctypes.data, 60, near.lkey), SGE(data.ctypes.data + 60, 40, near.lkey)]
        word = int.from_bytes(IMMEDIATE.to_bytes(4, "big"), "little")
        wr = SendWR(wr_id=1, opcode=opcode, num_sge=2, sg=pieces, send_flags=flags, imm_data=word)
        wr.set_wr_rdma(there.remote_keys[0].key, landed.ctypes.data)
        other.qp.post_send(wr)
        assert other.poll().status == other.e.IBV_WC_SUCCESS
        for _ in range(600):
            _, arrivals = ours.completions.poll()
            if arrivals:
                break
            ours.completions.wait(0.1)
        wr.close()
    near.close()

    assert [(found.immediate, found.nbytes) for found in arrivals] == [(IMMEDIATE, 100)]
    assert np.array_equal(landed, data)
