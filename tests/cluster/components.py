"""Command lines of the control plane's parts. Pure: paths and ports in, command lines out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import pki

if TYPE_CHECKING:
    from pathlib import Path

    from .binaries import Programs

HOST = "127.0.0.1"
SERVICE_RANGE = "10.96.0.0/16"
POD_RANGE = "10.244.0.0/16"
ISSUER = "https://kubernetes.default.svc.cluster.local"
FAKE_NODE_ANNOTATION = "kwok.x-k8s.io/node"
GROUP = "hawkpool.dev"

AUDIT_POLICY_FILE = "audit-policy.json"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Request",
            "verbs": ["create", "update", "patch", "delete", "deletecollection"],
            "resources": [{"group": GROUP}],
        },
        {"level": "Metadata"},
    ],
}


@dataclass(frozen=True)
class Addresses:
    """The ports of one control plane; the API server's is on `host`, the others are on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    api: int
    controller_manager: int
    scheduler: int
    kwok: int
    host: str = HOST

    @property
    def ports(self) -> tuple[int, ...]:
        """Every port that the control plane listens on."""
        return (self.etcd, self.etcd_peer, self.api, self.controller_manager, self.scheduler, self.kwok)

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://{self.host}:{self.api}"


def write_files(folder: Path, authority: pki.Authority, addresses: Addresses) -> None:
    """Write every certificate, key, kubeconfig and policy that the commands below name."""
    certificates = folder / "pki"
    certificates.mkdir(mode=0o700)
    authority.pair.write(certificates, "ca")
    authority.server("kube-apiserver", addresses.host).write(certificates, "apiserver")
    tokens = pki.new_key()
    (certificates / "tokens.key").write_bytes(pki.private_pem(tokens))
    (certificates / "tokens.pub").write_bytes(pki.public_pem(tokens))
    users = {
        "admin": authority.user("admin", ["system:masters"]),
        "controller-manager": authority.user("system:kube-controller-manager"),
        "scheduler": authority.user("system:kube-scheduler"),
        "kwok": authority.user("kwok", ["system:masters"]),
    }
    users["admin"].write(certificates, "admin")
    for name, pair in users.items():
        text = pki.kubeconfig(addresses.server, authority.pair.certificate_pem, pki.certificate_user(pair))
        path = folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(text)
    (folder / AUDIT_POLICY_FILE).write_text(json.dumps(AUDIT_POLICY))


def etcd(programs: Programs, folder: Path, addresses: Addresses) -> list[str | Path]:
    """Return etcd's command line; nothing is synced to disk, since nothing outlives the run."""
    client = f"http://{HOST}:{addresses.etcd}"
    peer = f"http://{HOST}:{addresses.etcd_peer}"
    return [
        programs.etcd,
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    ]


def apiserver(programs: Programs, folder: Path, addresses: Addresses) -> list[str | Path]:
    """Return the API server's command line: RBAC, NodeRestriction, service account tokens, audit log."""
    certificates = folder / "pki"
    return [
        programs.kube_apiserver,
        f"--etcd-servers=http://{HOST}:{addresses.etcd}",
        f"--bind-address={addresses.host}",
        f"--advertise-address={addresses.host}",
        f"--secure-port={addresses.api}",
        f"--cert-dir={folder / 'apiserver'}",
        f"--tls-cert-file={certificates / 'apiserver.crt'}",
        f"--tls-private-key-file={certificates / 'apiserver.key'}",
        f"--client-ca-file={certificates / 'ca.crt'}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={certificates / 'tokens.pub'}",
        f"--service-account-signing-key-file={certificates / 'tokens.key'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={certificates / 'admin.crt'}",
        f"--kubelet-client-key={certificates / 'admin.key'}",
        # A loopback address is no endpoint that pods could reach.
        f"--endpoint-reconciler-type={'none' if addresses.host == HOST else 'lease'}",
        "--profiling=false",
        f"--audit-policy-file={folder / AUDIT_POLICY_FILE}",
        f"--audit-log-path={audit_log(folder)}",
        "--audit-log-format=json",
        "--audit-log-maxsize=4096",
    ]


def controller_manager(programs: Programs, folder: Path, addresses: Addresses) -> list[str | Path]:
    """Return the controller manager's command line; it signs with the cluster's authority."""
    certificates = folder / "pki"
    return [
        programs.kube_controller_manager,
        *_as_user(folder, "controller-manager", addresses.controller_manager),
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={certificates / 'tokens.key'}",
        f"--root-ca-file={certificates / 'ca.crt'}",
        f"--cluster-signing-cert-file={certificates / 'ca.crt'}",
        f"--cluster-signing-key-file={certificates / 'ca.key'}",
        "--controllers=*,-cloud-node-lifecycle-controller",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--cluster-cidr={POD_RANGE}",
        "--concurrent-gc-syncs=10",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def scheduler(programs: Programs, folder: Path, addresses: Addresses) -> list[str | Path]:
    """Return the scheduler's command line."""
    return [programs.kube_scheduler, *_as_user(folder, "scheduler", addresses.scheduler)]


def kwok(programs: Programs, kubeconfig: Path, stages: Path, port: int) -> list[str | Path]:
    """Return kwok's command line: it plays kubelet for the nodes that carry its annotation only."""
    return [
        programs.kwok,
        f"--kubeconfig={kubeconfig}",
        f"--config={stages}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={FAKE_NODE_ANNOTATION}=fake",
        f"--cidr={POD_RANGE}",
        f"--node-ip={HOST}",
        # Without Leases nodes, and the pods on them, would be NotReady after the controller manager's grace.
        "--node-lease-duration-seconds=40",
        f"--server-address={HOST}:{port}",
    ]


def audit_log(folder: Path) -> Path:
    """Return where the API server writes its audit log."""
    return folder / "audit.log"


def _as_user(folder: Path, name: str, port: int) -> list[str | Path]:
    config = folder / f"{name}.kubeconfig"
    return [
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--cert-dir={folder / name}",
        "--leader-elect=false",
        "--profiling=false",
    ]
