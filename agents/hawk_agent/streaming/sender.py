"""The sending end of a transfer: from the ticket to the receiver's last word.

A chunk is announced when the completion events of its layers have fired, and sealed with the source's digest
when the receiver reports its arrival: both while the source is held. The source is given back when the
transfer has an outcome *and* this end's access has ended, whatever came first.

The outcome is the receiver's to say. Where the conversation breaks off and the receiver may know of a
success, it is asked over the link as it is then. When a grace ends without an acknowledgement it is asked,
too. Alive: another grace, counted, up to the maximum. Dead or silent: fenced, and the engine may send the
same KV elsewhere, for it still holds the blocks.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import grpc

from hawk_agent.errors import BadRequestError, HawkAgentError, LinkDownError
from hawk_agent.protocol import peer_pb2
from hawk_agent.streaming import lease as leases
from hawk_agent.streaming.conversation import (
    ANSWER_SECONDS,
    Conversation,
    EndingError,
    GoneError,
    LastWordError,
    LeavingError,
    SilenceError,
)
from hawk_agent.streaming.inquiry import PATIENCE_SECONDS, REST_SECONDS, Inquiry
from hawk_agent.streaming.report import Report
from hawk_agent.streaming.source import SendSource
from hawk_agent.streaming.verification import digest_bytes, mismatch
from hawk_agent.transfer import chunks as chunking
from hawk_agent.transfer.outcome import TransferOutcome, outcome_of
from hawk_agent.transfer.translation import layout_to_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import ThreadPoolExecutor

    from hawk_agent.protocol import peer_pb2_grpc
    from hawk_agent.streaming.job import SendJob
    from hawk_agent.transfer.transport import Transport

    Call = grpc.aio.StreamStreamCall[peer_pb2.FromSender, peer_pb2.FromReceiver]

log = logging.getLogger(__name__)


class Outgoing:
    """One transfer at the sender; `result` is its report, and is always set once it has run.

    `reach` gives the peer's stub over the link as it is now, or None: a link that came back is another
    channel.
    """

    def __init__(
        self,
        job: SendJob,
        reach: Callable[[], peer_pb2_grpc.PeerAsyncStub | None],
        transport: Transport,
        *,
        identity: peer_pb2.Identity,
        hashing: ThreadPoolExecutor,
        slots: asyncio.Semaphore,
        clock: Callable[[], float],
    ) -> None:
        self.job = job
        self.peer = job.ticket.node
        self.transport = transport.name
        self._reach = reach
        self._clock = clock
        self._lease = leases.grant(job.terms, clock())
        self._progress = chunking.ChunkProgress(job.chunks)
        self._began = clock()
        self._talk = Conversation()
        self._inquiry = Inquiry(job.ticket, reach, clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._call: Call | None = None
        self._pending: EndingError | LeavingError | None = None
        """This side's end, from when it is met until it is dealt with."""
        self._final: LastWordError | None = None
        self.result: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
        self._source = SendSource(
            job, transport, self._talk, self._progress, hashing=hashing, slots=slots, clock=clock
        )
        self._identity = identity

    def abort(self, outcome: TransferOutcome, message: str) -> None:
        """Ask for an end. Returns at once; the receiver may still have been quicker with a success."""
        self._talk.put(EndingError(outcome, message))

    def leave(self, outcome: TransferOutcome, message: str, *, wait: bool) -> None:
        """Let the source go: its engine or this agent goes away. What isn't complete ends with `outcome`.

        What is complete stays the receiver's; its last word is the outcome if that is waited for.
        """
        self._talk.put(LeavingError(outcome, message, wait=wait))

    async def run(self) -> None:
        """Move it until `result` is set. Begun again after a cancellation, it goes on with what is left."""
        if self._final is None:
            final = await self._outcome()
            self._final = LastWordError(final.outcome, str(final))  # without the frames that it came through
        self._settle(self._final)
        await self._stop_talking()
        await self._source.close()
        self._lease = leases.access_ended(self._lease)
        if not self.result.done():
            self.result.set_result(self._report())

    async def _outcome(self) -> LastWordError:
        """The receiver's last word, or what stands for it when patience ends."""
        while True:
            try:
                await self._go_on()
            except LastWordError as last:
                return last
            except LeavingError as leaving:
                self._pending = leaving
                final = await self._leave(leaving)
            except Exception as error:  # noqa: BLE001 -- whatever it is, it ends this transfer and says so
                self._pending = self._ending(error)
                final = await self._give_up(self._pending)
            if final is not None:
                return final
            self._pending = None

    async def _go_on(self) -> None:
        """From where it stands, until one of the errors ends it."""
        if self._pending is not None:
            raise self._pending
        if self._lease.state is leases.LeaseState.GRANTED:
            await self._open()
        elif self._lease.state is not leases.LeaseState.COMPLETE:
            raise EndingError(TransferOutcome.INTERNAL, "the task that moved it was cancelled")
        await self._follow()

    def _ending(self, error: Exception) -> EndingError:
        if isinstance(error, EndingError):
            return error
        if isinstance(error, HawkAgentError):
            return EndingError(outcome_of(error), str(error))
        log.error("transfer to %s", self.peer, exc_info=error)
        return EndingError(TransferOutcome.INTERNAL, f"{type(error).__name__}: {error}")

    async def _open(self) -> None:
        self._lease = leases.begin(self._lease, self._clock())
        stub = self._reach()
        if stub is None:
            raise LinkDownError("the link is down")
        try:
            self._call = stub.Transfer()
        except grpc.aio.UsageError as error:
            raise LinkDownError(f"the link is closed ({error})") from error
        self._spawn(self._talk.listen(self._call))
        self._spawn(self._talk.write(self._call))
        self._talk.say(begin=self._begin())
        first = await self._talk.next(ANSWER_SECONDS)
        if first.WhichOneof("body") == "complete" and not self.job.chunks:
            self._lease = leases.finish(self._lease, self._clock())
            return
        if first.WhichOneof("body") != "accepted":
            raise EndingError(TransferOutcome.INTERNAL, f"the receiver began with {first.WhichOneof('body')}")
        await self._source.start(first.accepted)
        self._spawn(self._talk.beat())

    def _begin(self) -> peer_pb2.Begin:
        job = self.job
        begin = peer_pb2.Begin(
            identity=self._identity,
            epoch=job.ticket.epoch,
            lease=job.ticket.lease,
            generation=job.ticket.generation,
            token=job.ticket.token,
            pool=job.ticket.pool,
            offer=self._source.offer,
        )
        if job.translation is not None:
            begin.layout.CopyFrom(layout_to_wire(job.translation.source.layout))
            begin.blocks.extend(job.translation.source.blocks)
            begin.layers = job.translation.layers
            begin.chunk_layers = job.chunk_layers
        return begin

    async def _follow(self) -> None:
        """Take the receiver's words until one of the errors ends it; when it is complete, mind the grace."""
        while True:
            if self._lease.state is leases.LeaseState.COMPLETE:
                message = await self._next_or_grace()
            else:
                message = await self._talk.next(self.job.terms.stall)
            self._lease = leases.beat(self._lease, self._clock())
            if message is None:
                continue
            kind = message.WhichOneof("body")
            if kind == "arrived":
                await self._on_arrived(message.arrived)
            elif kind == "complete":
                self._on_complete(message.complete)

    async def _on_arrived(self, arrived: peer_pb2.Arrived) -> None:
        """Compare digests and seal; from here the receiver may count the chunk."""
        now = self._clock()
        ready = self._source.ready.get(arrived.index)
        if ready is None:
            raise EndingError(
                TransferOutcome.INTERNAL, f"chunk {arrived.index} arrived before it was announced"
            )
        digest = await self._source.digest(arrived.index)
        wire = b"" if digest is None else digest_bytes(digest)
        if digest is not None and wire != arrived.digest:
            chunk = self.job.chunks[arrived.index]
            raise EndingError(
                TransferOutcome.DIGEST_MISMATCH, mismatch(chunk, wire, int.from_bytes(arrived.digest, "big"))
            )
        self._progress.add(arrived.index, arrived.bytes, now, now - ready, digest)
        self._talk.say(seal=peer_pb2.Seal(index=arrived.index, digest=wire))

    def _on_complete(self, complete: peer_pb2.Complete) -> None:
        expected = self.job.translation.nbytes if self.job.translation else 0
        if not self._progress.complete or complete.bytes != expected:
            raise EndingError(
                TransferOutcome.INTERNAL,
                f"the receiver calls {complete.bytes} bytes complete, {expected} were sent",
            )
        self._lease = leases.finish(self._lease, self._clock())

    async def _next_or_grace(self) -> peer_pb2.FromReceiver | None:
        """The next word, or None after a grace that was extended."""
        wait = max(0.001, self._lease.deadline - self._clock())
        try:
            return await self._talk.next(wait)
        except GoneError:
            await asyncio.sleep(min(wait, REST_SECONDS))
        except SilenceError:
            pass
        assert self._lease.complete_at is not None
        left = self._lease.complete_at + self.job.terms.max_grace - self._clock()
        await self._inquiry.alive(min(PATIENCE_SECONDS, left))
        extended = leases.extend(self._lease, self._clock())
        if extended.outcome is not None:
            raise EndingError(extended.outcome, extended.message)
        self._lease = extended
        return None

    @property
    def _sealed(self) -> bool:
        """True if the receiver may have a success to tell: it may have heard that every byte is right."""
        return self._progress.complete and self._lease.state is not leases.LeaseState.GRANTED

    async def _leave(self, leaving: LeavingError) -> LastWordError | None:
        """Without the source. None: the transfer goes on."""
        if self._lease.state is not leases.LeaseState.COMPLETE:
            final = await self._give_up(EndingError(leaving.outcome, str(leaving)))
            if final is not None:
                return final
        await self._source.close()
        if leaving.wait:
            return None
        try:
            await self._inquiry.alive(0)
        except LastWordError as final:
            return final
        return LastWordError(leaving.outcome, f"{leaving}; the receiver has every byte and may use it")

    async def _give_up(self, ending: EndingError) -> LastWordError | None:
        """Tell the receiver, and wait until it has stopped; it may know better how this ended.

        None: it is complete there, and this end doesn't revoke it.
        """
        self._source.stop()
        if self._lease.state is leases.LeaseState.COMPLETE and not ending.outcome.revokes:
            log.warning("transfer to %s, complete already: %s", self.peer, ending)
            return None
        if self._call is not None and not isinstance(ending, GoneError | SilenceError):
            self._talk.say(abort=peer_pb2.Abort(outcome=ending.outcome.wire, message=str(ending)))
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    complete = await self._talk.after_abort()
                    if ending.outcome.revokes:
                        await self._talk.after_abort()
                self._on_complete(complete)
            except LastWordError as final:
                return LastWordError(final.outcome, str(final) or str(ending))
            except (TimeoutError, EndingError):
                pass
            else:
                return None
        return await self._ask_for_the_end(ending)

    async def _ask_for_the_end(self, ending: EndingError) -> LastWordError | None:
        """As `_give_up`, where the conversation is over."""
        if not self._sealed:
            return await self._inquiry.end(ending.outcome, str(ending), 0)
        if ending.outcome.revokes:
            return await self._inquiry.end(ending.outcome, str(ending), PATIENCE_SECONDS)
        try:
            await self._inquiry.alive(PATIENCE_SECONDS)
        except LastWordError as final:
            return LastWordError(final.outcome, str(final) or str(ending))
        self._lease = leases.finish(self._lease, self._clock())
        return None

    def _settle(self, final: LastWordError) -> None:
        if not final.outcome.ok:
            self._lease = leases.end(self._lease, final.outcome, str(final))
            return
        try:
            if self._sealed:
                self._lease = leases.finish(self._lease, self._clock())
            self._lease = leases.acknowledge(self._lease)
        except BadRequestError as error:
            self._lease = leases.end(
                self._lease, TransferOutcome.INTERNAL, f"a success that can't be: {error}"
            )

    async def _stop_talking(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._call is not None:
            self._call.cancel()
            self._call = None  # a call that is kept keeps its connection

    def _report(self) -> Report:
        outcome = self._lease.outcome
        assert outcome is not None
        overlap = chunking.measure_overlap(self._progress, self._source.last_layer)
        return Report(
            outcome=outcome,
            message=self._lease.message,
            nbytes=self._progress.nbytes,
            seconds=self._clock() - self._began,
            hidden_share=overlap.hidden_share,
            exposed_seconds=overlap.exposed_seconds,
            digest=self._progress.digest,
            transport=self.transport,
            grace_extensions=self._lease.extensions,
            chunks=tuple(self._progress.arrivals[i] for i in sorted(self._progress.arrivals)),
        )

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Nothing that runs beside the conversation may end unheard."""
        if self._final is not None:
            return
        if task.cancelled():
            self.abort(TransferOutcome.INTERNAL, "a task of the transfer was cancelled")
        elif error := task.exception():
            self.abort(TransferOutcome.INTERNAL, f"{type(error).__name__}: {error}")
