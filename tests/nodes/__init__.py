"""Real nodes for tests: kubelet, kube-proxy and containerd, three times on one machine, as root.

A node (node) is a process with a network, a mount and a process namespace of its own; when that process is
killed, everything of the node is gone with it. Nodes and the control plane of tests/cluster stand on a bridge
(network) in a network namespace that reaches nothing else, where `dns` answers for services. `tools` has the
programs, from Debian's packages; `store` unpacks the project's images once for all nodes; `rig` puts it
together; `engine` is a worker to run in pods.
"""
