"""The AcceleratorClasses that a release ships. Users add or replace classes in the cluster."""

from __future__ import annotations

from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING

import yaml

from hawk_api.labels import SOURCE
from hawk_api.v1alpha1 import AcceleratorClass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_api.v1alpha1 import AcceleratorClassSpec

# libyaml's parser is ten times faster; not every build of PyYAML has it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def shipped() -> Mapping[str, AcceleratorClassSpec]:
    """Every shipped class by name. What isn't known of a device is None."""
    found = {made.metadata.name: made.spec for made in map(AcceleratorClass.model_validate, manifests())}
    return MappingProxyType(found)


def manifests() -> list[dict[str, object]]:
    """The shipped classes as they are written, to be applied."""
    text = resources.files(__package__).joinpath("classes.yaml").read_text(encoding="utf-8")
    return list(yaml.load_all(text, _LOADER))


@cache
def sources() -> Mapping[str, str]:
    """Where each shipped class's figures are from, by name."""
    made = map(AcceleratorClass.model_validate, manifests())
    return MappingProxyType({one.metadata.name: (one.metadata.annotations or {})[SOURCE] for one in made})


__all__ = ["manifests", "shipped", "sources"]
