"""Links: the other agents that this one may exchange KV with.

A link is an address *and* an incarnation. It is up while the peer attends, verified when a canary has gone
through the real data path and come out right at the other end, and it is tried again for ever: nothing marks
a pair as failed for good, and a peer that restarts is greeted anew without anybody else restarting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import grpc

from hawk_agent.errors import (
    HandshakeRefusedError,
    HawkAgentError,
    LinkDownError,
    NotWiredError,
    PeerError,
    StaleEpochError,
)
from hawk_agent.protocol import peer_pb2
from hawk_agent.service import handshake, wire
from hawk_agent.service.handshake import HandshakeProblem
from hawk_agent.service.peer_channel import PeerChannel
from hawk_agent.supervision import first_ended
from hawk_api.backoff import Backoff
from hawk_api.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from hawk_agent.identity import Files
    from hawk_agent.metrics import AgentMetrics
    from hawk_agent.protocol import peer_pb2_grpc
    from hawk_agent.service.data_paths import DataPaths
    from hawk_agent.service.engine_memory import EngineMemory
    from hawk_agent.service.settings import PeerAddress
    from hawk_agent.streaming.report import Report
    from hawk_agent.supervision import Duty, TaskSupervisor

log = logging.getLogger(__name__)

HELLO_SECONDS = 3.0
PRESENCE_SECONDS = 6.0
"""Without a sign of presence for so long the peer is taken for lost."""
RESTS = Backoff(0.1, 5.0)
REFUSED_RESTS = Backoff(5.0, 5.0)


class LinkState(Enum):
    """The states of a link."""

    DOWN = "down"
    UP = "up"
    VERIFIED = "verified"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """A link at one moment, as the rest of the agent sees it."""

    node: str
    address: str
    epoch: str
    state: LinkState
    transport: str
    problem: HandshakeProblem | None


class PeerLink:
    """One peer. `run` keeps it until it is cancelled."""

    def __init__(self, peer: PeerAddress, room: PeerLinks) -> None:
        self.peer = peer
        self._room = room
        self.state = LinkState.DOWN
        self.problem: HandshakeProblem | None = HandshakeProblem(Reason.PEER_UNREACHABLE, "no answer yet")
        self.identity: peer_pb2.Identity | None = None
        self.channel: PeerChannel | None = None
        self.transport = ""
        self._failures = 0
        self._regions: list[peer_pb2.Region] = []
        self._suspect = asyncio.Event()
        self._regions_changed = asyncio.Event()

    @property
    def node(self) -> str:
        """The peer's node, as far as it is known."""
        return self.identity.node if self.identity else self.peer.node

    @property
    def epoch(self) -> str:
        """The peer's incarnation, empty while it is down."""
        return self.identity.epoch if self.identity and self.state is not LinkState.DOWN else ""

    def facts(self) -> LinkFacts:
        """A snapshot."""
        node = self.node or self.peer.address
        return LinkFacts(node, self.peer.address, self.epoch, self.state, self.transport, self.problem)

    def stub(self) -> peer_pb2_grpc.PeerAsyncStub | None:
        """The peer's stub over any link that is up, for one that was un-wired or lost; None without."""
        return self._room.stub(self.node)

    def suspect(self) -> None:
        """A transfer failed on the data path: prove the link again. Until then it stays in use."""
        self._suspect.set()

    def regions_changed(self) -> None:
        """This node's regions changed: look again whether they fit the peer's."""
        self._regions_changed.set()

    async def run(self) -> None:
        """Connect, greet, prove, attend; and again."""
        while True:
            try:
                await self._live()
            except HandshakeRefusedError as error:
                log.warning("link to %s: %s", self.peer.address, error)
                await asyncio.sleep(REFUSED_RESTS.rest(1))
            except (HawkAgentError, OSError) as error:
                self._lost(HandshakeProblem(Reason.PEER_UNREACHABLE, str(error)))
                self._failures += 1
                await asyncio.sleep(RESTS.rest(self._failures))

    async def _live(self) -> None:
        opened = wire.open_channel(self.peer.address, self._room.tls, self.peer.node)
        self.channel = channel = PeerChannel(opened, self._room.supervisor)
        try:
            await self._greet(channel.stub)
            await first_ended(self._attend(channel.stub), self._prove_when_needed(), self._look_at_regions())
            raise LinkDownError(f"a task of the link to {self.node} was cancelled")
        finally:
            self.channel = None
            channel.retire()

    async def _greet(self, stub: peer_pb2_grpc.PeerAsyncStub) -> None:
        mine = self._room.identity
        request = peer_pb2.HelloRequest(identity=mine, expected_node=self.peer.node)
        try:
            reply = await stub.Hello(request, timeout=HELLO_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise LinkDownError(_said(error)) from error
        problem = handshake.check_identity(mine, reply.identity, self.peer.node, None)
        if problem is None and reply.refusal:
            known = {reason.value: reason for reason in Reason}
            problem = HandshakeProblem(known.get(reply.refusal, Reason.PEER_REFUSED), reply.message)
        if problem is not None:
            self._lost(problem, LinkState.REFUSED)
            raise HandshakeRefusedError(problem.message)
        if self.identity is not None and self.identity.epoch != reply.identity.epoch:
            log.info("%s restarted: epoch %s is now %s", self.node, self.identity.epoch, reply.identity.epoch)
            self._room.paths.forget(self.identity)
        self.identity = reply.identity
        self._regions = list(reply.regions)
        self._become(LinkState.UP, self._mismatch())

    async def _attend(self, stub: peer_pb2_grpc.PeerAsyncStub) -> None:
        """Follow the peer's presence until it ends, which is always a loss."""
        call = stub.Attend(peer_pb2.AttendRequest(identity=self._room.identity))
        words: asyncio.Queue[peer_pb2.Presence | None] = asyncio.Queue()
        reading = asyncio.create_task(_read(call, words))
        try:
            while True:
                async with asyncio.timeout(PRESENCE_SECONDS):
                    presence = await words.get()
                if presence is None:
                    raise LinkDownError(f"{self.node} closed the link or died")
                if self.identity is not None and presence.epoch != self.identity.epoch:
                    raise LinkDownError(
                        f"{self.node} restarted: epoch {self.identity.epoch} is now {presence.epoch}"
                    )
                if presence.regions_changed:
                    self._take_regions(presence.regions)
        except TimeoutError as error:
            raise LinkDownError(f"{self.node} gave no sign for {PRESENCE_SECONDS:g} s") from error
        finally:
            call.cancel()
            reading.cancel()

    def _take_regions(self, regions: Iterable[peer_pb2.Region]) -> None:
        self._regions = list(regions)
        self._regions_changed.set()
        if self.identity is not None:
            self._room.paths.keep(self.identity, frozenset(region.identity for region in self._regions))

    async def _prove_when_needed(self) -> None:
        """Prove at the start, after a failed transfer, and after a failed proof (with growing rests)."""
        while True:
            self._suspect.clear()
            if await self._prove():
                self._failures = 0
                await self._suspect.wait()
                self._become(
                    LinkState.UP, HandshakeProblem(Reason.CANARY_FAILED, "a transfer failed; proving again")
                )
            await asyncio.sleep(RESTS.rest(self._failures + 1))

    async def _prove(self) -> bool:
        """One canary on each allowed data path until one comes out right."""
        failures = []
        for transport in self._shared_paths():
            try:
                report = await self._room.prove(self, transport)
            except (HawkAgentError, grpc.aio.AioRpcError) as error:
                failures.append(f"{transport}: {_said(error)}")
                continue
            if report.outcome.ok:
                if failures:
                    log.warning("link to %s uses %s, for %s", self.node, transport, "; ".join(failures))
                self.transport = transport
                self._room.metrics.proof_seconds.observe(report.seconds)
                self._become(LinkState.VERIFIED, self._mismatch())
                return True
            failures.append(f"{transport}: {report.outcome.label}, {report.message}")
        self._failures += 1
        self._room.metrics.link_failures.labels(Reason.CANARY_FAILED.value).inc()
        self._become(
            LinkState.UP,
            HandshakeProblem(Reason.CANARY_FAILED, "; ".join(failures) or self._nothing_shared()),
        )
        return False

    def _shared_paths(self) -> list[str]:
        return [] if self.identity is None else self._room.paths.shared_with(self.identity)

    def _nothing_shared(self) -> str:
        return "" if self.identity is None else self._room.paths.explain_nothing_shared(self.identity)

    async def _look_at_regions(self) -> None:
        while True:
            await self._regions_changed.wait()
            self._regions_changed.clear()
            self._become(
                self.state, self._mismatch() or (None if self.state is LinkState.VERIFIED else self.problem)
            )

    def _mismatch(self) -> HandshakeProblem | None:
        return handshake.check_regions(self._room.memory.facts(), self._regions)

    def _lost(self, problem: HandshakeProblem, state: LinkState = LinkState.DOWN) -> None:
        if self.state is not state or self.problem is None or self.problem.reason is not problem.reason:
            self._room.metrics.link_failures.labels(problem.reason.value).inc()
        if self.identity is not None:
            self._room.paths.forget(self.identity)
        self._become(state, problem)

    def _become(self, state: LinkState, problem: HandshakeProblem | None) -> None:
        if (state, problem) != (self.state, self.problem):
            log.info(
                "link to %s is %s%s%s",
                self.node or self.peer.address,
                state.value,
                f" over {self.transport}" if state is LinkState.VERIFIED else "",
                f": {problem[1]}" if problem else "",
            )
        self.state, self.problem = state, problem
        self._room.changed()


async def _read(call: grpc.aio.UnaryStreamCall, words: asyncio.Queue[peer_pb2.Presence | None]) -> None:  # type: ignore[type-arg]
    try:
        with contextlib.suppress(grpc.aio.AioRpcError):
            async for presence in call:
                words.put_nowait(presence)
    finally:
        words.put_nowait(None)


def _said(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error)


class PeerLinks:
    """All links of an agent. `wire` makes the set be what is asked for; what stays the same is left alone."""

    def __init__(
        self,
        identity: peer_pb2.Identity,
        tls: Files | None,
        metrics: AgentMetrics,
        *,
        memory: EngineMemory,
        paths: DataPaths,
        prove: Callable[[PeerLink, str], Awaitable[Report]],
        changed: Callable[[], None],
        supervisor: TaskSupervisor,
    ) -> None:
        self.supervisor = supervisor
        self.identity = identity
        self.tls = tls
        self.metrics = metrics
        self.memory = memory
        self.paths = paths
        self.prove = prove
        self._on_change = changed
        self._links: dict[str, tuple[PeerLink, Duty]] = {}

    def wire(self, peers: Iterable[PeerAddress]) -> None:
        """Keep links to exactly these peers."""
        wanted = {peer.address: peer for peer in peers}
        for address in [a for a, (link, _) in self._links.items() if not _same(link.peer, wanted.get(a))]:
            self._links.pop(address)[1].cancel()
        for address, peer in wanted.items():
            if address not in self._links:
                link = PeerLink(peer, self)
                self._links[address] = (link, self.supervisor.keep(f"link to {address}", link.run))
        self.changed()

    def changed(self) -> None:
        """Count again, and tell who publishes."""
        states = [link.state for link, _ in self._links.values()]
        for state in LinkState:
            self.metrics.links.labels(state.value).set(states.count(state))
        self._on_change()

    def regions_changed(self) -> None:
        """This node's regions changed."""
        for link, _ in self._links.values():
            link.regions_changed()

    def facts(self) -> list[LinkFacts]:
        """Snapshots, by node."""
        return sorted((link.facts() for link, _ in self._links.values()), key=lambda f: (f.node, f.address))

    def to(self, node: str, epoch: str) -> PeerLink:
        """The link to a node's incarnation, ready for a transfer. PeerError says why there is none."""
        found = [link for link, _ in self._links.values() if link.node == node]
        if not found:
            known = (
                ", ".join(sorted(link.node or link.peer.address for link, _ in self._links.values()))
                or "nobody"
            )
            raise NotWiredError(
                f"node {node} isn't wired to this agent; wired: {known} (the sender's agent makes the link)"
            )
        for link in found:
            if link.state in {LinkState.UP, LinkState.VERIFIED} and link.channel is not None:
                if link.epoch != epoch:
                    raise StaleEpochError(
                        f"the ticket is for epoch {epoch} of {node}, which is {link.epoch} now; reserve again"
                    )
                if link.transport:
                    return link
        raise self._unusable(found[0])

    def stub(self, node: str) -> peer_pb2_grpc.PeerAsyncStub | None:
        """A node's stub over a link that is up; None while there is none."""
        for link, _ in self._links.values():
            if (
                link.node == node
                and link.state in {LinkState.UP, LinkState.VERIFIED}
                and link.channel is not None
            ):
                return link.channel.stub
        return None

    @staticmethod
    def _unusable(link: PeerLink) -> PeerError:
        why = link.problem.message if link.problem else "not proved yet"
        kind = HandshakeRefusedError if link.state is LinkState.REFUSED else LinkDownError
        return kind(f"the link to {link.node} is {link.state.value}: {why}")

    def close(self) -> None:
        """Drop all."""
        for _, duty in self._links.values():
            duty.cancel()
        self._links.clear()


def _same(one: PeerAddress, other: PeerAddress | None) -> bool:
    """True if two wishes mean one link. A new epoch of the operator's is no reason to drop what is proved."""
    return other is not None and (one.address, one.node) == (other.address, other.node)
