"""The watches: kopf as a source of events, in a thread of its own, begun anew whenever it ends.

Only `on.event` handlers are used: kopf keeps no state on objects then, sets no finalizers and writes nothing.
Pods and Deployments are filtered by our label in the API server. Every watch has an end on both sides
(`server_timeout`, `client_timeout`) and one for silence, because a connection that a firewall forgot looks
like a quiet cluster. What a dead watch costs is latency: the periodic list does the same work.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from hawk_kube import config
from hawk_kube.kinds import ACCELERATOR_CLASS, DEPLOYMENT, HAWK_NODE, HAWK_POOL, POD, ResourceKind
from hawk_operator.workloads.children import MANAGED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import kopf

    from hawk_operator.manager.health import Activity
    from hawk_operator.runtime.metrics import Metrics
    from hawk_operator.runtime.settings import OperatorSettings
    from hawk_operator.watch.event_handlers import EventHandlers

_log = logging.getLogger(__name__)

_LABELLED: Final = (POD, DEPLOYMENT)
_CLUSTER: Final = (HAWK_NODE, ACCELERATOR_CLASS)
_PAUSE: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before the watching is begun anew, growing while it keeps failing at once."""
_IDENTITY: Final[Any] = "hawk-operator"
"""kopf's name for this process, which only its peering uses. Left to itself it asks the system for the user's
name, and a container's user has none."""


class Watcher:
    """Runs kopf until stopped; a failure of it is counted, logged and followed by another beginning."""

    def __init__(
        self,
        settings: OperatorSettings,
        handlers: EventHandlers,
        metrics: Metrics,
        activity: Activity,
        kinds: Sequence[ResourceKind],
    ) -> None:
        self._settings = settings
        self._handlers = handlers
        self._metrics = metrics
        self._activity = activity
        self._kinds = tuple(kinds)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the watches; returns at once."""
        self._stop.set()

    def join(self, timeout: float) -> None:
        """Wait for the end."""
        self._thread.join(timeout)

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            why = "they ended"
            self._activity.watch_begins()
            try:
                asyncio.run(self._watch())
            except Exception as error:  # noqa: BLE001 - watching must not end while the process lives
                why = f"{type(error).__name__}: {error}"
                _log.warning("watch: %s", why)
            if self._stop.is_set():
                return
            self._activity.watch_failed(why)
            self._metrics.restarts.inc()
            self._stop.wait(_PAUSE[min(failures, len(_PAUSE) - 1)])
            failures += 1

    async def _watch(self) -> None:
        import kopf  # noqa: PLC0415 - half of the process's memory: only a leader needs it

        await kopf.operator(
            identity=_IDENTITY,
            registry=self._registry(),
            settings=configure_kopf(self._settings),
            standalone=True,
            clusterwide=not self._settings.namespace,
            namespaces=[self._settings.namespace] if self._settings.namespace else (),
            stop_flag=self._stop,
        )

    def _registry(self) -> kopf.OperatorRegistry:
        import kopf  # noqa: PLC0415

        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)
        def login(**_: Any) -> Any:
            return connection_info(config.load_config())

        for kind in self._kinds:
            self._register(registry, kind)
        return registry

    def _register(self, registry: kopf.OperatorRegistry, kind: ResourceKind) -> None:
        import kopf  # noqa: PLC0415

        async def changed(event: Any, **_: Any) -> None:
            self._activity.watched()
            self._handlers.handle(kind, event["type"], event["object"])

        kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=f"enqueue-{kind.plural}")(
            changed
        )


def connection_info(endpoint: config.Endpoint) -> kopf.ConnectionInfo:
    """The endpoint for kopf, which asks again when the API server refuses its token."""
    import kopf  # noqa: PLC0415

    login = endpoint.credentials.login()
    scheme, _, token = login.authorization.partition(" ")
    return kopf.ConnectionInfo(
        server=endpoint.server,
        ca_data=endpoint.authority or None,
        insecure=not endpoint.verify,
        scheme=scheme or None,
        token=token or None,
        certificate_data=login.certificate or None,
        private_key_data=login.key or None,
        default_namespace=endpoint.namespace,
        proxy_url=endpoint.proxy or None,
        trust_env=endpoint.proxy is None,
    )


def configure_kopf(settings: OperatorSettings) -> kopf.OperatorSettings:
    """kopf's settings for watching and nothing else."""
    import kopf  # noqa: PLC0415

    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.scanning.disabled = True
    made.process.ultimate_exiting_timeout = None
    made.watching.server_timeout = round(settings.watch_timeout)
    made.watching.client_timeout = settings.watch_timeout + 10
    made.watching.connect_timeout = 5
    made.watching.inactivity_timeout = settings.watch_timeout + 10
    made.watching.reconnect_backoff = 0.5
    made.watching.chunk_size = 500
    made.networking.request_timeout = 10
    made.networking.connect_timeout = 5
    made.networking.error_backoffs = (1, 2, 4, 8)
    made.networking.enforce_retry_after = True
    # kopf runs a task for each object, which ends when it was idle for this long. A limit on them would let
    # no more than limit / idle_timeout objects through a second, however little an event costs.
    made.queueing.worker_limit = None
    made.queueing.idle_timeout = 0.1
    made.queueing.exit_timeout = 0.5
    made.persistence.diffbase_storage = _remember_nothing()
    selector = ",".join(f"{name}={value}" for name, value in MANAGED.items())
    for kind in _LABELLED:
        made.watching.label_selectors[kind.group, kind.version, kind.plural] = selector
    return made


def _remember_nothing() -> kopf.DiffBaseStorage:
    """kopf would copy each object that it hears of, to tell what changed about it; nobody asks for that."""
    import kopf  # noqa: PLC0415

    class Nothing(kopf.DiffBaseStorage):
        def build(self, **_: Any) -> kopf.BodyEssence:
            return {}

        def fetch(self, **_: Any) -> kopf.BodyEssence | None:
            return None

        def store(self, **_: Any) -> None:
            return

    return Nothing()


def watched_kinds(allowed: Sequence[ResourceKind]) -> list[ResourceKind]:
    """The kinds to watch: the pools and what belongs to them, and of the cluster's kinds the allowed ones."""
    return [HAWK_POOL, *_LABELLED, *(kind for kind in _CLUSTER if kind in allowed)]
