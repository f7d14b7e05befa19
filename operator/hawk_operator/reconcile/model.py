"""The model of a pool as far as the API server has to be asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_api.checks import Violation
from hawk_api.reasons import Reason
from hawk_kube.errors import NotFoundError

if TYPE_CHECKING:
    from hawk_api.v1alpha1 import HawkPool
    from hawk_operator.cache.cluster_cache import ClusterCache


def config_json(
    cache: ClusterCache, pool: HawkPool, *, live_read: bool
) -> tuple[str | None, tuple[Violation, ...]]:
    """The text that spec.model.configMapRef names, or what is missing; (None, ()) without a reference.

    Raises ApiError when it can't be read just now.
    """
    reference = pool.spec.model.config_map_ref
    if reference is None:
        return None, ()
    field = "spec.model.configMapRef"
    try:
        found = cache.config_map(str(pool.metadata.namespace), reference.name, live_read=live_read)
    except NotFoundError:
        message = f"ConfigMap {reference.name} doesn't exist; create it with the key {reference.key}"
        return None, (Violation(field, Reason.CONFIG_MAP_MISSING, message),)
    text = (found.get("data") or {}).get(reference.key)
    if not isinstance(text, str):
        message = f"ConfigMap {reference.name} has no key {reference.key}; add it"
        return None, (Violation(f"{field}.key", Reason.CONFIG_MAP_MISSING, message),)
    return text, ()
