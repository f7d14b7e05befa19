"""The sending end of a transfer: from the ticket to the receiver's last word.

A chunk is announced when the completion events of its layers have fired, and sealed with the source's digest
when the receiver reports its arrival: both while the source is held. The source is given back when the
transfer has an outcome *and* this end's access has ended, whatever came first.

When a grace ends without an acknowledgement the receiver is asked. Alive: another grace, counted, up to the
maximum. Dead or silent: fenced, and the engine may send the same KV elsewhere, for it still holds the blocks.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import grpc

from hawk_agent.errors import BadRequestError, HawkAgentError, LinkDownError, TransportTimeoutError
from hawk_agent.protocol import peer_pb2
from hawk_agent.streaming import lease as leases
from hawk_agent.streaming.conversation import (
    ANSWER_SECONDS,
    Conversation,
    EndingError,
    GoneError,
    LastWordError,
    SilenceError,
)
from hawk_agent.streaming.job import Job, fired
from hawk_agent.streaming.report import Report
from hawk_agent.streaming.verification import digest_bytes, mismatch, sample_of
from hawk_agent.transfer import chunks as chunking
from hawk_agent.transfer.outcome import Outcome, from_wire, outcome_of
from hawk_agent.transfer.translation import to_wire
from hawk_agent.transfer.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import ThreadPoolExecutor

    from hawk_agent.protocol import peer_pb2_grpc
    from hawk_agent.transfer.transport import SourceEnd, Transport

    Call = grpc.aio.StreamStreamCall[peer_pb2.FromSender, peer_pb2.FromReceiver]

log = logging.getLogger(__name__)

INQUIRY_SECONDS = 1.0
INQUIRIES = 4


class Outgoing:
    """One transfer at the sender; `result` is its report, and is always set."""

    def __init__(
        self,
        job: Job,
        stub: Callable[[], peer_pb2_grpc.PeerAsyncStub | None],
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
        self._stub = stub
        self._slots = slots
        self._clock = clock
        self._hashing = Work(hashing)
        self._lease = leases.grant(job.terms, clock())
        self._progress = chunking.Progress(job.chunks)
        self._sample = sample_of(job.ticket.verify)
        self._digests: dict[int, asyncio.Task[int]] = {}
        self._key = 0
        self._began = self._last_layer = clock()
        self._ready: dict[int, float] = {}
        self._talk = Conversation()
        self._tasks: set[asyncio.Task[None]] = set()
        self._feeding: asyncio.Task[None] | None = None
        self.result: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
        job.region.retain()
        self._end: SourceEnd | None = None
        self._begin = peer_pb2.Begin(
            identity=identity,
            epoch=job.ticket.epoch,
            lease=job.ticket.lease,
            generation=job.ticket.generation,
            token=job.ticket.token,
            pool=job.ticket.pool,
            offer=peer_pb2.Offer(transport=transport.name),
        )
        if job.translation is not None:
            try:
                offer, self._end = transport.offer(job.translation, job.region)
            except BaseException:
                job.region.release()
                raise
            self._begin.offer.CopyFrom(offer)
            self._begin.layout.CopyFrom(to_wire(job.translation.source.layout))
            self._begin.blocks.extend(job.translation.source.blocks)
            self._begin.layers = job.translation.layers
            self._begin.chunk_layers = job.chunk_layers

    def abort(self, outcome: Outcome, message: str) -> None:
        """Ask for an end. Returns at once; the receiver may still have been quicker with a success."""
        self._talk.abort(outcome, message)

    async def run(self) -> Report:
        """Move it. Never raises but for cancellation; the report tells."""
        self._lease = leases.begin(self._lease, self._clock())
        call: Call | None = None
        try:
            call = self._peer().Transfer()
            final = await self._converse(call)
        except (LinkDownError, grpc.aio.UsageError) as error:
            final = LastWordError(Outcome.PEER_LOST, _said(error))
        except Exception as error:
            log.exception("transfer to %s", self.peer)
            final = LastWordError(Outcome.INTERNAL, f"{type(error).__name__}: {error}")
        finally:
            await self._stop_tasks()
        self._settle(final)
        await self._stop_end()
        if call is not None:
            call.cancel()
        self._lease = leases.access_ended(self._lease)
        self.job.region.release()
        self.job.close()
        report = self._report()
        if not self.result.done():
            self.result.set_result(report)
        return report

    def _peer(self) -> peer_pb2_grpc.PeerAsyncStub:
        """The peer over the link as it is now: a link that came back is another channel."""
        stub = self._stub()
        if stub is None:
            raise LinkDownError("the link is down")
        return stub

    async def _converse(self, call: Call) -> LastWordError:
        """The whole conversation, down to the receiver's last word or the end of patience."""
        self._spawn(self._talk.listen(call))
        self._spawn(self._talk.write(call))
        try:
            self._talk.say(begin=self._begin)
            await self._open()
            return await self._follow()
        except LastWordError as final:
            return final
        except EndingError as ending:
            return await self._give_up(ending)
        except HawkAgentError as error:
            return await self._give_up(EndingError(outcome_of(error), str(error)))

    async def _open(self) -> None:
        first = await self._talk.next(ANSWER_SECONDS)
        if first.WhichOneof("body") == "complete" and not self.job.chunks:
            self._lease = leases.finish(self._lease, self._clock())
            return
        if first.WhichOneof("body") != "accepted":
            raise EndingError(Outcome.INTERNAL, f"the receiver began with {first.WhichOneof('body')}")
        self._key = first.accepted.digest_key
        assert self._end is not None
        await self._end.connect(first.accepted.answer)
        self._feeding = self._spawn(self._feed())
        self._spawn(self._talk.beat())

    async def _follow(self) -> LastWordError:
        """Take the receiver's words until the last; when it is complete, mind the grace."""
        while True:
            if self._lease.state is leases.State.COMPLETE:
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
        if arrived.index not in self._ready:
            raise EndingError(Outcome.INTERNAL, f"chunk {arrived.index} arrived before it was announced")
        digest = await self._digests[arrived.index] if self._sample else None
        wire = b"" if digest is None else digest_bytes(digest)
        if digest is not None and wire != arrived.digest:
            chunk = self.job.chunks[arrived.index]
            raise EndingError(
                Outcome.DIGEST_MISMATCH, mismatch(chunk, wire, int.from_bytes(arrived.digest, "big"))
            )
        self._progress.add(arrived.index, arrived.bytes, now, now - self._ready[arrived.index], digest)
        self._talk.say(seal=peer_pb2.Seal(index=arrived.index, digest=wire))

    def _on_complete(self, complete: peer_pb2.Complete) -> None:
        expected = self.job.translation.nbytes if self.job.translation else 0
        if not self._progress.complete or complete.bytes != expected:
            raise EndingError(
                Outcome.INTERNAL, f"the receiver calls {complete.bytes} bytes complete, {expected} were sent"
            )
        self._lease = leases.finish(self._lease, self._clock())

    async def _next_or_grace(self) -> peer_pb2.FromReceiver | None:
        """The next word, or None after a grace that was extended."""
        wait = max(0.001, self._lease.deadline - self._clock())
        try:
            return await self._talk.next(wait)
        except SilenceError:
            pass
        except GoneError:
            await asyncio.sleep(min(wait, INQUIRY_SECONDS / INQUIRIES))
        await self._inquire()
        extended = leases.extend(self._lease, self._clock())
        if extended.outcome is not None:
            raise EndingError(extended.outcome, extended.message)
        self._lease = extended
        return None

    async def _inquire(self) -> None:
        """Ask what became of the lease. Returns if it is alive."""
        ticket = self.job.ticket
        request = peer_pb2.InquireRequest(
            epoch=ticket.epoch, lease=ticket.lease, generation=ticket.generation
        )
        problem = ""
        for _ in range(INQUIRIES):
            try:
                reply = await self._peer().Inquire(request, timeout=INQUIRY_SECONDS)
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, LinkDownError) as error:
                problem = _said(error)
                await asyncio.sleep(INQUIRY_SECONDS / INQUIRIES)
                continue
            if reply.epoch != ticket.epoch:
                raise LastWordError(
                    Outcome.PEER_LOST, f"the receiver restarted: epoch {ticket.epoch} is now {reply.epoch}"
                )
            if not reply.alive:
                raise LastWordError(from_wire(reply.outcome), "")
            return
        raise LastWordError(
            Outcome.PEER_LOST, f"no acknowledgement and no answer to {INQUIRIES} inquiries ({problem})"
        )

    async def _give_up(self, ending: EndingError) -> LastWordError:
        """Tell the receiver, and wait until it has stopped; it may know better how this ended."""
        if self._feeding is not None:
            self._feeding.cancel()
        if ending.outcome is Outcome.PEER_LOST:
            return LastWordError(ending.outcome, str(ending))
        try:
            self._talk.say(abort=peer_pb2.Abort(outcome=ending.outcome.wire, message=str(ending)))
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._talk.last_word(str(ending))
        except (TimeoutError, HawkAgentError):
            return LastWordError(ending.outcome, str(ending))

    async def _feed(self) -> None:
        """Announce and send each chunk when its layers are complete."""
        assert self._end is not None
        events = iter(self.job.events)
        try:
            for chunk, wait in zip(self.job.chunks, self.job.waits, strict=True):
                for _ in range(wait):
                    await fired(next(events), self.job.layer_timeout)
                self._last_layer = self._ready[chunk.index] = self._clock()
                async with self._slots:
                    if self._sample:
                        self._digests[chunk.index] = asyncio.create_task(self._digest(chunk))
                    self._talk.say(ready=peer_pb2.Ready(index=chunk.index))
                    await self._end.send(chunk)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it ends the transfer
            if self._progress.complete:  # every chunk is in and sealed: no late word of the path changes that
                return
            self.abort(outcome_of(error), str(error) or type(error).__name__)

    async def _digest(self, chunk: chunking.Chunk) -> int:
        translation, memory = self.job.translation, self.job.region.memory
        assert translation is not None
        return await self._hashing.run(
            lambda: translation.digest_source(chunk, memory, self._key, self._sample)
        )

    def _settle(self, final: LastWordError) -> None:
        if not final.outcome.ok:
            self._lease = leases.end(self._lease, final.outcome, str(final))
            return
        try:
            self._lease = leases.acknowledge(self._lease)
        except BadRequestError as error:
            self._lease = leases.end(self._lease, Outcome.INTERNAL, f"a success that can't be: {error}")

    async def _stop_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stop_end(self) -> None:
        while True:
            try:
                if self._end is not None:
                    await self._end.close()
                await self._hashing.drained()
            except TransportTimeoutError as error:
                log.error("transfer to %s: %s", self.peer, error)  # noqa: TRY400 -- no traceback needed
            else:
                break
        for task in self._digests.values():
            task.cancel()
        await asyncio.gather(*self._digests.values(), return_exceptions=True)

    def _report(self) -> Report:
        outcome = self._lease.outcome
        assert outcome is not None
        overlap = chunking.overlap(self._progress, self._last_layer)
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

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        return task


def _said(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return error.details() or error.code().name
    return str(error)
