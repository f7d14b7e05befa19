"""Pools, classes and scenarios that the planner's tests share."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import settings

from hawk_api.models import load_preset
from hawk_api.v1alpha1 import AcceleratorClassSpec, HawkPoolSpec
from hawk_planner.payoff.assumptions import Given
from hawk_planner.payoff.question import Question, build_question

if TYPE_CHECKING:
    from hawk_planner.payoff.scenario import Scenario

FEW = settings(max_examples=30)
"""For properties of smooth arithmetic among the fast tests: more examples take seconds and find nothing."""
CLASSES = {
    "gpu": AcceleratorClassSpec.model_validate(
        {
            "flops": {"bfloat16": "989T"},
            "memory": "80G",
            "bandwidth": "3350G",
            "power": "700",
            "price": "32000",
            "startup": "2m",
        }
    ),
    "npu": AcceleratorClassSpec.model_validate(
        {
            "flops": {"bfloat16": "180T"},
            "memory": "128G",
            "bandwidth": "1800G",
            "power": "185",
            "price": "6500",
            "roles": ["Decode"],
            "startup": "2m",
        }
    ),
}


def class_with(name: str, **changes: Any) -> AcceleratorClassSpec:
    """A class with some figures changed; None takes one away."""
    return CLASSES[name].model_copy(
        update={key: None if value is None else Decimal(value) for key, value in changes.items()}
    )


def pool(
    model: str = "llama-3.1-8b",
    *,
    prefill: str = "gpu",
    decode: str = "npu",
    devices: tuple[int, int] = (1, 1),
    most: tuple[int, int] = (64, 64),
    ttft: str | None = "2s",
    itl: str | None = "50ms",
    roles: tuple[str, str] = ("Prefill", "Decode"),
    **more: Any,
) -> HawkPoolSpec:
    """A pool of two groups."""
    template = {"spec": {"containers": [{"name": "engine", "image": "engine"}]}}
    objectives = {
        name: {"percentile": percentile, "target": target}
        for name, percentile, target in (("ttft", 95, ttft), ("itl", 99, itl))
        if target
    }
    groups = [
        {
            "name": name,
            "role": role,
            "acceleratorClass": device,
            "acceleratorsPerReplica": count,
            "replicas": {"min": 1, "max": bound},
            "template": template,
        }
        for name, role, device, count, bound in zip(
            ("first", "second"), roles, (prefill, decode), devices, most, strict=True
        )
    ]
    return HawkPoolSpec.model_validate(
        {"model": {"preset": model}, "groups": groups, "objectives": objectives, **more}
    )


def question(spec: HawkPoolSpec | None = None, classes: Any = None, **given: Any) -> Question:
    """A question about a pool, the traffic given in full."""
    traffic = {"requests_per_second": 10.0, "prompt_tokens": 2048, "output_tokens": 256, **given}
    spec = spec or pool()
    name = spec.model.preset
    assert name is not None
    return build_question(spec, load_preset(name), classes or CLASSES, Given(**traffic))


def scenario(spec: HawkPoolSpec | None = None, classes: Any = None, **given: Any) -> Scenario:
    """The scenario of a question."""
    return question(spec, classes, **given).scenario
