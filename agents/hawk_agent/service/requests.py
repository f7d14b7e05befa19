"""One engine's requests, and its own regions, leases and transfers."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, TypeVar

from hawk_agent.errors import (
    BadRequestError,
    NotYetError,
    RegionError,
    TransferFailedError,
    UnknownLeaseError,
    VersionMismatchError,
)
from hawk_agent.protocol import engine_pb2
from hawk_agent.service.engine_identity import check_node, check_worker
from hawk_agent.service.settings import PROTOCOL
from hawk_agent.streaming.lease import LeaseState
from hawk_agent.streaming.report import ReportStore
from hawk_agent.transfer import translation as translations
from hawk_agent.transfer.outcome import TransferOutcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.protocol import peer_pb2
    from hawk_agent.service.engine_identity import EnginePod, Reviewer
    from hawk_agent.service.engine_memory import EngineMemory
    from hawk_agent.service.reservations import Reservations
    from hawk_agent.service.sends import Sends
    from hawk_agent.streaming.receiver import Receiver
    from hawk_agent.streaming.report import Report
    from hawk_agent.streaming.sender import Outgoing
    from hawk_agent.streaming.table import LeaseRecord

T = TypeVar("T")
MAX_WAIT_SECONDS = 600.0


class Requests:
    """The requests of one connection, `owner`. Without a reviewer no engine has to show a token."""

    def __init__(
        self,
        owner: object,
        *,
        identity: peer_pb2.Identity,
        reviewer: Reviewer | None,
        memory: EngineMemory,
        reservations: Reservations,
        receiver: Receiver,
        sends: Sends,
    ) -> None:
        self._owner = owner
        self._identity = identity
        self._reviewer = reviewer
        self._memory = memory
        self._reservations = reservations
        self._receiver = receiver
        self._sends = sends
        self._regions: dict[str, CacheRegion] = {}
        self._transfers: dict[int, Outgoing] = {}
        """Those under way."""
        self._reports = ReportStore()
        self._registering = asyncio.Lock()
        self._made = 0
        self.greeted = False
        self._pod: EnginePod | None = None
        self._handlers: dict[str, Callable[[engine_pb2.Request, list[int]], Awaitable[engine_pb2.Reply]]] = {
            "hello": self._hello,
            "register": self._register,
            "unregister": self._unregister,
            "reserve": self._reserve,
            "push": self._push,
            "wait_layers": self._wait_layers,
            "acknowledge": self._acknowledge,
            "release": self._release,
            "await_transfer": self._await_transfer,
            "abort_transfer": self._abort_transfer,
            "decline": self._decline,
            "await_idle": self._await_idle,
        }

    async def answer(self, request: engine_pb2.Request, descriptors: list[int]) -> engine_pb2.Reply:
        """Do one request. HawkAgentError says what is wrong with it. It removes the descriptors that it
        takes."""
        body = request.WhichOneof("body")
        assert body is not None
        if not self.greeted and body != "hello":
            raise VersionMismatchError(
                "the first request of a connection is hello, with the protocol's version"
            )
        reply = await self._handlers[body](request, descriptors)
        reply.id = request.id
        return reply

    async def close(self) -> None:
        """The engine is gone: end its leases and transfers safely, then let its regions go."""
        for transfer in tuple(self._transfers.values()):
            transfer.leave(TransferOutcome.ENGINE_LOST, "the prefill engine closed its connection", wait=True)
        ends = [
            self._receiver.end(held, TransferOutcome.ENGINE_LOST, "the decode engine closed its connection")
            for held in self._reservations.owned_by(self._owner)
        ]
        await asyncio.gather(*ends, return_exceptions=True)
        for region in self._regions.values():
            self._memory.unregister(region)
        self._regions.clear()

    async def _hello(self, request: engine_pb2.Request, _: list[int]) -> engine_pb2.Reply:
        identity = self._identity
        if request.hello.protocol != PROTOCOL:
            raise VersionMismatchError(
                f"the engine speaks protocol {request.hello.protocol}, the agent {PROTOCOL} (version "
                f"{identity.version}); install one version of hawkpool on both"
            )
        if self._reviewer is not None:
            self._pod = await self._reviewer.review(request.hello.token)
            check_node(self._pod, identity.node)
        self.greeted = True
        return engine_pb2.Reply(
            welcome=engine_pb2.Welcome(
                protocol=PROTOCOL, version=identity.version, node=identity.node, epoch=identity.epoch
            )
        )

    async def _register(self, request: engine_pb2.Request, descriptors: list[int]) -> engine_pb2.Reply:
        if len(descriptors) != 1:
            raise BadRequestError(f"register takes one descriptor, the memory; {len(descriptors)} came")
        if self._pod is not None:
            check_worker(self._pod, request.register.pool, request.register.worker)
        async with self._registering:  # one after the other: a repeated request finds the first one's region
            region = self._registered(request.register, descriptors[0])
            if region is None:
                region = await self._memory.register(descriptors[0], request.register)
                self._regions[region.name] = region
        return engine_pb2.Reply(
            registered=engine_pb2.Registered(bytes=region.nbytes, fingerprint=region.layout.fingerprint)
        )

    def _registered(self, request: engine_pb2.Register, descriptor: int) -> CacheRegion | None:
        """The region that an earlier request of the same words and memory made, whose answer got lost."""
        region = self._regions.get(request.region)
        if region is None:
            return None
        same = (region.pool, region.group, region.worker) == (request.pool, request.group, request.worker)
        layout = translations.layout_from_wire(request.layout)
        if same and region.layout == layout and region.is_memory(descriptor):
            return region
        raise RegionError(
            f"region {region.name} is registered already; unregister it first, or choose another name"
        )

    async def _unregister(self, request: engine_pb2.Request, _: list[int]) -> engine_pb2.Reply:
        region = self._own(request.unregister.region)
        del self._regions[region.name]
        self._memory.unregister(region)
        return engine_pb2.Reply(done=engine_pb2.Done())

    async def _reserve(self, request: engine_pb2.Request, _: list[int]) -> engine_pb2.Reply:
        held = self._reservations.reserve(request.reserve, self._own(request.reserve.region), self._owner)
        ticket = self._reservations.ticket(held).SerializeToString()
        on_failure = self._reservations.on_failure(held)
        return engine_pb2.Reply(
            reserved=engine_pb2.Reserved(lease=held.id, ticket=ticket, on_failure=on_failure)
        )

    async def _push(self, request: engine_pb2.Request, descriptors: list[int]) -> engine_pb2.Reply:
        events = list(descriptors)
        descriptors.clear()  # push takes them over, whatever comes
        outgoing = self._sends.push(request.push, events, self._own)
        self._made += 1
        self._transfers[self._made] = outgoing
        outgoing.result.add_done_callback(functools.partial(self._keep_report, self._made))
        return engine_pb2.Reply(pushed=engine_pb2.Pushed(transfer=self._made))

    def _keep_report(self, number: int, result: asyncio.Future[Report]) -> None:
        """Of a finished transfer nothing else is kept."""
        del self._transfers[number]
        self._reports.add(number, result.result())

    async def _await_transfer(self, request: engine_pb2.Request, _: list[int]) -> engine_pb2.Reply:
        asked = request.await_transfer
        return await self._ended(asked.transfer, asked.timeout_ms, "the transfer")

    async def _abort_transfer(self, request: engine_pb2.Request, _: list[int]) -> engine_pb2.Reply:
        asked = request.abort_transfer
        transfer = self._transfers.get(asked.transfer)
        if transfer is not None:
            transfer.abort(TransferOutcome.ABORTED_BY_SENDER, asked.reason or "the prefill engine gave up")
        return await self._ended(asked.transfer, 0, "the end of the transfer")

    async def _ended(self, number: int, milliseconds: int, what: str) -> engine_pb2.Reply:
        """A transfer's report, waited for if need be."""
        transfer = self._transfers.get(number)
        if transfer is not None:
            report = await _within(asyncio.shield(transfer.result), milliseconds, what)
            return engine_pb2.Reply(ended=report.to_wire())
        ended = self._reports.get(number)
        if ended is None:
            raise UnknownLeaseError(f"transfer {number} isn't one of this engine's, or ended long ago")
        return engine_pb2.Reply(ended=ended)

    async def _decline(self, request: engine_pb2.Request, _: list[int]) -> engine_pb2.Reply:
        await self._sends.decline(request.decline.ticket, request.decline.reason)
        return engine_pb2.Reply(done=engine_pb2.Done())

    async def _wait_layers(self, request: engine_pb2.Request, _: list[int]) -> engine_pb2.Reply:
        held = self._held(request.wait_layers.lease)
        wanted = request.wait_layers.layer + 1
        layers = held.layers
        if wanted > layers:
            raise BadRequestError(f"layer {wanted - 1} is outside the lease's 0 to {layers - 1}")

        def there() -> bool:
            return held.lease.state.ended or _complete(held) or (held.present >= wanted and wanted < layers)

        await _within(held.until(there), request.wait_layers.timeout_ms, f"layer {wanted - 1}")
        if held.lease.outcome is not None and not held.lease.outcome.ok:
            raise TransferFailedError(held.lease.outcome, held.lease.message)
        return engine_pb2.Reply(
            layers=engine_pb2.Layers(
                present=layers if _complete(held) else held.present, complete=_complete(held)
            )
        )

    async def _acknowledge(self, request: engine_pb2.Request, _: list[int]) -> engine_pb2.Reply:
        held = self._held(request.acknowledge.lease)
        if held.lease.outcome is not None and not held.lease.outcome.ok:
            raise TransferFailedError(held.lease.outcome, held.lease.message)
        self._receiver.acknowledge(held)
        return engine_pb2.Reply(ended=self._reservations.report(held))

    async def _release(self, request: engine_pb2.Request, _: list[int]) -> engine_pb2.Reply:
        held = self._held(request.release.lease)
        await self._receiver.end(
            held, TransferOutcome.ABORTED_BY_RECEIVER, "the decode engine gave the lease back"
        )
        return engine_pb2.Reply(ended=self._reservations.report(held))

    async def _await_idle(self, request: engine_pb2.Request, _: list[int]) -> engine_pb2.Reply:
        asked = request.await_idle
        if self._pod is not None:
            check_worker(self._pod, asked.pool, asked.worker)
        idle = self._memory.idle(asked.pool, asked.worker)
        await _within(idle, asked.timeout_ms, f"the end of what uses {asked.worker}")
        return engine_pb2.Reply(done=engine_pb2.Done())

    def _own(self, name: str) -> CacheRegion:
        """A region of this engine's, or RegionError."""
        try:
            return self._regions[name]
        except KeyError:
            known = ", ".join(sorted(self._regions)) or "none"
            raise RegionError(f"this engine has registered no region {name}; its regions: {known}") from None

    def _held(self, lease: int) -> LeaseRecord:
        return self._reservations.of(lease, self._owner)


def _complete(held: LeaseRecord) -> bool:
    return held.lease.state in {LeaseState.COMPLETE, LeaseState.ACKNOWLEDGED}


async def _within(work: Awaitable[T], milliseconds: int, what: str) -> T:
    seconds = min(milliseconds / 1000 or MAX_WAIT_SECONDS, MAX_WAIT_SECONDS)
    try:
        return await asyncio.wait_for(work, seconds)
    except TimeoutError:
        raise NotYetError(f"{what} did not come within {seconds:g} s; it may still") from None
