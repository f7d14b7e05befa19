"""An RDMA end made by pyverbs, which shares no code with ours: what our ends are tested against.

Import it in a test that uses the fixture `pyverbs`, which makes that package importable. Its enums module has
two names: `enums` until release 44, `libibverbs_enums` in later ones.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

try:
    import pyverbs.enums as e
except ModuleNotFoundError:
    import pyverbs.libibverbs_enums as e

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .conftest import Port

ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
POLL_SECONDS = 0.002
ACK_TIMEOUT, RETRIES = 18, 3


@dataclass(frozen=True)
class Address:
    """The attributes of a queue pair that the other side needs to connect to it."""

    qpn: int
    psn: int
    gid: str


class End:
    """A device with one queue pair and its completion queue."""

    def __init__(self, port: Port, *, depth: int = 128, max_sge: int = 32) -> None:
        self.context = Context(name=port.device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 2 * depth)
        capacity = QPCap(max_send_wr=depth, max_recv_wr=depth, max_send_sge=max_sge, max_recv_sge=1)
        attributes = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=capacity, sq_sig_all=0)
        self.qp = QP(self.pd, attributes, QPAttr())
        self._unused = np.zeros(8, np.uint8)
        self._inbox = self.register(self._unused)
        self._gid_index = _gid_index(port)
        self.address = Address(self.qp.qp_num, 100, str(self.context.query_gid(1, self._gid_index)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, peer: Address) -> None:
        """Move the queue pair to RTS."""
        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = ACCESS
        self.qp.to_init(attributes)
        attributes = QPAttr(port_num=1)
        attributes.path_mtu = self.context.query_port(1).active_mtu
        attributes.dest_qp_num, attributes.rq_psn = peer.qpn, peer.psn
        attributes.max_dest_rd_atomic = attributes.max_rd_atomic = 16
        attributes.min_rnr_timer = 12
        route = GlobalRoute(dgid=GID(peer.gid), sgid_index=self._gid_index)
        attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        self.qp.to_rtr(attributes)
        attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = ACK_TIMEOUT, RETRIES, RETRIES
        attributes.sq_psn = self.address.psn
        self.qp.to_rts(attributes)

    def register(self, memory: NDArray[np.uint8], access: int = ACCESS) -> Any:
        """A memory region over `memory`, which has to outlive it; it has lkey, rkey and close()."""
        return MR(self.pd, memory.nbytes, access, address=memory.ctypes.data)

    def post(
        self,
        pieces: Sequence[tuple[int, int, int]],
        *,
        to: tuple[int, int] | None = None,
        immediate: int | None = None,
        opcode: int = e.IBV_WR_RDMA_WRITE,
        wr_id: int = 1,
    ) -> None:
        """Post one signalled request. `pieces` are (address, bytes, lkey), `to` is (address, rkey).

        An immediate goes out as it is given: the byte order is the caller's. Raises PyverbsRDMAError.
        """
        if immediate is not None:
            opcode = e.IBV_WR_RDMA_WRITE_WITH_IMM
        gather = [SGE(*piece) for piece in pieces]
        request = SendWR(
            wr_id=wr_id, opcode=opcode, num_sge=len(gather), sg=gather, send_flags=e.IBV_SEND_SIGNALED
        )
        if immediate is not None:
            request.imm_data = immediate
        if to:
            request.set_wr_rdma(to[1], to[0])
        self.qp.post_send(request)

    def expect(self, wr_id: int = 1) -> None:
        """Post one receive request: for an immediate. pyverbs wants memory with it, which stays as it is."""
        piece = SGE(self._unused.ctypes.data, self._unused.nbytes, self._inbox.lkey)
        self.qp.post_recv(RecvWR(wr_id=wr_id, num_sge=1, sg=[piece]))

    def completions(self, count: int = 1, timeout: float = 60.0) -> list[Any]:
        """The next `count` completions; raises TimeoutError."""
        found: list[Any] = []
        deadline = time.monotonic() + timeout
        while len(found) < count:
            found += self.cq.poll(count - len(found))[1]
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} of {count} completions in {timeout:g} s")
            time.sleep(POLL_SECONDS)
        return found

    def close(self) -> None:
        """Give everything back; what was registered must be closed before."""
        for part in (self.qp, self._inbox, self.cq, self.pd, self.context):
            part.close()


def join(one: End, other: End) -> None:
    """Connect two ends to each other."""
    one.connect(other.address)
    other.connect(one.address)


def _gid_index(port: Port) -> int:
    """The index of the RoCE v2 GID that the port's IPv4 address makes."""
    high, low = (bytes(map(int, port.address.split(".")))[i : i + 2].hex() for i in (0, 2))
    folder = Path(f"/sys/class/infiniband/{port.device}/ports/1")
    for file in sorted((folder / "gids").iterdir(), key=lambda path: int(path.name)):
        kind = folder / "gid_attrs" / "types" / file.name
        if file.read_text().strip().endswith(f"ffff:{high}:{low}") and "v2" in kind.read_text():
            return int(file.name)
    raise LookupError(f"{port.device} has no RoCE v2 GID of {port.address}")
