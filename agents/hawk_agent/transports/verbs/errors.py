"""What goes wrong with verbs, typed. No message ever holds a key.

```
VerbsError (a TransportError)
├── VerbsUnavailableError       no library, no device, or the extension isn't built
├── DeviceError                 a device, port or GID that can't be used, or that went away
├── QueuePairStateError         a queue pair refused a state
├── MemoryRegistrationError     memory that no way of registering takes
├── PostError                   the provider refused a request
└── CompletionError             a request ended otherwise than well
    ├── LocalProtectionError    our own key, range or list
    ├── RemoteAccessError       the peer's memory isn't open (any more), or not for this
    ├── PeerUnreachableError    retries exceeded: the peer, or the way to it, is gone
    ├── ReceiverNotReadyError   the peer has no receive for an immediate
    ├── FlushedError            ended before it was tried, after another error or a fence
    └── DeviceFaultError        the device itself
```
"""

from __future__ import annotations

from typing import Final

from hawk_agent.errors import TransportError


class VerbsError(TransportError):
    """Something about RDMA verbs."""


class VerbsUnavailableError(VerbsError):
    """This host can't do verbs; the message says what is missing."""


class DeviceError(VerbsError):
    """A device, port or GID that can't be used."""


class QueuePairStateError(VerbsError):
    """A queue pair refused a state; the message names state, device, port, GIDs, numbers and MTU."""


class MemoryRegistrationError(VerbsError):
    """Memory that can't be registered; the message has what was tried, in order, and why each failed."""


class PostError(VerbsError):
    """The provider refused a request for a reason that waiting doesn't mend."""


class CompletionError(VerbsError):
    """A request ended otherwise than well.

    Attributes:
        status: the name of the completion's status.
        vendor: the device's own code.
        reason: one word for metrics.
    """

    reason = "other"

    def __init__(self, message: str, *, status: str = "", vendor: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.vendor = vendor


class LocalProtectionError(CompletionError):
    """Our own key, range or list of pieces."""

    reason = "local-protection"


class RemoteAccessError(CompletionError):
    """The peer's memory isn't open, or not for this."""

    reason = "remote-access"


class PeerUnreachableError(CompletionError):
    """Every retry went unanswered."""

    reason = "retry-exceeded"


class ReceiverNotReadyError(CompletionError):
    """The peer had no receive for an immediate, for as long as we were told to try."""

    reason = "receiver-not-ready"


class FlushedError(CompletionError):
    """Ended before it was tried: the queue pair had failed, or a fence closed it."""

    reason = "flushed"


class DeviceFaultError(CompletionError):
    """The device itself failed."""

    reason = "device-fault"


_STATUS: Final = (
    ("success", CompletionError),
    ("local length", LocalProtectionError),
    ("local queue pair operation", LocalProtectionError),
    ("local end-to-end context", CompletionError),
    ("local protection", LocalProtectionError),
    ("flushed", FlushedError),
    ("memory window bind", LocalProtectionError),
    ("bad response", CompletionError),
    ("local access", LocalProtectionError),
    ("remote invalid request", RemoteAccessError),
    ("remote access", RemoteAccessError),
    ("remote operation", RemoteAccessError),
    ("retries exceeded", PeerUnreachableError),
    ("receiver not ready", ReceiverNotReadyError),
    ("local domain violation", CompletionError),
    ("remote invalid read request", RemoteAccessError),
    ("remote abort", CompletionError),
    ("invalid end-to-end context number", CompletionError),
    ("invalid end-to-end context state", CompletionError),
    ("fatal", DeviceFaultError),
    ("response timeout", PeerUnreachableError),
    ("general", DeviceFaultError),
)


def completion_error(status: int, vendor: int, where: str) -> CompletionError:
    """The error of a completion's status; `where` names the queue pair and its peer."""
    name, kind = _STATUS[status] if 0 < status < len(_STATUS) else (f"status {status}", CompletionError)
    return kind(f"{where}: a request ended with {name} (vendor code {vendor:#x})", status=name, vendor=vendor)
