"""The source of a transfer: sent as its layers are complete, held until access to it has ended."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hawk_agent.errors import TransportTimeoutError
from hawk_agent.protocol import peer_pb2
from hawk_agent.streaming.conversation import EndingError
from hawk_agent.streaming.job import wait_event
from hawk_agent.streaming.verification import sample_of
from hawk_agent.transfer.outcome import TransferOutcome, outcome_of
from hawk_agent.transfer.work import CopyWork

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from hawk_agent.streaming.conversation import Conversation
    from hawk_agent.streaming.job import SendJob
    from hawk_agent.transfer.chunks import Chunk, ChunkProgress
    from hawk_agent.transfer.transport import SourceEnd, Transport

log = logging.getLogger(__name__)


class SendSource:
    """The source of one transfer. Owns the use of the region and the job's events until it is closed."""

    def __init__(
        self,
        job: SendJob,
        transport: Transport,
        talk: Conversation,
        progress: ChunkProgress,
        *,
        hashing: ThreadPoolExecutor,
        slots: asyncio.Semaphore,
        clock: Callable[[], float],
    ) -> None:
        self._job = job
        self._talk = talk
        self._progress = progress
        self._slots = slots
        self._clock = clock
        self._hashing = CopyWork(hashing)
        self._sample = sample_of(job.ticket.verify)
        self._key = 0
        self._digests: dict[int, asyncio.Task[int]] = {}
        self._feeding: asyncio.Task[None] | None = None
        self._stopped = self._closed = False
        self._end: SourceEnd | None = None
        self.offer = peer_pb2.Offer(transport=transport.name)
        self.ready: dict[int, float] = {}
        """When each chunk's layers were complete."""
        self.last_layer = clock()
        job.region.retain()
        if job.translation is not None:
            try:
                self.offer, self._end = transport.offer(job.translation, job.region)
            except BaseException:
                job.region.release()
                raise

    async def start(self, accepted: peer_pb2.Accepted) -> None:
        """Reach the receiver, and send from now on."""
        assert self._end is not None
        self._key = accepted.digest_key
        await self._end.connect(accepted.answer)
        if not self._stopped:
            self._feeding = asyncio.create_task(self._feed(self._end))
            self._feeding.add_done_callback(self._fed)

    async def digest(self, index: int) -> int | None:
        """A chunk's digest, taken while it is held; None where none is asked for."""
        return await self._digests[index] if self._sample else None

    def stop(self) -> None:
        """Announce and send no more."""
        self._stopped = True
        if self._feeding is not None:
            self._feeding.cancel()

    async def close(self) -> None:
        """End this side's access, then give the region and the events back. Again is fine."""
        if self._closed:
            return
        self.stop()
        if self._feeding is not None:
            await asyncio.wait([self._feeding])
        await self._end_access()
        for task in self._digests.values():
            task.cancel()
        if self._digests:
            await asyncio.wait(self._digests.values())
        if not self._closed:
            self._closed = True
            self._end = None
            self._digests.clear()
            self._job.close()
            self._job.region.release()

    async def _end_access(self) -> None:
        """As long as it can't be ended, the source stays in use."""
        while True:
            try:
                if self._end is not None:
                    await self._end.close()
                await self._hashing.drained()
            except TransportTimeoutError as error:
                log.error("region %s: %s", self._job.region.name, error)  # noqa: TRY400 -- no traceback needed
            else:
                return

    async def _feed(self, end: SourceEnd) -> None:
        """Announce and send each chunk when its layers are complete."""
        events = iter(self._job.events)
        for chunk, wait in zip(self._job.chunks, self._job.waits, strict=True):
            for _ in range(wait):
                await wait_event(next(events), self._job.layer_timeout)
            self.last_layer = self.ready[chunk.index] = self._clock()
            async with self._slots:
                if self._sample:
                    self._digests[chunk.index] = asyncio.create_task(self._digest(chunk))
                self._talk.say(ready=peer_pb2.Ready(index=chunk.index))
                await end.send(chunk)

    def _fed(self, task: asyncio.Task[None]) -> None:
        """Sending is over; whatever ended it early ends the transfer, unless every chunk is in and sealed."""
        error = None if task.cancelled() else task.exception()
        if self._stopped or self._progress.complete:
            return
        if task.cancelled():
            self._talk.put(EndingError(TransferOutcome.INTERNAL, "the task that sends was cancelled"))
        elif error is not None:
            self._talk.put(EndingError(outcome_of(error), str(error) or type(error).__name__))

    async def _digest(self, chunk: Chunk) -> int:
        translation, memory = self._job.translation, self._job.region.memory
        assert translation is not None
        return await self._hashing.run(
            lambda: translation.digest_source(chunk, memory, self._key, self._sample)
        )
