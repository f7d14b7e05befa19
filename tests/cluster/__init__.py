"""A real Kubernetes control plane for tests and the demo, on any Linux machine, without leftovers.

`python -m tests.cluster build` compiles etcd, Kubernetes and kwok once from pinned modules (gobuild,
binaries, packages, toolchain, cache). A `Cluster` (cluster, control_plane, components, pki, ports) runs them;
nodes and pods have no kubelet, kwok answers for them (fake_nodes.yaml). Processes belong to a `Supervisor`
(supervisor, warden), which ends them when their owner is gone. `fixtures` gives all of this to pytest.
"""
