"""Errors of verbs. No message ever holds a key.

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
    ("IBV_WC_SUCCESS", CompletionError),
    ("IBV_WC_LOC_LEN_ERR", LocalProtectionError),
    ("IBV_WC_LOC_QP_OP_ERR", LocalProtectionError),
    ("IBV_WC_LOC_EEC_OP_ERR", CompletionError),
    ("IBV_WC_LOC_PROT_ERR", LocalProtectionError),
    ("IBV_WC_WR_FLUSH_ERR", FlushedError),
    ("IBV_WC_MW_BIND_ERR", LocalProtectionError),
    ("IBV_WC_BAD_RESP_ERR", CompletionError),
    ("IBV_WC_LOC_ACCESS_ERR", LocalProtectionError),
    ("IBV_WC_REM_INV_REQ_ERR", RemoteAccessError),
    ("IBV_WC_REM_ACCESS_ERR", RemoteAccessError),
    ("IBV_WC_REM_OP_ERR", RemoteAccessError),
    ("IBV_WC_RETRY_EXC_ERR", PeerUnreachableError),
    ("IBV_WC_RNR_RETRY_EXC_ERR", ReceiverNotReadyError),
    ("IBV_WC_LOC_RDD_VIOL_ERR", CompletionError),
    ("IBV_WC_REM_INV_RD_REQ_ERR", RemoteAccessError),
    ("IBV_WC_REM_ABORT_ERR", CompletionError),
    ("IBV_WC_INV_EECN_ERR", CompletionError),
    ("IBV_WC_INV_EEC_STATE_ERR", CompletionError),
    ("IBV_WC_FATAL_ERR", DeviceFaultError),
    ("IBV_WC_RESP_TIMEOUT_ERR", PeerUnreachableError),
    ("IBV_WC_GENERAL_ERR", DeviceFaultError),
)


def completion_error(status: int, vendor: int, where: str) -> CompletionError:
    """The error of a completion's status; `where` names the queue pair and its peer."""
    name, kind = _STATUS[status] if 0 < status < len(_STATUS) else (f"status {status}", CompletionError)
    return kind(f"{where}: a request ended with {name} (vendor code {vendor:#x})", status=name, vendor=vendor)
