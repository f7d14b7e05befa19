"""What this service account may do, asked once instead of being refused again and again.

The operator also runs with rights in one namespace alone. Then HawkNodes and AcceleratorClasses, which belong
to the whole cluster, are out of its reach: it serves with the shipped classes and without wiring, and its
conditions say so. Asking first keeps the log free of refused requests that nobody should have to explain.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from hawk_operator.kube.cluster_api import ClusterApi, NotFoundError
from hawk_operator.kube.resources import ACCESS_REVIEW, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

_KEEP: Final = 300.0
_log = logging.getLogger(__name__)


class Access:
    """Answers "may we", remembered for five minutes; safe for several threads."""

    def __init__(self, api: ClusterApi, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[tuple[str, Kind, str], tuple[bool, float]] = {}
        self._served: dict[Kind, tuple[bool, float]] = {}
        self._lock = threading.Lock()

    def allowed(self, verb: str, kind: Kind, namespace: str = "") -> bool:
        """Whether `verb` is allowed on all objects of a kind, in a namespace or ("") in the whole cluster.

        Raises ApiCallError when the API server can't be asked.
        """
        key = (verb, kind, namespace)
        with self._lock:
            known = self._known.get(key)
        if known is not None and self._clock() - known[1] < _KEEP:
            return known[0]
        attributes = {"verb": verb, "group": kind.group, "resource": kind.plural}
        if namespace:
            attributes["namespace"] = namespace
        review = self._api.create(
            ACCESS_REVIEW, {"spec": {"resourceAttributes": attributes}, "metadata": {}}, guarded=False
        )
        answer = bool((review.get("status") or {}).get("allowed"))
        if not answer and (known is None or known[0]):
            _log.info(
                "access: no right to %s %s%s", verb, kind.plural, f" in {namespace}" if namespace else ""
            )
        with self._lock:
            self._known[key] = (answer, self._clock())
        return answer

    def served(self, kind: Kind) -> bool:
        """Whether the cluster has this kind at all, such as another project's custom resource."""
        with self._lock:
            known = self._served.get(kind)
        if known is not None and self._clock() - known[1] < _KEEP:
            return known[0]
        try:
            document = self._api.document(f"/apis/{kind.group}/{kind.version}")
            answer = any(item.get("name") == kind.plural for item in document.get("resources") or ())
        except NotFoundError:
            answer = False
        with self._lock:
            self._served[kind] = (answer, self._clock())
        return answer

    def usable(self, verb: str, kind: Kind, namespace: str = "") -> bool:
        """Whether the kind is served and the verb allowed.

        Raises ApiCallError when the API server can't be asked just now: not knowing is not a refusal.
        """
        return self.served(kind) and self.allowed(verb, kind, namespace)
