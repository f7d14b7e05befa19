"""Where and what to ask: the metrics store, and the pods whose series count."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hawk_operator.traffic.presets import PRESETS, Names
from hawk_planner.traffic.signal_names import ARRIVALS, SIGNALS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hawk_api.v1alpha1.scaling import TrafficSpec

PREFILL = "prefill"
DECODE = "decode"
ROLES: Mapping[str, tuple[str, ...]] = {PREFILL: ("Prefill", "Both"), DECODE: ("Decode", "Both")}
"""Which groups' pods speak for which side of the pool, by the role of the group."""


_SIGNAL_OF = {"request_rate": ARRIVALS}
"""Signals that the API spells otherwise than the presets do."""


@dataclass(frozen=True)
class Source:
    """A Prometheus and the metric names to ask it for. `timeout` and `window` in seconds.

    `selector` holds extra label matchers for every series. `queries` maps a signal to the user's own
    PromQL, which replaces the preset for that signal.
    """

    url: str
    engine: str = "VLLM"
    timeout: float = 5.0
    window: float = 60.0
    selector: str = ""
    queries: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.engine not in PRESETS:
            raise ValueError(f"engine: {self.engine!r} is unknown; use one of {', '.join(PRESETS)}")
        unknown = sorted(set(self.queries) - set(SIGNALS))
        if unknown:
            raise ValueError(f"queries: unknown signal {unknown[0]!r}; use any of {', '.join(SIGNALS)}")

    @classmethod
    def of(cls, spec: TrafficSpec) -> Source:
        """Read it from a pool's `spec.traffic`."""
        own = {_SIGNAL_OF.get(name, name): query for name, query in spec.queries if query is not None}
        return cls(
            url=spec.prometheus.url,
            engine=spec.engine.value,
            timeout=spec.prometheus.timeout,
            window=spec.window,
            selector=spec.selector,
            queries=own,
        )

    @property
    def names(self) -> Names:
        """The metric names of the engine, by signal."""
        return PRESETS[self.engine]


@dataclass(frozen=True)
class GroupTarget:
    """The living pods of one group; `pods=None` when they aren't known (then only the selectors filter).

    Series of pods that aren't listed are ghosts and don't count; series without a `pod` label (a
    gateway's) do.
    """

    name: str
    role: str
    pods: tuple[str, ...] | None = None
    namespace: str | None = None
    selector: str = ""


def targets_of(side: str, groups: Iterable[GroupTarget]) -> tuple[GroupTarget, ...]:
    """The groups whose pods speak for `side` (prefill or decode)."""
    return tuple(group for group in groups if group.role in ROLES[side])


def label_matchers(source: Source, groups: Sequence[GroupTarget], *, gone: bool = False) -> tuple[str, ...]:
    """Label matchers, one set for groups that share namespace and selector; each as `{…}`.

    With `gone` also for pods whose names differ from a living pod's in the last part only: its predecessors.
    """
    merged: dict[tuple[str | None, str, bool], list[str]] = {}
    for group in groups:
        key = (group.namespace, group.selector, group.pods is None)
        merged.setdefault(key, []).extend(group.pods or ())
    return tuple(
        "{"
        + ",".join(
            _parts(source.selector, selector, namespace, None if unlisted else _named(pods, gone=gone))
        )
        + "}"
        for (namespace, selector, unlisted), pods in merged.items()
    )


def _parts(common: str, own: str, namespace: str | None, pods: Sequence[str] | None) -> list[str]:
    parts = [part.strip().strip(",") for part in (common, own) if part.strip().strip(",")]
    if namespace:
        parts.append(f'namespace=~"{_escape(namespace)}|"')
    if pods is not None:
        parts.append(f'pod=~"{"|".join([*pods, ""])}"')
    return parts


def _named(pods: Sequence[str], *, gone: bool) -> list[str]:
    """Patterns for pods: their names, or what comes before the last dash and anything after it."""
    if not gone:
        return [_escape(pod) for pod in sorted(set(pods))]
    kin = {pod.rpartition("-")[0] for pod in pods if "-" in pod}
    return [
        *(f"{_escape(name)}-[^-]+" for name in sorted(kin)),
        *(_escape(pod) for pod in sorted(set(pods)) if "-" not in pod),
    ]


def _escape(name: str) -> str:
    return re.escape(name).replace("\\-", "-").replace("\\", "\\\\")
