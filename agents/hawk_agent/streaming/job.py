"""A send job, checked before anything is sent: the plan, the events, the limits."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from hawk_agent.errors import TransportError, TransportTimeoutError
from hawk_agent.protocol.framing import close_descriptors
from hawk_agent.streaming import lease as leases
from hawk_agent.transfer import chunks as chunking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.protocol import engine_pb2
    from hawk_agent.transfer.translation import Translation


class SendJob:
    """One push of an engine. Owns the event descriptors."""

    def __init__(
        self,
        ticket: engine_pb2.Ticket,
        region: CacheRegion,
        translation: Translation | None,
        chunk_layers: int,
        events: Sequence[int],
        *,
        all_complete: bool,
        layer_timeout: float,
        stall: float = leases.STALL_SECONDS,
    ) -> None:
        """Seconds: `layer_timeout` for a layer to be complete, `stall` for a sign of life of the receiver."""
        self.ticket = ticket
        self.region = region
        self.translation = translation
        self.events = list(events)
        self.layer_timeout = layer_timeout
        self.chunk_layers = chunk_layers
        layers = translation.layers if translation else 0
        self.chunks = chunking.plan_chunks(layers, chunk_layers) if translation else ()
        self.waits = (
            (0,) * len(self.chunks) if all_complete else chunking.events_for(self.chunks, len(self.events))
        )
        self.terms = leases.LeaseTerms(
            stall=stall, grace=ticket.grace_ms / 1000, max_grace=ticket.max_grace_ms / 1000
        )

    def close(self) -> None:
        """Close the event descriptors."""
        close_descriptors(self.events)
        self.events.clear()


def _set(signal: asyncio.Future[None]) -> None:
    if not signal.done():
        signal.set_result(None)


async def wait_event(event: int, timeout: float) -> None:  # noqa: ASYNC109 -- mapped to an outcome here
    """Wait for an eventfd, and take its count. TransportTimeoutError when it doesn't fire."""
    loop = asyncio.get_running_loop()
    signal = loop.create_future()
    os.set_blocking(event, False)
    loop.add_reader(event, _set, signal)
    try:
        await asyncio.wait_for(signal, timeout)
        os.eventfd_read(event)
    except TimeoutError as error:
        raise TransportTimeoutError(f"a layer was not complete within {timeout:g} s") from error
    except OSError as error:
        raise TransportError(f"a layer's event can't be read ({error.strerror})") from error
    finally:
        loop.remove_reader(event)
