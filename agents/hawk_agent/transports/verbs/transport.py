"""RDMA between two agents: the data path `verbs`.

The sender's agent decides how the bytes go (`strategy`) and over how many rails, makes a queue pair for each
and offers them. The receiver's agent makes its own, opens exactly what the way needs under the lease's fence
(`fence`), and answers over the same authenticated channel, which is the only place where keys travel.
Everything of a transfer ends with it: nothing that a peer was told is good for another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from hawk_agent.errors import BadRequestError, TransportError
from hawk_agent.plans import Costs, RequestLimits
from hawk_agent.protocol import peer_pb2
from hawk_agent.transfer.transport import DestinationEnd, Forecast, RailFacts, SourceEnd, Transport
from hawk_agent.transports.calibration import machine_costs
from hawk_agent.transports.verbs import wire
from hawk_agent.transports.verbs.device import survey_devices
from hawk_agent.transports.verbs.ends import VerbsDestination, VerbsSource
from hawk_agent.transports.verbs.errors import VerbsUnavailableError
from hawk_agent.transports.verbs.fence import FenceChoice, FenceKind, choose_fence
from hawk_agent.transports.verbs.immediate import SHARES, Slots
from hawk_agent.transports.verbs.lane import DEPTH, READS, Lane
from hawk_agent.transports.verbs.library import LIBRARY, fork_status
from hawk_agent.transports.verbs.port import Port
from hawk_agent.transports.verbs.prices import measure_prices
from hawk_agent.transports.verbs.queue_pair import Timeouts
from hawk_agent.transports.verbs.registration import PULLED, STAGING, WINDOWED, check_memlock
from hawk_agent.transports.verbs.strategy import StrategyDecision, VerbsStrategy, decide_strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.metrics import AgentMetrics
    from hawk_agent.transfer.translation import Translation
    from hawk_agent.transfer.transport import TransportContext
    from hawk_agent.transports.verbs.device import DeviceInfo

log = logging.getLogger(__name__)

MOST_TOLD: Final = 256
"""Decisions that are remembered as told."""


class Verbs(Transport):
    """Rails are ports: those of `devices` in that order, or all that are up.

    Args:
        sending: threads that translate what is sent.
        receiving: threads that translate what is received.
        metrics: the agent's.
        devices: names such as ``mlx5_0`` or ``mlx5_0:2``; empty for all.
        gid_index: which GID of the ports to use; None takes a routable one.
        rails: rails of one transfer at most; 0 for all.
        strategy: always this one; None takes the cheapest.
        fence: always this kind; None takes windows where they serve.
        timeouts: how long a queue pair tries.
        costs: prices of the paths; None measures them at start.
        library: what is opened as libibverbs.
    """

    name = "verbs"

    def __init__(
        self,
        sending: ThreadPoolExecutor,
        receiving: ThreadPoolExecutor,
        metrics: AgentMetrics,
        *,
        devices: Sequence[str] = (),
        gid_index: int | None = None,
        rails: int = 0,
        strategy: VerbsStrategy | None = None,
        fence: FenceKind | None = None,
        timeouts: Timeouts | None = None,
        costs: Costs | None = None,
        library: str = LIBRARY,
    ) -> None:
        self._sending = sending
        self._receiving = receiving
        self._metrics = metrics
        self._devices = tuple(devices)
        self._library = library
        self._gid_index = gid_index
        self._most = min(rails or SHARES, SHARES)
        self.strategy = strategy
        self._fence = fence
        self._timeouts = timeouts or Timeouts()
        self._slots = Slots()
        self._costs = costs or Costs()
        self._priced = costs is not None
        self._told: set[str] = set()
        self.ports: list[Port] = []

    @classmethod
    def create(cls, context: TransportContext) -> Verbs:
        """As an agent uses it. BadRequestError for a strategy that there isn't."""
        return cls(
            context.sending,
            context.receiving,
            context.metrics,
            devices=context.rdma_devices,
            gid_index=context.rdma_gid_index,
            rails=context.rails,
            strategy=None if context.strategy == "auto" else _way(context.strategy),
        )

    async def start(self) -> None:
        """Find the ports, open and price them. VerbsUnavailableError says why none can be used."""
        await asyncio.to_thread(self._open)
        loop = asyncio.get_running_loop()
        for port in self.ports:
            loop.add_reader(port.device.events, self._on_event, port)
        costs = self._costs
        log.info(
            "verbs: rails %s; fork protection %s; link %.3g MB/s, %.3g us a write, %.3g us a read, "
            "%.3g us a piece",
            ", ".join(str(port.device.info) for port in self.ports),
            fork_status(self._library),
            costs.link_bytes_per_s / 1e6,
            costs.request_seconds * 1e6,
            costs.read_request_seconds * 1e6,
            costs.sge_seconds * 1e6,
        )

    def _open(self) -> None:
        try:
            for info in find_ports(self._library, self._devices, self._gid_index):
                self.ports.append(Port(info, self._gid_index))
            if not self._priced:
                self._costs = measure_prices(self.ports[0].device, machine_costs())
        except BaseException:
            self._close()
            raise

    async def close(self) -> None:
        """Close the ports; transfers have ended by then."""
        loop = asyncio.get_running_loop()
        for port in self.ports:
            loop.remove_reader(port.device.events)
        self._close()

    def _on_event(self, port: Port) -> None:
        """Say what a device tells of itself; a transfer that suffers of it learns it by its completions."""
        while (event := port.device.event()) is not None:
            log.warning("verbs: %s: %s", port.name, event[0])
            self._metrics.device_events.labels(port.name, event[0]).inc()
            if event[0] == "device-fatal":
                asyncio.get_running_loop().remove_reader(port.device.events)
                return

    def _close(self) -> None:
        while self.ports:
            self.ports.pop().close()

    @property
    def rails(self) -> tuple[RailFacts, ...]:
        """The ports."""
        return tuple(port.facts for port in self.ports)

    async def adopt(self, region: CacheRegion) -> None:
        """Register it now, so that what stands in the way shows before traffic.

        Under keys that stay here; a use that opens it to a peer makes keys of its own.
        """
        check_memlock(region.nbytes * len(self.ports))
        for port in self.ports:
            access = WINDOWED if port.device.limits.max_mw else STAGING
            await asyncio.to_thread(port.registered, region, access)

    # ---- the sender ----

    def offer(self, translation: Translation, source: CacheRegion) -> tuple[peer_pb2.Offer, SourceEnd]:
        """Decide, and make a lane on each rail that can be used. TransportError when none can."""
        decision = self.decide(translation, rails=min(self._most, len(self.ports)))
        self._tell(decision, translation)
        offer = peer_pb2.VerbsOffer(strategy=decision.way.value)
        lanes = self._lanes(self._most, lambda port: Lane(port, self._metrics))
        try:
            for lane in lanes:
                opened = lane.port.registered(source, PULLED).remote_ranges if decision.way.pulled else ()
                offer.rails.append(wire.to_rail(lane.queue.info, opened))
        except BaseException:
            for lane in lanes:
                lane.discard()
            raise
        end = VerbsSource(
            translation,
            source,
            lanes=lanes,
            way=decision.way,
            pool=self._sending,
            timeouts=self._timeouts,
        )
        return peer_pb2.Offer(transport=self.name, verbs=offer), end

    def decide(
        self, translation: Translation, *, rails: int, way: VerbsStrategy | None = None
    ) -> StrategyDecision:
        """How a transfer goes over so many rails; `way`, or the one that is always taken, if given."""
        limits = [port.device.limits for port in self.ports]
        bounds = RequestLimits(
            max_sge=min(one.max_sge for one in limits),
            max_message_bytes=min(one.max_msg_bytes for one in limits),
        )
        return decide_strategy(
            translation.nest, self._costs, bounds, rails=rails, forced=way or self.strategy
        )

    def _tell(self, decision: StrategyDecision, translation: Translation) -> None:
        """Explain a decision when it is the first of its kind."""
        layouts = f"{translation.source.layout.notation} to {translation.destination.layout.notation}"
        if not self._first(f"{layouts} {decision.way.value}"):
            return
        log.info("verbs: %s: %s, %s", layouts, decision.way.value, decision.why)
        if decision.warning:
            log.warning("verbs: %s: %s", layouts, decision.warning)

    def _first(self, told: str) -> bool:
        """True if this is told for the first time; what comes with every transfer needs no line each time."""
        if told in self._told:
            return False
        if len(self._told) >= MOST_TOLD:
            self._told.clear()
        self._told.add(told)
        return True

    def _lanes(self, most: int, make: Callable[[Port], Lane]) -> list[Lane]:
        """A lane on each port that can be used, up to so many. The last problem when none can."""
        lanes: list[Lane] = []
        problem: TransportError | None = None
        for port in self.ports:
            if len(lanes) == most:
                break
            try:
                lanes.append(make(port))
            except TransportError as error:
                problem = error
                self._metrics.rail_failures.labels(port.name, "unusable").inc()
                log.warning("verbs: rail %s isn't used: %s", port.name, error)
        if not lanes:
            raise problem or VerbsUnavailableError("there are no rails")
        return lanes

    # ---- the receiver ----

    async def accept(
        self, offer: peer_pb2.Offer, translation: Translation, destination: CacheRegion, origin: str
    ) -> tuple[peer_pb2.Answer, DestinationEnd]:
        """Make lanes for the offer's rails, connect them, open what the way needs."""
        way = _way(offer.verbs.strategy)
        slot, generation = self._slots.take()
        end = VerbsDestination(
            translation,
            destination,
            way=way,
            pool=self._receiving,
            number=(slot, generation),
            ended=lambda: self._slots.give(slot),
        )
        try:
            answer = peer_pb2.VerbsAnswer(slot=slot, generation=generation)
            most = min(self._most, len(offer.verbs.rails))
            lanes = self._lanes(
                most,
                lambda port: Lane(
                    port,
                    self._metrics,
                    depth=READS if way.pulled else DEPTH,
                    arrived=end.arrived,
                    broken=end.broken,
                ),
            )
            end.lanes = list(lanes)
            fence = None if way.pulled else self._fence_of(translation)
            for lane, rail in zip(lanes, offer.verbs.rails, strict=False):
                opened = await end.connect(lane, rail, fence, self._timeouts)
                answer.rails.append(
                    peer_pb2.Rail() if opened is None else wire.to_rail(lane.queue.info, opened)
                )
            end.opened()
        except BaseException:
            with contextlib.suppress(TransportError):
                await end.stop()
            raise
        return peer_pb2.Answer(verbs=answer), end

    def _fence_of(self, translation: Translation) -> FenceChoice:
        windows = min(port.device.limits.max_mw for port in self.ports)
        table = translation.destination.table
        choice = choose_fence(translation.nest, table, windows=windows, forced=self._fence)
        self._metrics.fences.labels(choice.kind.value).inc()
        if self._first(f"{translation.destination.layout.notation} {choice.kind.value}"):
            log.info("verbs: a lease's fence is %s: %s", choice.kind.value, choice.why)
        return choice

    def forecast(self, translation: Translation, offer: peer_pb2.Offer) -> Forecast | None:
        """By the sender's strategy and this agent's prices; None where that strategy isn't possible here."""
        way = _way(offer.verbs.strategy)
        rails = min(self._most, len(offer.verbs.rails), len(self.ports))
        try:
            return Forecast(way.value, self.decide(translation, rails=rails, way=way).seconds)
        except TransportError:
            return None


def _way(name: str) -> VerbsStrategy:
    try:
        return VerbsStrategy(name)
    except ValueError:
        raise BadRequestError(
            f"strategy {name!r} is unknown here; run one version of the agent on both nodes"
        ) from None


def find_ports(library: str, devices: Sequence[str] = (), gid_index: int | None = None) -> list[DeviceInfo]:
    """The ports asked for, in that order, or all that are up. VerbsUnavailableError says why not."""
    names = devices or [info.name for info in survey_devices(library)[0]]
    gids = {} if gid_index is None else dict.fromkeys(names, gid_index)
    found, reasons = survey_devices(library, gids=gids)
    known = {info.name: info for info in reversed(found)} | {f"{i.name}:{i.port}": i for i in found}
    missing = [name for name in devices if name not in known]
    if missing:
        why = "".join(f"; {reason}" for reason in reasons)
        raise VerbsUnavailableError(
            f"RDMA device {', '.join(missing)} can't be used; usable: {', '.join(known) or 'none'}{why}"
        )
    if not found:
        raise VerbsUnavailableError("; ".join(reasons) or "no RDMA device")
    chosen = [known[name] for name in devices] or found
    for info in chosen:
        for warning in info.warnings:
            log.warning("verbs: %s: %s", info.name, warning)
    return chosen
