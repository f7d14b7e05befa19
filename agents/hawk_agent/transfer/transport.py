"""The interface of a transport: two ends, and the promises of their methods.

A transfer asks the *sender's* agent for a source end and an offer, carries the offer to the *receiver's*
agent over the authenticated channel, and gets a destination end and an answer. Then, chunk by chunk and in
the plan's order: the sender announces a chunk, `send`s it, and the receiver `receive`s it. Promises:

- `send` returns when the transport needs nothing more of the source for this chunk, or (shared memory) when
  the receiver's report of the arrival will say so.
- `receive` returns when every byte of the chunk is in the destination, and not before. It returns the bytes
  placed.
- A failure is an exception, TransportError or one below it; there is no third way to end.
- `stop` and `close` are fences: when they return, nothing of this end reads or writes the memory any more.
  They may be called at any time, more than once, and while `send` or `receive` run in another task. When
  access can't be ended in time they raise TransportTimeoutError, and the memory must be taken for still in
  use.

The methods of a transport and of its ends are called in the agent's event loop and must not block it: what
copies runs in the threads of the context (see `work`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.metrics import AgentMetrics
    from hawk_agent.protocol import peer_pb2
    from hawk_agent.supervision import TaskSupervisor
    from hawk_agent.transfer.chunks import Chunk
    from hawk_agent.transfer.translation import Translation


@dataclass(frozen=True, slots=True)
class RailFacts:
    """A port that a data path uses, as the HawkNode's status tells it; None where it has no such thing."""

    name: str
    transport: str
    gid: str | None = None
    mtu: int | None = None
    max_sge: int | None = None
    max_wr: int | None = None
    max_message_bytes: int | None = None
    fence: str | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """The cost model's prediction for a transfer, which is compared with the measured time."""

    strategy: str
    seconds: float


@dataclass(frozen=True, slots=True)
class TransportContext:
    """The agent's resources for a transport. The threads are shared by all of its transports."""

    sending: ThreadPoolExecutor
    """Threads for what is sent; kept apart from receiving ones, which may wait for another agent's."""
    receiving: ThreadPoolExecutor
    metrics: AgentMetrics
    supervisor: TaskSupervisor
    """Who keeps what runs for as long as the agent."""
    socket: Path
    """Where engines connect; a transport may put sockets for agents of the same host beside it."""
    listen_host: str
    """Address to listen on."""
    advertised_host: str
    """Address that peers connect to."""
    data_port: int = 0
    """TCP port to listen on, 0 to 65535; 0 takes a free one."""
    rdma_devices: tuple[str, ...] = ()
    """RDMA devices, a rail each, best first; empty takes every one with a port that is up."""
    rdma_gid_index: int | None = None
    """Index in the ports' GID tables, 0 to 255; None takes a routable RoCE v2 one."""
    rails: int = 0
    """Rails that one transfer uses at most, 0 to 16; 0 uses all."""
    strategy: str = "auto"
    """How bytes go over verbs; auto takes what the cost model finds cheapest."""


class SourceEnd(ABC):
    """The sender's end of one transfer."""

    @abstractmethod
    async def connect(self, answer: peer_pb2.Answer) -> None:
        """Reach the receiver."""

    @abstractmethod
    async def send(self, chunk: Chunk) -> None:
        """Hand over one chunk."""

    @abstractmethod
    async def close(self) -> None:
        """End access to the source."""


class DestinationEnd(ABC):
    """The receiver's end of one transfer."""

    @abstractmethod
    async def receive(self, chunk: Chunk) -> int:
        """Place one chunk; returns its bytes."""

    @abstractmethod
    async def stop(self) -> None:
        """End access to the destination."""


class Transport(ABC):
    """One kind of data path. An agent makes it once, starts it, and closes it when it stops."""

    name: str
    """As `--transports`, offers and metrics have it; two agents use a path that both know by one name."""
    same_host_only: ClassVar[bool] = False
    """True where it joins only agents of one machine."""

    async def start(self) -> None:
        """Open what it needs. TransportError, with the remedy, where this host can't use it."""
        return

    async def close(self) -> None:
        """Close what `start` opened; transfers have ended by then."""
        return

    @abstractmethod
    def offer(self, translation: Translation, source: CacheRegion) -> tuple[peer_pb2.Offer, SourceEnd]:
        """The sender's side of a transfer."""

    @abstractmethod
    async def accept(
        self, offer: peer_pb2.Offer, translation: Translation, destination: CacheRegion, origin: str
    ) -> tuple[peer_pb2.Answer, DestinationEnd]:
        """The receiver's side. `origin` names the sender's incarnation."""

    @property
    def rails(self) -> tuple[RailFacts, ...]:
        """The ports that it uses."""
        return (RailFacts(self.name, self.name),)

    async def adopt(self, region: CacheRegion) -> None:
        """An engine handed this memory over: do now what takes long. An error refuses the registration."""
        return

    def forecast(self, translation: Translation, offer: peer_pb2.Offer) -> Forecast | None:
        """How long the transfer should take by the cost model; None where there is no model."""
        return None

    def keep(self, origin: str, regions: frozenset[str]) -> None:  # noqa: B027 -- as below
        """A peer's incarnation has these regions now; drop what is kept of others."""

    def forget(self, origin: str) -> None:  # noqa: B027 -- most transports keep nothing of a peer
        """Drop what is kept of a peer's incarnation."""
