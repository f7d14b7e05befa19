"""One request to the API server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

CALL_SECONDS: Final = 5.0
"""A call that takes longer has failed. Below the time between lost leadership and a standby's takeover."""

JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"


@dataclass(frozen=True)
class ApiRequest:
    """`call` says in errors what it is for; empty values of `query` aren't sent; `seconds` bounds the wait
    for the answer's beginning, and again that for its end."""

    call: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    content_type: str = JSON
    seconds: float = CALL_SECONDS
