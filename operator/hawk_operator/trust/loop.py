"""Runs the signer of the agents' certificates beside the rest, where this account may sign."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from hawk_kube.errors import NotFoundError, RejectedError
from hawk_kube.kinds import CERTIFICATE_REQUEST, SECRET
from hawk_operator.trust.metrics import TrustMetrics
from hawk_operator.trust.signer import SignerSettings, run

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from hawk_kube.client import Client
    from hawk_operator.kube.access import Access
    from hawk_operator.runtime.settings import OperatorSettings

_log = logging.getLogger(__name__)


class TrustLoop:
    """The signer in a thread."""

    def __init__(self, api: Client, given: OperatorSettings, registry: CollectorRegistry) -> None:
        settings = SignerSettings(
            system_namespace=given.system_namespace,
            agent_namespace=given.agent_namespace or given.system_namespace,
            agent_service_account=given.agent_service_account,
            secret=given.ca_secret,
            config_map=given.trust_config_map,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=run,
            args=(api, settings, time.time, TrustMetrics(registry), self._stop),
            name="trust",
            daemon=True,
        )

    def start(self) -> None:
        """Begin to answer requests."""
        self._thread.start()

    def stop(self) -> None:
        """End after the present round; returns at once."""
        self._stop.set()

    def join(self, timeout: float) -> None:
        """Wait for the end."""
        self._thread.join(timeout)


def signs_here(api: Client, access: Access, settings: OperatorSettings) -> bool:
    """True if this installation signs: the account may see requests, and there is a Secret for the key.

    Raises ApiError when the API server can't be asked just now.
    """
    if not access.usable("list", CERTIFICATE_REQUEST):
        return False
    try:
        api.get(SECRET, settings.ca_secret, settings.system_namespace)
    except (NotFoundError, RejectedError) as error:
        _log.info("trust: certificates are not signed here: %s", error)
        return False
    return True
