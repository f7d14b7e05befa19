"""The configuration files of a node's programs. Pure: names and paths in, text out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER_RANGE = "10.244.0.0/16"
DNS = "10.96.0.10"


@dataclass(frozen=True)
class Place:
    """Where a node's files are. `folder` is on disk; `sockets` is on the node's own /run."""

    folder: Path
    images: Path
    authority: Path
    sandbox: str
    cni: Path
    sockets: str = "/run/containerd"

    @property
    def containerd_socket(self) -> str:
        """Where containerd listens, in the node's mount namespace."""
        return f"{self.sockets}/containerd.sock"


def containerd(place: Place) -> str:
    """containerd's settings: overlay snapshots, cgroups by file, no score that this root may not give."""
    cri = '[plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{place.images}"
state = "{place.sockets}/state"
[grpc]
address = "{place.containerd_socket}"
{cri}]
sandbox_image = "{place.sandbox}"
restrict_oom_score_adj = true
tolerate_missing_hugetlb_controller = true
{cri}.cni]
bin_dir = "{place.cni}"
conf_dir = "{place.folder}/cni"
{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
{cri}.containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.internal.v1.opt"]
path = "{place.folder}/opt"
"""


def cni(place: Place, subnet: str) -> str:
    """The pods' network: a bridge, and addresses out of the node's range."""
    addresses = {
        "type": "host-local",
        "dataDir": f"{place.folder}/addresses",
        "ranges": [[{"subnet": subnet}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": addresses,
    }
    mapping = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": "hawk", "plugins": [bridge, mapping]})


def kubelet(place: Place, address: str, cgroup: str) -> str:
    """kubelet's configuration: cgroups of its own, short periods, no eviction by how full this machine is."""
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": address,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(place.authority)},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": cgroup,
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "containerRuntimeEndpoint": f"unix://{place.containerd_socket}",
            "clusterDNS": [DNS],
            "clusterDomain": "cluster.local",
            "evictionHard": {
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
                "imagefs.available": "0%",
                "memory.available": "1Mi",
            },
            "imageGCHighThresholdPercent": 100,
            "volumePluginDir": f"{place.folder}/volumeplugins",
            "podLogsDir": f"{place.folder}/podlogs",
            "resolvConf": f"{place.folder}/resolv.conf",
            "syncFrequency": "10s",
            "nodeStatusUpdateFrequency": "4s",
        },
        indent=1,
    )


def proxy(kubeconfig: Path, name: str) -> str:
    """kube-proxy's configuration; it may not change the machine's limits of connection tracking."""
    return json.dumps(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "mode": "iptables",
            "clusterCIDR": CLUSTER_RANGE,
            "hostnameOverride": name,
            "conntrack": {"maxPerCore": 0, "min": 0},
            "iptables": {"minSyncPeriod": "0.2s"},
        }
    )
