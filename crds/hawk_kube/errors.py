"""Errors of calls to the Kubernetes API, with the API server's own message where it sent one.

```text
KubeError
├── ConfigError        a kubeconfig or a pod's mounts that are no use; names the file and the field
└── ApiError           a call that didn't succeed
    ├── NotFoundError       no such object, or no such kind
    ├── ConflictError       another writer was there first, or the name is taken
    ├── RejectedError       invalid, forbidden or unsupported: the server will say no again
    └── UnavailableError    no answer, or one that says try again
```
"""

from __future__ import annotations

import json
from typing import Any, Final

_RETRIED: Final = frozenset({401, 408, 410, 429})
"""401: the next call has a new token. 410: a list that took so long that its pages are gone."""


class KubeError(Exception):
    """Anything that this package raises."""


class ConfigError(KubeError):
    """The API server isn't known, or not how to log in there."""


class ApiError(KubeError):
    """A call that didn't succeed.

    `status` is HTTP's code, 0 without an answer; `reason` is Kubernetes' (`AlreadyExists`, `Forbidden`);
    `fields` are the paths that the server objects to.
    """

    def __init__(self, message: str, status: int = 0, reason: str = "", fields: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.fields = fields


class NotFoundError(ApiError):
    """There is no such object, or no such kind."""


class ConflictError(ApiError):
    """Another writer was there first, or the name is taken."""


class RejectedError(ApiError):
    """Invalid, forbidden or unsupported: the server understood, and will say no again."""


class UnavailableError(ApiError):
    """No answer, or one that says try again; after `delay` seconds, where the server gave a time."""

    def __init__(self, message: str, delay: float = 0.0, status: int = 0, reason: str = "") -> None:
        super().__init__(message, status, reason)
        self.delay = delay


def failure(call: str, code: int, content: bytes) -> ApiError:
    """The error for a response that isn't a success. `content` should be a Status, and may be anything."""
    status = _status(content)
    reason = str(status.get("reason") or "")
    said = status.get("message") or content[:200].decode(errors="replace").strip() or "no reason given"
    text = f"{call}: {said} (HTTP {code})" if not status.get("message") else f"{call}: {said}"
    if code == 404:
        return NotFoundError(text, code, reason)
    if code == 409:
        return ConflictError(text, code, reason)
    if code >= 500 or code in _RETRIED:
        return UnavailableError(text, status=code, reason=reason)
    return RejectedError(text, code, reason, _fields(status))


def _status(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _fields(status: dict[str, Any]) -> tuple[str, ...]:
    causes = (status.get("details") or {}).get("causes") or ()
    return tuple(cause["field"] for cause in causes if cause.get("field"))
