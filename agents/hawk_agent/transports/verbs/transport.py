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
from typing import TYPE_CHECKING

from hawk_agent.errors import BadRequestError, TransportError
from hawk_agent.memory.registration import PULLED, STAGING, WINDOWED, Access, preflight
from hawk_agent.plans import Costs, Limits
from hawk_agent.protocol import peer_pb2
from hawk_agent.transports.base import DestinationEnd, RailFacts, SourceEnd, Transport
from hawk_agent.transports.calibration import Forecast, machine
from hawk_agent.transports.verbs import wire
from hawk_agent.transports.verbs.device import survey
from hawk_agent.transports.verbs.ends import Destination, Source
from hawk_agent.transports.verbs.errors import VerbsUnavailableError
from hawk_agent.transports.verbs.fence import Choice, Kind, choose
from hawk_agent.transports.verbs.immediate import SHARES, Slots
from hawk_agent.transports.verbs.lane import Lane
from hawk_agent.transports.verbs.library import fork_status
from hawk_agent.transports.verbs.port import Port
from hawk_agent.transports.verbs.prices import calibrate
from hawk_agent.transports.verbs.queue_pair import Timeouts
from hawk_agent.transports.verbs.strategy import Decision, Way, decide

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from hawk_agent.memory.region import Region
    from hawk_agent.service.metrics import Metrics
    from hawk_agent.streaming.translation import Translation
    from hawk_agent.transports.verbs.device import DeviceInfo

log = logging.getLogger(__name__)


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
    """

    name = "verbs"

    def __init__(
        self,
        sending: ThreadPoolExecutor,
        receiving: ThreadPoolExecutor,
        metrics: Metrics,
        *,
        devices: Sequence[str] = (),
        gid_index: int | None = None,
        rails: int = 0,
        strategy: Way | None = None,
        fence: Kind | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._sending = sending
        self._receiving = receiving
        self._metrics = metrics
        self._devices = tuple(devices)
        self._gid_index = gid_index
        self._most = min(rails or SHARES, SHARES)
        self._strategy = strategy
        self._fence = fence
        self._timeouts = timeouts or Timeouts()
        self._slots = Slots()
        self._costs = Costs()
        self.ports: list[Port] = []

    async def start(self) -> None:
        """Find the ports, open and price them. VerbsUnavailableError says why none can be used."""
        await asyncio.to_thread(self._open)
        costs = self._costs
        log.info(
            "verbs: rails %s; fork protection %s; link %.3g MB/s, %.3g us a request, %.3g us a piece",
            ", ".join(str(port.device.info) for port in self.ports),
            fork_status(),
            costs.link_bytes_per_s / 1e6,
            costs.request_seconds * 1e6,
            costs.sge_seconds * 1e6,
        )

    def _open(self) -> None:
        try:
            for info in find(self._devices, self._gid_index):
                self.ports.append(Port(info, self._gid_index))
            self._costs = calibrate(self.ports[0].device, machine())
        except BaseException:
            self._close()
            raise

    async def close(self) -> None:
        """Close the ports; transfers have ended by then."""
        self._close()

    def _close(self) -> None:
        while self.ports:
            self.ports.pop().close()

    @property
    def rails(self) -> tuple[RailFacts, ...]:
        """The ports."""
        return tuple(port.facts for port in self.ports)

    async def adopt(self, region: Region) -> None:
        """Register it now, so that what stands in the way shows before traffic.

        Under keys that stay here; a use that opens it to a peer makes keys of its own.
        """
        preflight(region.nbytes * len(self.ports))
        for port in self.ports:
            access = WINDOWED if port.device.limits.max_mw else STAGING
            await asyncio.to_thread(port.registered, region, access)

    # ---- the sender ----

    def offer(self, translation: Translation, source: Region) -> tuple[peer_pb2.Offer, SourceEnd]:
        """Decide, and make a lane on each rail that can be used. TransportError when none can."""
        lanes = self._lanes(self._most, lambda port: Lane(port, self._metrics))
        decision = self._decide(translation, len(lanes))
        opened = [
            lane.port.registered(source, PULLED).remote_keys if decision.way.pulled else () for lane in lanes
        ]
        offer = peer_pb2.VerbsOffer(
            strategy=decision.way.value,
            rails=[wire.to_rail(lane.queue.info, keys) for lane, keys in zip(lanes, opened, strict=True)],
        )
        end = Source(
            translation,
            source,
            lanes=lanes,
            way=decision.way,
            pool=self._sending,
            timeouts=self._timeouts,
        )
        return peer_pb2.Offer(transport=self.name, verbs=offer), end

    def _decide(self, translation: Translation, rails: int, asked: Way | None = None) -> Decision:
        limits = self.ports[0].device.limits
        bounds = Limits(max_sge=limits.max_sge, max_message_bytes=limits.max_msg_bytes)
        decision = decide(translation.nest, self._costs, bounds, rails=rails, forced=asked or self._strategy)
        log.debug("verbs: %s: %s", decision.way.value, decision.why)
        if decision.warning:
            log.warning("verbs: %s", decision.warning)
        return decision

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
        self, offer: peer_pb2.Offer, translation: Translation, destination: Region, origin: str
    ) -> tuple[peer_pb2.Answer, DestinationEnd]:
        """Make lanes for the offer's rails, connect them, open what the way needs."""
        way = _way(offer.verbs.strategy)
        slot, generation = self._slots.take()
        end = Destination(
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
            end.lanes = self._lanes(
                most, lambda port: Lane(port, self._metrics, arrived=end.arrived, broken=end.broken)
            )
            rails = list(offer.verbs.rails)[: len(end.lanes)]
            for lane, rail in zip(end.lanes, rails, strict=True):
                lane.connect(
                    wire.endpoint(rail), Access.NONE if way.pulled else Access.REMOTE_WRITE, self._timeouts
                )
                keys = () if way.pulled else await lane.open(destination, self._fenced(lane, translation))
                answer.rails.append(wire.to_rail(lane.queue.info, keys))
            end.opened(rails)
        except BaseException:
            with contextlib.suppress(TransportError):
                await end.stop()
            raise
        return peer_pb2.Answer(verbs=answer), end

    def _fenced(self, lane: Lane, translation: Translation) -> Choice:
        choice = choose(
            translation.nest,
            translation.destination.table,
            windows=lane.port.device.limits.max_mw,
            forced=self._fence,
        )
        self._metrics.fences.labels(choice.kind.value).inc()
        log.debug("verbs: fence of the lease on %s: %s, %s", lane.port.name, choice.kind.value, choice.why)
        return choice

    def forecast(self, translation: Translation, offer: peer_pb2.Offer) -> Forecast | None:
        """By the sender's strategy and this agent's prices."""
        way = _way(offer.verbs.strategy)
        rails = min(self._most, len(offer.verbs.rails), len(self.ports))
        try:
            return Forecast(way.value, self._decide(translation, rails, way).seconds)
        except TransportError:  # the sender has its own limits
            return None


def _way(name: str) -> Way:
    try:
        return Way(name)
    except ValueError:
        raise BadRequestError(
            f"strategy {name!r} is unknown here; run one version of the agent on both nodes"
        ) from None


def find(devices: Sequence[str] = (), gid_index: int | None = None) -> list[DeviceInfo]:
    """The ports asked for, in that order, or all that are up. VerbsUnavailableError says why not."""
    gids = {} if gid_index is None else dict.fromkeys(devices or _every(), gid_index)
    found, reasons = survey(gids=gids)
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


def _every() -> list[str]:
    return [info.name for info in survey()[0]]
