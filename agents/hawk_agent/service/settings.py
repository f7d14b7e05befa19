"""What an agent can be told, with units and defaults."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hawk_agent.streaming.lease import Terms

if TYPE_CHECKING:
    from hawk_agent.identity import Files

PROTOCOL = 1
"""Version of both wire protocols. Agents and engines of another number are refused."""


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """Where a peer is. The node is empty when it isn't known beforehand."""

    address: str
    node: str = ""
    epoch: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """An agent's configuration. Times are seconds."""

    node: str
    socket: Path
    """Where engines connect."""
    listen: str = "127.0.0.1:0"
    """host:port of the peers' gRPC; port 0 takes a free one."""
    data_port: int = 0
    """Port of the TCP data path, on the same host."""
    advertise: str = ""
    """host or host:port that peers are told; empty means the listening one."""
    metrics: str = "127.0.0.1:0"
    tls: Files | None = None
    """Certificate, key and trusted authorities; read again when they change."""
    insecure: bool = False
    peers: tuple[PeerAddress, ...] = ()
    transports: tuple[str, ...] = ("shm", "tcp")
    """Allowed data paths, best first."""
    rdma_devices: tuple[str, ...] = ()
    """RDMA devices for verbs, a rail each, best first; empty takes every one with a port that is up."""
    rdma_gid_index: int | None = None
    """Index in the ports' GID tables; None takes a routable RoCE v2 one."""
    rails: int = 0
    """Rails that one transfer uses at most; 0 uses all."""
    strategy: str = "auto"
    """How bytes go over verbs; auto takes what the cost model finds cheapest."""
    host_id: str = ""
    """The machine's identity; empty reads it from the kernel."""
    socket_mode: int = 0o660
    copy_threads: int = 4
    terms: Terms = field(default_factory=Terms)
    """Defaults; a reservation may ask for other graces."""
    layer_timeout: float = 120.0
    """The longest wait for a layer to be complete."""

    def replace(self, **changes: object) -> Settings:
        """A copy with other values."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def host_id() -> str:
    """Identity of this machine for this boot: two agents that read the same one share memory."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
