"""Every error that an agent or its client raises on purpose.

```
HawkAgentError
├── BadRequestError             what was asked can't be right, whatever the state
│   ├── FrameError              bytes that are no message, or descriptors that belong to none
│   ├── VersionMismatchError    engine and agent, or two agents, speak different protocols
│   ├── RegionError             memory that can't be registered, or a region that isn't there
│   ├── LayoutMismatchError     two layouts that no translation joins
│   ├── UnknownLeaseError       a lease or transfer that isn't there (any more)
│   ├── EventsRequiredError     a streamed push without a completion event for each layer or chunk
│   └── EngineRefusedError      an engine that isn't, or can't show that it is, the worker that it says
├── BusyError                   right, but not now
│   ├── BlocksBusyError         blocks that a lease still holds
│   ├── LimitReachedError       a bound of the agent (leases, regions, requests in flight)
│   └── SocketInUseError        another live process listens there
├── PeerError                   the other agent
│   ├── NotWiredError           no link to that node was asked for
│   ├── LinkDownError           the link is there, the peer isn't
│   ├── HandshakeRefusedError   the peer said no, and why
│   └── StaleEpochError         an earlier incarnation was meant
├── TransportError              the data path broke
│   └── TransportTimeoutError   it made no progress in time
├── NotYetError                 what was waited for hasn't happened yet; nothing ended by it
├── TransferFailedError         a transfer that ended, and not well; carries its outcome
├── AgentUnavailableError       the client can't reach its agent
│   └── AgentTimeoutError       it didn't answer in time
└── IdentityError               no certificate, or one that can't be used (see `identity`)
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hawk_agent.transfer.outcome import TransferOutcome


class HawkAgentError(Exception):
    """The root; `str(error)` names the value and the remedy."""


class BadRequestError(HawkAgentError):
    """The request itself is invalid."""


class EngineRefusedError(BadRequestError):
    """An engine's token is missing, no good, or of another worker."""


class FrameError(BadRequestError):
    """Bytes that are no message."""


class VersionMismatchError(BadRequestError):
    """Two protocols; the message names both."""


class RegionError(BadRequestError):
    """Memory that can't be registered, or a region that isn't there."""


class LayoutMismatchError(BadRequestError):
    """Two layouts that no translation joins; the message names both values."""


class UnknownLeaseError(BadRequestError):
    """A lease or transfer that isn't there."""


class EventsRequiredError(BadRequestError):
    """A push that would read layers that nobody said are in memory."""


class BusyError(HawkAgentError):
    """Right, but not now."""


class BlocksBusyError(BusyError):
    """Blocks that a lease still holds."""


class LimitReachedError(BusyError):
    """A bound of the agent."""


class SocketInUseError(BusyError):
    """Another live process listens there."""


class PeerError(HawkAgentError):
    """Something about the other agent."""


class NotWiredError(PeerError):
    """No link to that node was asked for."""


class LinkDownError(PeerError):
    """The peer isn't there now."""


class HandshakeRefusedError(PeerError):
    """The peer said no; the message names both sides' values."""


class StaleEpochError(PeerError):
    """An earlier incarnation was meant."""


class TransportError(HawkAgentError):
    """The data path broke."""


class TransportTimeoutError(TransportError):
    """The data path made no progress in time."""


class NotYetError(HawkAgentError):
    """The wait ended before the event; nothing else ended with it."""


class TransferFailedError(HawkAgentError):
    """A transfer that ended without success."""

    def __init__(self, outcome: TransferOutcome, message: str) -> None:
        super().__init__(f"{outcome.label}: {message or outcome.meaning}")
        self.outcome = outcome
        self.detail = message


class AgentUnavailableError(HawkAgentError):
    """The client can't reach its agent."""


class AgentTimeoutError(AgentUnavailableError):
    """The agent didn't answer in time."""


def by_name(kind: str) -> type[HawkAgentError]:
    """The class of that name, or the root for a name of a newer agent."""
    pending: list[type[HawkAgentError]] = [HawkAgentError]
    while pending:
        found = pending.pop()
        if found.__name__ == kind and found is not TransferFailedError:
            return found
        pending += found.__subclasses__()
    return HawkAgentError
