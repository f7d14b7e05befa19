"""A pod as its processes see it: an environment and a mounted service account."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hawk_kube import config

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.cluster import Cluster


@dataclass(frozen=True)
class Pod:
    """`environ` and the folder where the kubelet would mount token, ca.crt and namespace."""

    environ: dict[str, str]
    folder: Path

    @classmethod
    def of(cls, cluster: Cluster, kubeconfig: Path, folder: Path) -> Pod:
        """A pod with the token and the namespace of a kubeconfig that `service_account_kubeconfig` made."""
        file = json.loads(kubeconfig.read_text())
        server = urlsplit(file["clusters"][0]["cluster"]["server"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "token").write_text(file["users"][0]["user"]["token"])
        (folder / "namespace").write_text(file["contexts"][0]["context"]["namespace"])
        (folder / "ca.crt").write_bytes(config.from_files([cluster.kubeconfig]).authority)
        environ = {
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
            "HTTPS_PROXY": "http://127.0.0.1:1",  # for other traffic; the API server is next door
        }
        return cls(environ, folder)
