"""Health of the operator, judged by work that gets done, and the HTTP port that serves it.

"The process answers" proves nothing: watches have been seen to die while the health check stayed green. So
/healthz depends on what was last *achieved*: for a leader, a list of the pools, a reconcile, and watches that
hold; for a standby, a read of the Lease.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)
_PATHS: Final = ("/healthz", "/readyz", "/metrics")
_HOLDS_SECONDS: Final = 60.0
"""A watch that has lasted so long works, though nothing happened in it."""


@dataclass(frozen=True)
class HealthVerdict:
    """An answer and its reason, in words."""

    ok: bool
    message: str


@dataclass(frozen=True)
class Progress:
    """Ages in seconds of the last successes; `pools` is how many the last list found."""

    leading: bool
    lost: bool
    lease_age: float
    list_age: float
    reconcile_age: float
    pools: int
    throttled_for: float = 0.0
    blind_for: float = 0.0
    """Since when watches have kept failing; 0 while they work."""
    blind_because: str = ""


def check_alive(progress: Progress, stuck_after: float) -> HealthVerdict:
    """False when a restart could help: nothing was achieved for `stuck_after` seconds."""
    if progress.lost:
        return HealthVerdict(False, "the Lease is held by another process; this one is ending")
    if not progress.leading:
        ok = progress.lease_age <= stuck_after
        return HealthVerdict(ok, f"standby; the Lease was read {progress.lease_age:.0f} s ago")
    if progress.list_age > stuck_after:
        return HealthVerdict(False, f"no list of the pools succeeded for {progress.list_age:.0f} s")
    if progress.pools and progress.reconcile_age > stuck_after:
        return HealthVerdict(False, f"no reconcile succeeded for {progress.reconcile_age:.0f} s")
    if progress.blind_for > stuck_after:
        return HealthVerdict(
            False, f"the watches have kept failing for {progress.blind_for:.0f} s: {progress.blind_because}"
        )
    return HealthVerdict(
        True, f"leading; {progress.pools} pools, last reconcile {progress.reconcile_age:.0f} s ago"
    )


def check_ready(progress: Progress, degraded_after: float) -> HealthVerdict:
    """False while the work is held up, which a restart would not help."""
    if progress.throttled_for > 0:
        return HealthVerdict(False, f"the API server asked to wait; {progress.throttled_for:.0f} s are left")
    if progress.leading and progress.list_age > degraded_after:
        return HealthVerdict(False, f"degraded: no list of the pools succeeded for {progress.list_age:.0f} s")
    return check_alive(progress, degraded_after)


class Activity:
    """Remembers when things last succeeded; written by any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._listed = self._reconciled = self._watch_began = clock()
        self._pools = 0
        self._seen = False
        self._blind_since: float | None = None
        self._blind_because = "they have told of nothing yet"

    def listed(self, pools: int) -> None:
        """The pools were listed."""
        self._listed, self._pools = self._clock(), pools

    def reconciled(self) -> None:
        """A pool was reconciled, whatever its state."""
        self._reconciled = self._clock()

    def watch_begins(self) -> None:
        """The watches are begun, anew where they had failed."""
        self._watch_began = self._clock()

    def watched(self) -> None:
        """A watch told of an object."""
        self._seen, self._blind_since = True, None

    def watch_failed(self, why: str) -> None:
        """The watches ended, and will be begun anew."""
        if self._blind_since is None or self._holds():
            self._blind_since = self._clock()
        self._blind_because = why
        self._watch_began = self._clock()

    def _holds(self) -> bool:
        return self._seen and self._clock() - self._watch_began > _HOLDS_SECONDS

    def _blind_for(self) -> float:
        """Watches begin with what there is: where there are pools and none was told of, they don't work."""
        since = self._blind_since
        if since is None:
            since = self._watch_began if self._pools and not self._seen else self._clock()
        return 0.0 if self._holds() else self._clock() - since

    def progress(self, *, leading: bool, lost: bool, lease_age: float, throttled_for: float) -> Progress:
        """The present ages."""
        now = self._clock()
        return Progress(
            leading,
            lost,
            lease_age,
            list_age=now - self._listed,
            reconcile_age=now - self._reconciled,
            pools=self._pools,
            throttled_for=throttled_for,
            blind_for=self._blind_for(),
            blind_because=self._blind_because,
        )


class HealthServer:
    """Serves /healthz, /readyz and /metrics from daemon threads."""

    def __init__(
        self,
        address: str,
        port: int,
        checks: dict[str, Callable[[], HealthVerdict]],
        metrics: Callable[[], bytes],
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    self._answer(200, metrics(), "text/plain; version=0.0.4; charset=utf-8")
                elif path in checks:
                    verdict = checks[path]()
                    self._answer(200 if verdict.ok else 503, f"{verdict.message}\n".encode(), "text/plain")
                else:
                    self._answer(404, f"not here; try {', '.join(_PATHS)}\n".encode(), "text/plain")

            def _answer(self, code: int, body: bytes, kind: str) -> None:
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                _log.debug(format, *args)

        self._server = ThreadingHTTPServer((address, port), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()
        _log.info("health: serving %s on port %d", " ".join(_PATHS), self.port)

    def stop(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
