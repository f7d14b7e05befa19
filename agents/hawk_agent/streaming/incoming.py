"""One transfer at the receiver, from the sender's first word to the acknowledgement.

A chunk counts as present only when three things have happened in this order: its bytes are in place
(`receive` returned), their digest was re-read from the destination, and the sender sealed the chunk with the
source's digest while it still held the source. A reader that was too late never gets a seal, so nothing stale
is ever called done.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from typing import TYPE_CHECKING

from hawk_agent.errors import LayoutMismatchError, TransportTimeoutError
from hawk_agent.protocol import peer_pb2
from hawk_agent.streaming import lease as leases
from hawk_agent.streaming.verification import digest_bytes, mismatch, sample_of
from hawk_agent.transfer import chunks as chunking
from hawk_agent.transfer import translation as translations
from hawk_agent.transfer.outcome import TransferOutcome, outcome_from_wire, outcome_of
from hawk_agent.transfer.work import CopyWork

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import ThreadPoolExecutor

    from hawk_agent.metrics import AgentMetrics
    from hawk_agent.streaming.table import HeldLease, LeaseTable
    from hawk_agent.supervision import Duty, TaskSupervisor
    from hawk_agent.transfer.translation import Translation
    from hawk_agent.transfer.transport import DestinationEnd, Forecast, Transport

log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0


class Incoming:
    """One transfer at the receiver. `outbox` holds what goes to the sender, then None."""

    def __init__(
        self,
        held: HeldLease,
        begin: peer_pb2.Begin,
        table: LeaseTable,
        *,
        hashing: ThreadPoolExecutor,
        metrics: AgentMetrics,
        supervisor: TaskSupervisor,
        forget: Callable[[HeldLease], None],
    ) -> None:
        self._table = table
        self._held = held
        self._hashing = CopyWork(hashing)
        self._metrics = metrics
        self._supervisor = supervisor
        self._forget = forget
        self._origin = f"{begin.identity.node}/{begin.identity.epoch}"
        self.outbox: asyncio.Queue[peer_pb2.FromReceiver | None] = asyncio.Queue()
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._key = secrets.randbits(64)
        self._sample = sample_of(held.verify)
        self._announced: asyncio.Queue[chunking.Chunk] = asyncio.Queue()
        self._next = 0
        self._arrived: dict[int, tuple[int, float, int]] = {}
        self._forecast: Forecast | None = None
        self._placing = 0.0
        self._end: DestinationEnd | None = None
        self._opening: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._over = False
        """The stream is over; what still runs for it was cancelled by this class."""
        self._closing: Duty | None = None
        self._translation: Translation | None = None
        self._chunks: tuple[chunking.Chunk, ...] = ()
        if not held.empty:
            self._plan(begin)

    def _plan(self, begin: peer_pb2.Begin) -> None:
        layout = translations.layout_from_wire(begin.layout)
        source = translations.Selection(layout, tuple(begin.blocks))
        self._translation = translations.Translation(source, self._held.selection)
        if begin.layers != self._translation.layers:
            raise LayoutMismatchError(
                f"layers: the sender plans {begin.layers}, the lease holds {self._translation.layers}"
            )
        self._chunks = chunking.plan_chunks(begin.layers, begin.chunk_layers)
        self._held.progress = chunking.ChunkProgress(self._chunks)

    def start(self, transport: Transport, offer: peer_pb2.Offer) -> None:
        """Open the data path and say so. A failure concludes the transfer."""
        self._held.began_at = self._table.clock()
        self._held.transport = transport.name
        if self._translation is None:
            self._nothing_to_move()
        else:
            self._opening = self._spawn(self._open(transport, offer, self._translation))

    async def _open(self, transport: Transport, offer: peer_pb2.Offer, translation: Translation) -> None:
        held = self._held
        answer, self._end = await transport.accept(offer, translation, held.region, self._origin)
        if held.lease.state.ended:  # meanwhile; whoever closes waits for this task
            return
        self._forecast = transport.forecast(translation, offer)
        self._say(accepted=peer_pb2.Accepted(answer=answer, digest_key=self._key))
        self._spawn(self._place())
        self._spawn(self._beat())

    def _nothing_to_move(self) -> None:
        """A transfer of no bytes is complete, and needs nobody's acknowledgement."""
        now = self._table.clock()
        self._say(complete=peer_pb2.Complete(bytes=0))
        self._held.update(leases.acknowledge(leases.finish(self._held.lease, now)))
        self.close_with_outcome()
        self._table.retire(self._held)

    def deliver(self, message: peer_pb2.FromSender) -> None:
        """One word of the sender."""
        self._held.lease = leases.beat(self._held.lease, self._table.clock())
        kind = message.WhichOneof("body")
        if kind == "ready":
            self._on_ready(message.ready.index)
        elif kind == "seal":
            self._on_seal(message.seal)
        elif kind == "abort":
            self._on_abort(outcome_from_wire(message.abort.outcome), message.abort.message)
        elif kind != "beat":
            self.conclude(TransferOutcome.REFUSED, f"a word that has no place here: {kind}")

    def _on_abort(self, outcome: TransferOutcome, message: str) -> None:
        """The sender gives up. What is complete stays complete, unless it says that the request is over."""
        if self._held.lease.state is not leases.LeaseState.COMPLETE or outcome.revokes:
            self.conclude(TransferOutcome.INTERNAL if outcome.ok else outcome, message)

    def peer_gone(self) -> None:
        """The stream is over. What is complete stays complete: the sender asks about it by itself."""
        if self._over:
            return
        if self._held.lease.state is leases.LeaseState.COMPLETE:
            self._close_stream()
        else:
            self.conclude(TransferOutcome.PEER_LOST, "the sender's agent closed the stream or died")

    def _on_ready(self, index: int) -> None:
        if index != self._next or index >= len(self._chunks):
            self.conclude(
                TransferOutcome.REFUSED,
                f"chunk {index} announced, chunk {self._next} of {len(self._chunks)} is due",
            )
            return
        self._next += 1
        self._announced.put_nowait(self._chunks[index])

    async def _place(self) -> None:
        """Place announced chunks one after the other and report each."""
        while True:
            chunk = await self._announced.get()
            began = self._table.clock()
            assert self._end is not None
            nbytes = await self._end.receive(chunk)
            self._placing += self._table.clock() - began
            digest = await self._digest(chunk)
            seconds = self._table.clock() - began
            self._arrived[chunk.index] = (nbytes, seconds, digest)
            self._metrics.chunk_arrived(self._held.transport, nbytes, seconds)
            self._say(
                arrived=peer_pb2.Arrived(
                    index=chunk.index, bytes=nbytes, seconds=seconds, digest=digest_bytes(digest)
                )
            )

    async def _digest(self, chunk: chunking.Chunk) -> int:
        if not self._sample:
            return 0
        translation, memory = self._translation, self._held.region.memory
        assert translation is not None
        return await self._hashing.run(
            lambda: translation.digest_destination(chunk, memory, self._key, self._sample)
        )

    def _on_seal(self, seal: peer_pb2.Seal) -> None:
        known = self._arrived.get(seal.index)
        progress = self._held.progress
        if known is None or progress is None:
            self.conclude(TransferOutcome.REFUSED, f"chunk {seal.index} sealed before it arrived")
            return
        nbytes, seconds, digest = known
        if self._sample and seal.digest != digest_bytes(digest):
            self.conclude(
                TransferOutcome.DIGEST_MISMATCH, mismatch(self._chunks[seal.index], seal.digest, digest)
            )
            return
        if self._held.lease.state is not leases.LeaseState.WRITING:
            return
        progress.add(seal.index, nbytes, self._table.clock(), seconds, digest if self._sample else None)
        if progress.complete:
            self._supervisor.finish(f"completing lease {self._held.id}", self._finish)
        else:
            self._held.notify()

    async def _finish(self) -> None:
        """Every chunk is sealed: end access first, then say complete."""
        await self._stop_end()
        held = self._held
        if held.lease.state is not leases.LeaseState.WRITING:
            return
        held.update(leases.finish(held.lease, self._table.clock()))
        if held.progress is not None:
            self._say(complete=peer_pb2.Complete(bytes=held.progress.nbytes))
        if self._forecast is not None:
            self._metrics.forecast_measured(
                held.transport, self._forecast.strategy, self._forecast.seconds, self._placing
            )

    def conclude(self, outcome: TransferOutcome, message: str) -> None:
        """End without success, unless the outcome is decided already. Returns at once; see `finished`."""
        decided = self._held.lease.state.ended
        self._held.lease = leases.end(self._held.lease, outcome, message)
        if not decided:
            self._metrics.lease_failed(self._held.transport, outcome.label)
        self._held.notify()
        if self._closing is None and not self.finished.done():
            self._closing = self._supervisor.finish(f"closing lease {self._held.id}", self._close)

    async def _close(self) -> None:
        """Stop the writer, then hand the blocks back, then tell the sender."""
        held = self._held
        if self._opening is not None:
            await asyncio.wait([self._opening])
        await self._stop_end()
        held.update(leases.access_ended(held.lease))
        self._table.retire(held)
        self.close_with_outcome()

    def close_with_outcome(self) -> None:
        """The receiver's last word: the lease's outcome."""
        lease = self._held.lease
        assert lease.outcome is not None
        self._say(ended=peer_pb2.Ended(outcome=lease.outcome.wire, message=lease.message))
        self._close_stream()

    def _close_stream(self) -> None:
        self._over = True
        for task in self._tasks:
            task.cancel()
        self.outbox.put_nowait(None)
        self._forget(self._held)
        if not self.finished.done():
            self.finished.set_result(None)

    async def _stop_end(self) -> None:
        """End the other side's access. As long as that can't be done, the blocks stay in use."""
        while True:
            try:
                await self._hashing.drained()
                if self._end is not None:
                    await self._end.stop()
            except TransportTimeoutError as error:
                log.error("lease %d: %s", self._held.id, error)  # noqa: TRY400 -- no traceback needed
            else:
                return

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self._say(beat=peer_pb2.Beat())

    def _say(self, **body: object) -> None:
        self.outbox.put_nowait(peer_pb2.FromReceiver(**body))  # type: ignore[arg-type]

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Nothing that runs beside the conversation may end unheard."""
        error = None if task.cancelled() else task.exception()
        if self._over or self._held.lease.state is leases.LeaseState.COMPLETE:
            return
        if task.cancelled():
            self.conclude(TransferOutcome.INTERNAL, "a task of the transfer was cancelled")
        elif error is not None:
            self.conclude(outcome_of(error), str(error) or type(error).__name__)


async def pump_messages(incoming: Incoming, requests: object) -> None:
    """Carry a sender's words to its transfer until the stream ends, however it ends."""
    try:
        with contextlib.suppress(Exception):
            async for message in requests:  # type: ignore[attr-defined]
                incoming.deliver(message)
    finally:
        incoming.peer_gone()
