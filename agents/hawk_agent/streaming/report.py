"""Reporting a finished transfer: to its engine, to metrics, to logs."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hawk_agent.protocol import engine_pb2

if TYPE_CHECKING:
    from hawk_agent.transfer.chunks import ChunkArrival
    from hawk_agent.transfer.outcome import TransferOutcome


MAX_REPORTS: Final = 4096
"""Reports kept of finished transfers; the oldest goes first."""
MAX_WHOLE: Final = 128
"""Of these, the latest are kept with what is said of each chunk, some kilobytes each."""


@dataclass(frozen=True, slots=True)
class Report:
    """One transfer's end. Seconds; `digest` sums the chunks' digests modulo 2**64, None if unchecked.

    Attributes:
        hidden_share: bytes that had arrived when the last layer was complete, over all bytes.
        exposed_seconds: from the last layer's completion to the last byte's arrival.
        chunks: what arrived, in order.
    """

    outcome: TransferOutcome
    message: str = ""
    nbytes: int = 0
    seconds: float = 0.0
    hidden_share: float = 0.0
    exposed_seconds: float = 0.0
    digest: int | None = None
    transport: str = ""
    grace_extensions: int = 0
    chunks: tuple[ChunkArrival, ...] = ()

    def to_wire(self) -> engine_pb2.Ended:
        """As the engine protocol has it."""
        return engine_pb2.Ended(
            outcome=self.outcome.wire,
            message=self.message,
            bytes=self.nbytes,
            seconds=self.seconds,
            hidden_share=self.hidden_share,
            exposed_seconds=self.exposed_seconds,
            digest=b"" if self.digest is None else self.digest.to_bytes(8, "big"),
            transport=self.transport,
            grace_extensions=self.grace_extensions,
            chunks=[
                engine_pb2.ChunkReport(
                    index=a.chunk.index,
                    first_layer=a.chunk.first,
                    layers=a.chunk.count,
                    bytes=a.nbytes,
                    seconds=a.seconds,
                    digest=b"" if a.digest is None else a.digest.to_bytes(8, "big"),
                    verified=a.digest is not None,
                )
                for a in self.chunks
            ],
        )


class ReportStore:
    """Reports of finished transfers by number, as they are sent: a few hundred bytes each."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, bytes] = OrderedDict()
        self._whole: deque[int] = deque()

    def add(self, number: int, report: Report) -> None:
        """Keep a report, and less of older ones."""
        self._known[number] = report.to_wire().SerializeToString()
        self._whole.append(number)
        if len(self._whole) > MAX_WHOLE:
            self._shorten(self._whole.popleft())
        if len(self._known) > MAX_REPORTS:
            self._known.popitem(last=False)

    def get(self, number: int) -> engine_pb2.Ended | None:
        """A report that is still known."""
        known = self._known.get(number)
        return None if known is None else engine_pb2.Ended.FromString(known)

    def _shorten(self, number: int) -> None:
        ended = self.get(number)
        if ended is not None and ended.chunks:
            del ended.chunks[:]
            self._known[number] = ended.SerializeToString()
