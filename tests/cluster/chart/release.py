"""Install, upgrade, render and remove the chart."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

CHART = Path(__file__).parents[3] / "charts" / "hawk"
NAMESPACE = "hawk-system"


class RenderError(AssertionError):
    """helm refused; the message holds its words."""


@dataclass(frozen=True)
class Release:
    """One release of the chart in a cluster."""

    cluster: Cluster
    name: str
    namespace: str

    def install(self, *arguments: str, chart: Path = CHART) -> None:
        """`helm install` and wait until everything is there."""
        self.cluster.helm(
            "install", self.name, chart, "-n", self.namespace, "--create-namespace", "--wait", *arguments
        )

    def upgrade(self, *arguments: str, chart: Path = CHART) -> None:
        """`helm upgrade`, keeping the values of before."""
        self.cluster.helm(
            "upgrade", self.name, chart, "-n", self.namespace, "--reuse-values", "--wait", *arguments
        )

    def uninstall(self) -> None:
        """`helm uninstall`."""
        self.cluster.helm("uninstall", self.name, "-n", self.namespace, "--wait")

    def objects(self) -> list[dict[str, Any]]:
        """The release's objects, as they were rendered."""
        text = self.cluster.helm("get", "manifest", self.name, "-n", self.namespace)
        return documents(text)


def documents(text: str) -> list[dict[str, Any]]:
    """The objects in a stream of YAML, by libyaml: the CRDs alone take Python's own parser half a second."""
    return [item for item in yaml.load_all(text, Loader=yaml.CSafeLoader) if item]


def helm(program: Path, home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run helm with its settings under `home`, away from the user's."""
    places = {f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    command = [str(program), *map(str, arguments)]
    return subprocess.run(
        command, env={**os.environ, **places}, capture_output=True, text=True, timeout=60, check=False
    )


def render_chart(program: Path, home: Path, chart: Path, *arguments: str) -> list[dict[str, Any]]:
    """`helm template` of release `hawk`; RenderError with helm's words when it refuses."""
    done = helm(program, home, "template", "hawk", chart, "-n", NAMESPACE, *arguments)
    if done.returncode:
        raise RenderError(done.stderr)
    return documents(done.stdout)


def named(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    """The objects of a kind by their names."""
    return {item["metadata"]["name"]: item for item in objects if item["kind"] == kind}
