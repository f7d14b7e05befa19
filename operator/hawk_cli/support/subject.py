"""The pool that a plan is made for: from a manifest, or from a cluster with its measured traffic."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from hawk_api import duration
from hawk_api.catalogue import shipped
from hawk_api.checks import Severity
from hawk_api.quantity import parse_quantity
from hawk_api.v1alpha1 import AcceleratorClassSpec, HawkPool
from hawk_api.validation import validate_manifest
from hawk_cli.support.cluster import connect_cluster
from hawk_cli.support.manifests import classes_in, config_maps_in, geometry_of, load_manifests
from hawk_kube.errors import ApiError
from hawk_kube.kinds import ACCELERATOR_CLASS, CONFIG_MAP, HAWK_POOL
from hawk_planner.payoff.assumptions import Given
from hawk_planner.payoff.checks import InputError, within
from hawk_planner.payoff.live import given_by_status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hawk_api.models import Geometry

__all__ = ["Subject", "assumed", "changed", "from_cluster", "from_file"]

SETTABLE = {
    "flops": ("flops", 1e6, 1e21),
    "memory": ("memory", 1e6, 1e18),
    "bandwidth": ("bandwidth", 1e3, 1e18),
    "power": ("power", 0.001, 1e7),
    "price": ("price", 0.001, 1e9),
    "pricePerHour": ("price_per_hour", 1e-6, 1e6),
    "startup": ("startup", 0.001, 1e6),
}
"""Fields of a class that --set changes, by their names in the API: the attribute, and what it may be."""


@dataclass(frozen=True)
class Subject:
    """A pool as it is written and parsed, with what its plan needs."""

    body: dict[str, Any]
    pool: HawkPool
    classes: Mapping[str, AcceleratorClassSpec]
    geometry: Geometry
    measured: Given

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.pool.metadata.name


def from_file(path: Path | None) -> Subject:
    """Return the one HawkPool of a manifest; its own AcceleratorClasses and ConfigMaps count."""
    if path is None:
        raise InputError(
            "--filename", "isn't given", "give a manifest with -f, or a running pool with --live"
        )
    bodies = [document.body for document in load_manifests(path) if isinstance(document.body, dict)]
    pools = [body for body in bodies if body.get("kind") == "HawkPool"]
    if len(pools) != 1:
        raise InputError(
            "--filename", f"{path} has {len(pools)} HawkPools", "give a manifest with exactly one"
        )
    return _subject(pools[0], bodies, Given())


def from_cluster(reference: str) -> Subject:
    """Return a running pool, NAME or NAMESPACE/NAME, with the traffic that its last decision recorded."""
    namespace, _, name = reference.rpartition("/")
    namespace = namespace or "default"
    api = connect_cluster()
    try:
        body = api.get(HAWK_POOL, name, namespace)
        bodies = list(api.list(ACCELERATOR_CLASS))
        key = body.get("spec", {}).get("model", {}).get("configMapRef")
        if key:
            bodies.append(api.get(CONFIG_MAP, key["name"], namespace) | {"kind": "ConfigMap"})
    except ApiError as error:
        raise InputError("--live", f"{reference}: {error}", "check the name and the kubeconfig") from error
    finally:
        api.close()
    pool = HawkPool.model_validate(body)
    return _subject(body, bodies, given_by_status(pool.status, pool.spec.transfer.rails))


def _subject(body: dict[str, Any], bodies: Sequence[dict[str, Any]], measured: Given) -> Subject:
    classes = {**shipped(), **classes_in(bodies)}
    maps = config_maps_in(bodies)
    for violation in validate_manifest(body, classes, maps):
        if violation.severity is Severity.ERROR:
            raise InputError(violation.field, violation.message, "hawk validate lists all findings")
    pool = HawkPool.model_validate(body)
    try:
        geometry = geometry_of(pool.spec.model, maps)
    except ValueError as error:
        raise InputError("spec.model", str(error), "hawk kv --list prints the known models") from error
    return Subject(body, pool, classes, geometry, measured)


def assumed(given: Given, texts: Sequence[str]) -> Given:
    """Return what is given with NAME=VALUE applied to any other of its inputs."""
    names = sorted({field.name for field in fields(Given)} - {"source"})
    for text in texts:
        name, _, value = text.partition("=")
        if name not in names:
            raise InputError(
                "--assume", f"{text} does not name an input", f"NAME is one of {', '.join(names)}"
            )
        try:
            number = float(value)
        except ValueError:
            raise InputError("--assume", f"{text} has no number as value", "write NAME=VALUE") from None
        given = replace(given, **{name: number})  # type: ignore[arg-type]
    return given


def changed(
    classes: Mapping[str, AcceleratorClassSpec], sets: Sequence[str]
) -> Mapping[str, AcceleratorClassSpec]:
    """Return the classes with CLASS.FIELD=VALUE applied; `flops` sets all 16-bit rates."""
    found = dict(classes)
    for text in sets:
        target, _, value = text.partition("=")
        name, _, field = target.rpartition(".")
        if name not in found or field not in SETTABLE:
            fields = ", ".join(SETTABLE)
            raise InputError(
                "--set",
                f"{text} does not name a class and a field",
                f"write CLASS.FIELD=VALUE, FIELD of {fields}",
            )
        try:
            number: Any = duration.parse_duration(value) if field == "startup" else parse_quantity(value)
        except ValueError as error:
            raise InputError("--set", f"{text}: {error}", "write a quantity such as 989T or 32000") from error
        attribute, least, most = SETTABLE[field]
        within(f"--set {target}", float(number), least, most)
        update = {"float16": number, "bfloat16": number} if field == "flops" else number
        found[name] = found[name].model_copy(update={attribute: update})
    return found
