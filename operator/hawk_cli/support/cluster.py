"""The cluster that the kubeconfig names, for commands that read live objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_cli.support.output import fail
from hawk_kube.errors import ConfigError

if TYPE_CHECKING:
    from hawk_kube.client import Client


def connect_cluster() -> Client:
    """A client by the usual rules. Ends the command with status 2 if the kubeconfig can't be used."""
    # The Kubernetes client is slow to import, and an extra.
    from hawk_kube import client  # noqa: PLC0415

    try:
        return client.connect_client("hawk")
    except ConfigError as error:
        problem = str(error).removeprefix("kubeconfig: ")
        fail(f"kubeconfig: {problem}; set KUBECONFIG to one that works with kubectl")
