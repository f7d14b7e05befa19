"""A connection to a peer, open as long as its link lives or a transfer still uses it.

A link that is un-wired or lost lets its channel go; closing it at once would cancel the calls of transfers
that have only their acknowledgement to hear.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from hawk_agent.protocol import peer_pb2_grpc

if TYPE_CHECKING:
    import grpc

    from hawk_agent.supervision import TaskSupervisor


class PeerChannel:
    """A channel with the number of its users."""

    def __init__(self, channel: grpc.aio.Channel, supervisor: TaskSupervisor) -> None:
        self.stub: peer_pb2_grpc.PeerAsyncStub = peer_pb2_grpc.PeerStub(channel)
        self._channel = channel
        self._supervisor = supervisor
        self._users = 0
        self._retired = False
        self._closing = False

    def retain(self) -> None:
        """A transfer starts to use it."""
        self._users += 1

    def release(self) -> None:
        """A transfer is done with it."""
        self._users -= 1
        self._close_if_idle()

    def retire(self) -> None:
        """The link lets it go. Again is fine."""
        self._retired = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._retired and self._users == 0 and not self._closing:
            self._closing = True
            self._supervisor.finish("closing a channel", self._close)

    async def _close(self) -> None:
        with contextlib.suppress(Exception):
            await self._channel.close()
