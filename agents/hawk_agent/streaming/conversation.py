"""A sender's conversation with the receiver of its transfer: words out, words in, and who ended it.

gRPC cancels a whole call when a read or a write of it is cancelled, so one task reads and one writes, and
everybody else uses the queues between.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import grpc

from hawk_agent.errors import HawkAgentError
from hawk_agent.protocol import peer_pb2
from hawk_agent.streaming.lease import STANDSTILL_SECONDS
from hawk_agent.supervision import being_cancelled
from hawk_agent.transfer.outcome import TransferOutcome, outcome_from_wire

if TYPE_CHECKING:
    Call = grpc.aio.StreamStreamCall[peer_pb2.FromSender, peer_pb2.FromReceiver]

ANSWER_SECONDS = 5.0
"""For the receiver's first word, and its last one after an abort; and for one word to be written."""
BEAT_SECONDS = 1.0


class EndingError(HawkAgentError):
    """The transfer ends without success, by this side's decision."""

    def __init__(self, outcome: TransferOutcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class LastWordError(HawkAgentError):
    """The receiver's last word."""

    def __init__(self, outcome: TransferOutcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class SilenceError(EndingError):
    """No word in time."""


class GoneError(EndingError):
    """The stream is over."""


class LeavingError(HawkAgentError):
    """This side goes. What isn't complete ends with `outcome`; what is goes on without the source."""

    def __init__(self, outcome: TransferOutcome, message: str, *, wait: bool) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.wait = wait
        """True if the receiver's last word is waited for."""


class Conversation:
    """Both directions of one call. `put` puts this side's end among the receiver's words."""

    def __init__(self) -> None:
        self._inbox: asyncio.Queue[peer_pb2.FromReceiver | EndingError | LeavingError | None] = (
            asyncio.Queue()
        )
        self._outbox: asyncio.Queue[peer_pb2.FromSender] = asyncio.Queue()

    def put(self, ending: EndingError | LeavingError) -> None:
        """Ask for an end. Returns at once; the receiver may still have been quicker with a success."""
        self._inbox.put_nowait(ending)

    def say(self, **body: object) -> None:
        """Queue a word for the receiver."""
        self._outbox.put_nowait(peer_pb2.FromSender(**body))  # type: ignore[arg-type]

    async def beat(self) -> None:
        """Say for ever that this side lives."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self.say(beat=peer_pb2.Beat())

    async def listen(self, call: Call) -> None:
        """Carry the receiver's words to the inbox. A cancelled read would cancel the call, so nothing else
        reads."""
        try:
            with contextlib.suppress(grpc.aio.AioRpcError):
                async for message in call:
                    self._inbox.put_nowait(message)
        except asyncio.CancelledError:
            if being_cancelled():
                raise
        finally:
            self._inbox.put_nowait(None)

    async def write(self, call: Call) -> None:
        """Carry the words to the receiver. A cancelled write would cancel the call, so nothing else writes.

        A stream that is over ends this silently: `listen` sees it and says so.
        """
        try:
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                while True:
                    word = await self._outbox.get()
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await call.write(word)
        except asyncio.CancelledError:
            if being_cancelled():
                raise
        except TimeoutError:
            self.put(
                SilenceError(TransferOutcome.PEER_LOST, f"the receiver took no word for {ANSWER_SECONDS:g} s")
            )

    async def next(self, timeout: float) -> peer_pb2.FromReceiver:  # noqa: ASYNC109 -- mapped to an outcome here
        """The receiver's next word. Raises LastWordError at its last, EndingError or LeavingError at one
        of this side."""
        message = await self._next(timeout)
        if message is None:
            self._inbox.put_nowait(None)
            raise GoneError(TransferOutcome.PEER_LOST, "the receiver's agent closed the stream or died")
        if isinstance(message, EndingError | LeavingError):
            raise message
        if message.WhichOneof("body") == "ended":
            raise LastWordError(outcome_from_wire(message.ended.outcome), message.ended.message)
        return message

    async def _next(self, timeout: float) -> peer_pb2.FromReceiver | EndingError | LeavingError | None:  # noqa: ASYNC109
        """The next of the inbox. A wait that ended late ended because this agent itself stood still, and what
        the receiver said meanwhile is still to be read: it is waited for once more."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                return await asyncio.wait_for(self._inbox.get(), timeout)
            except TimeoutError:
                if loop.time() - began < timeout + STANDSTILL_SECONDS:
                    raise SilenceError(
                        TransferOutcome.PEER_LOST, f"the receiver said nothing for {timeout:.1f} s"
                    ) from None

    async def after_abort(self) -> peer_pb2.Complete:
        """Skip what the receiver said before it heard of the end. Returns if the transfer is complete there.

        LastWordError at its last word, GoneError or SilenceError when there is none.
        """
        while True:
            try:
                message = await self.next(ANSWER_SECONDS)
            except (GoneError, SilenceError):
                raise
            except (EndingError, LeavingError):
                continue
            if message.WhichOneof("body") == "complete":
                return message.complete
