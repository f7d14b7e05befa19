"""Small valid objects, to be changed one way a test."""

from copy import deepcopy
from typing import Any

from hawk_api.v1alpha1 import HawkPoolSpec

TEMPLATE = {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}}


def group(name: str = "prefill", role: str = "Prefill", **changes: Any) -> dict[str, Any]:
    return {"name": name, "role": role, "template": deepcopy(TEMPLATE), **changes}


def manifest(*groups: dict[str, Any], **spec: Any) -> dict[str, Any]:
    chosen = list(groups) or [group(), group("decode", "Decode")]
    return {
        "apiVersion": "hawkpool.dev/v1alpha1",
        "kind": "HawkPool",
        "metadata": {"name": "llama", "namespace": "default"},
        "spec": {"model": {"preset": "llama-3.3-70b"}, "groups": chosen, **spec},
    }


def spec(*groups: dict[str, Any], **changes: Any) -> HawkPoolSpec:
    return HawkPoolSpec.model_validate(manifest(*groups, **changes)["spec"])
