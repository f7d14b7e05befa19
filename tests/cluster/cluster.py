"""A cluster as tests and the demo see it: their own control plane, or one that the user chose."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import uuid
from typing import TYPE_CHECKING, Any, Self

import yaml

from tests.support.errors import NotHereError
from tests.support.progress import Progress, Silent
from tests.support.supervisor import Supervisor
from tests.support.waiting import until

from . import binaries, components
from .control_plane import ControlPlane
from .direct import Direct, GetQuestion, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from hawk_kube.client import Client

COMMAND_SECONDS = 180.0
FAKE_NODE_CAPACITY = {"cpu": "256", "memory": "2Ti", "pods": "500"}


class CommandError(RuntimeError):
    """kubectl or helm failed; the message holds what it said."""

    def __init__(self, command: Sequence[str], done: subprocess.CompletedProcess[str]) -> None:
        super().__init__(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
        self.returncode = done.returncode
        self.stdout = done.stdout
        self.stderr = done.stderr


def client_of(kubeconfig: Path, manager: str = "test") -> Client:
    """Return a client of the product with the rights of a kubeconfig."""
    from hawk_kube import client, config

    return client.connect_client(manager, endpoint=config.from_files([kubeconfig]))


class Cluster:
    """Talks to a cluster by kubectl, helm and the product's client; `plane` is what runs it, where we did.

    `folder` is a scratch folder that goes with the cluster, `kubeconfig` the administrator's.
    """

    def __init__(
        self, kubeconfig: Path, folder: Path, clients: binaries.Clients, plane: ControlPlane | None = None
    ) -> None:
        self.kubeconfig = kubeconfig
        self.folder = folder
        self.clients = clients
        self.plane = plane
        beside = kubeconfig.parent
        self._own_files = beside if (beside / components.AUDIT_POLICY_FILE).exists() else None

    @classmethod
    @contextlib.contextmanager
    def running(cls, progress: Progress | None = None) -> Iterator[Self]:
        """Build what is missing, start a control plane, stop it at the end of the block.

        Raises what `binaries.programs` and `ControlPlane.start` raise.
        """
        programs, clients = binaries.programs(progress), binaries.clients(progress)
        with Supervisor() as supervisor, cls.started(supervisor, programs, clients, progress) as cluster:
            yield cluster

    @classmethod
    @contextlib.contextmanager
    def started(
        cls,
        supervisor: Supervisor,
        programs: binaries.Programs,
        clients: binaries.Clients,
        progress: Progress | None = None,
        host: str = components.HOST,
    ) -> Iterator[Self]:
        """Start a control plane under a supervisor that the caller has, stop it at the end of the block.

        `host` is the address of the API server; nodes and pods must be able to reach it.
        """
        with (progress or Silent()).step("starting etcd, Kubernetes' control plane and kwok"):
            plane = ControlPlane.start(programs, supervisor, host)
        try:
            yield cls(plane.kubeconfig, plane.folder, clients, plane)
        finally:
            plane.stop()

    @classmethod
    @contextlib.contextmanager
    def chosen(cls, kubeconfig: Path, progress: Progress | None = None) -> Iterator[Self]:
        """Use a cluster that runs already. Raises FileNotFoundError, or CommandError without an answer."""
        if not kubeconfig.is_file():
            raise FileNotFoundError(
                f"HAWK_TEST_KUBECONFIG: {kubeconfig} is no file; name a cluster's kubeconfig"
            )
        with Supervisor() as supervisor:
            cluster = cls(kubeconfig, supervisor.folder, binaries.clients(progress))
            cluster.kubectl("get", "--raw", "/readyz", timeout=30)
            yield cluster

    @property
    def own_files(self) -> Path:
        """The folder of our own control plane, this process's or that of `python -m tests.cluster up`.

        Raises NotHereError in a cluster of another make.
        """
        if self._own_files is None:
            raise NotHereError("needs our own control plane; HAWK_TEST_KUBECONFIG names another")
        return self._own_files

    def kubectl(
        self,
        *arguments: str | Path,
        stdin: str | None = None,
        kubeconfig: Path | None = None,
        timeout: float = COMMAND_SECONDS,
    ) -> str:
        """Run kubectl as administrator, or as the owner of another kubeconfig; return what it printed.

        Raises CommandError with kubectl's words, and subprocess.TimeoutExpired.
        """
        return self._run(self.clients.kubectl, arguments, stdin, kubeconfig, timeout)

    def helm(
        self,
        *arguments: str | Path,
        stdin: str | None = None,
        kubeconfig: Path | None = None,
        timeout: float = COMMAND_SECONDS,
    ) -> str:
        """Run helm, with the same conventions; its caches and settings stay in the cluster's folder."""
        return self._run(self.clients.helm, arguments, stdin, kubeconfig, timeout)

    def get(self, *arguments: str, kubeconfig: Path | None = None) -> Any:
        """Return `kubectl get ARGUMENTS -o json`, parsed."""
        question = GetQuestion.of(arguments)
        if self._direct and question and not kubeconfig:
            with _as_kubectl_says("get", *arguments):
                if found := self._direct.get(question):
                    return found
        return json.loads(self.kubectl("get", *arguments, "-o", "json", kubeconfig=kubeconfig))

    def apply(self, *objects: Mapping[str, Any], kubeconfig: Path | None = None) -> None:
        """Apply objects on the server's side, as field manager `test`; raises CommandError."""
        rest = list(objects)
        if self._direct and not kubeconfig:
            with _as_kubectl_says("apply"):
                rest = [body for body in objects if not self._direct.apply(body, "test")]
        if rest:
            words = ["apply", "--server-side", "--field-manager=test", "-f", "-"]
            self.kubectl(*words, stdin=yaml.safe_dump_all(rest), kubeconfig=kubeconfig)

    def client(self, kubeconfig: Path | None = None, manager: str = "test") -> Client:
        """Return a client with the administrator's rights, or those of another kubeconfig."""
        return client_of(kubeconfig or self.kubeconfig, manager)

    def node(
        self,
        name: str | None = None,
        *,
        capacity: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
    ) -> str:
        """Add a node without a kubelet, wait until it is Ready, return its name (made up when none is given).

        `capacity` adds to plenty of cpu, memory and pods, for example `{"nvidia.com/gpu": "8"}`. Raises
        NotHereError in the user's cluster, where such a node would attract the user's own pods.
        """
        self.own_files  # noqa: B018
        name = name or f"fake-{uuid.uuid4().hex[:8]}"
        resources = {**FAKE_NODE_CAPACITY, **(capacity or {})}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "type": "fake", **(labels or {})},
                "annotations": {components.FAKE_NODE_ANNOTATION: "fake", **(annotations or {})},
            },
            "spec": {"taints": list(taints)},
            "status": {"capacity": resources, "allocatable": resources},
        }
        self.kubectl("create", "-f", "-", stdin=json.dumps(node))
        self.kubectl("wait", f"node/{name}", "--for=condition=Ready", "--timeout=120s")
        # The controller manager takes its taint off a moment after the node is Ready; before, no pod fits.
        until(lambda: not self._not_ready(name), what=f"node {name} without its not-ready taint", timeout=60)
        return name

    def delete_node(self, name: str) -> None:
        """Remove a node and the pods bound to it, which nothing would end once their node is gone."""
        pods = ["pods", "--all-namespaces", f"--field-selector=spec.nodeName={name}"]
        self.kubectl("delete", "node", name, "--ignore-not-found", "--wait=false")
        self.kubectl("delete", *pods, "--force", "--grace-period=0", "--wait=false")

    def service_account_kubeconfig(
        self, namespace: str, name: str, *, bound_pod: str | None = None, seconds: int = 3600
    ) -> Path:
        """Return a kubeconfig that holds a real token of a service account, so that its RBAC applies.

        With `bound_pod` the token is valid only as long as that pod exists, like a token mounted into it.
        """
        words = ["create", "token", name, f"--namespace={namespace}", f"--duration={seconds}s"]
        if bound_pod:
            words += ["--bound-object-kind=Pod", f"--bound-object-name={bound_pod}"]
        token = self.kubectl(*words).strip()
        config = json.loads(self.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
        config["users"] = [{"name": config["contexts"][0]["context"]["user"], "user": {"token": token}}]
        config["contexts"][0]["context"]["namespace"] = namespace
        path = self.folder / f"{namespace}-{name}-{uuid.uuid4().hex[:8]}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        return path

    def audit_mark(self) -> int:
        """Return the present end of the audit log, to read from there later."""
        return components.audit_log(self.own_files).stat().st_size

    def audit_events(self, since: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the API server's audit events from a mark on: who did what, with what outcome.

        Writes of our own API group carry `requestObject`.
        """
        with components.audit_log(self.own_files).open("rb") as log:
            log.seek(since)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # still being written
                yield json.loads(line)

    @functools.cached_property
    def _direct(self) -> Direct | None:
        """The short way to our own control plane; there is none to a cluster of another make."""
        return None if self._own_files is None else Direct(self.kubeconfig)

    def _not_ready(self, name: str) -> bool:
        taints = self.get("node", name)["spec"].get("taints", [])
        return any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)

    def _run(
        self,
        program: Path,
        arguments: Sequence[str | Path],
        stdin: str | None,
        kubeconfig: Path | None,
        timeout: float,
    ) -> str:
        command = [str(program), *map(str, arguments)]
        home = self.folder / "helm"
        environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig or self.kubeconfig),
            "KUBECACHEDIR": str(self.folder / "kubectl"),
            "HELM_CACHE_HOME": str(home / "cache"),
            "HELM_CONFIG_HOME": str(home / "config"),
            "HELM_DATA_HOME": str(home / "data"),
        }
        done = subprocess.run(
            command,
            input=stdin or "",
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise CommandError([program.name, *command[1:]], done)
        return done.stdout


@contextlib.contextmanager
def _as_kubectl_says(*words: str) -> Iterator[None]:
    """Turn a refusal into the error that kubectl's refusals are."""
    try:
        yield
    except RefusedError as error:
        command = ["kubectl", *words]
        done = subprocess.CompletedProcess(command, 1, "", str(error))
        raise CommandError(command, done) from error
