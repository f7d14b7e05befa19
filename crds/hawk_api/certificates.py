"""The content of an agent's certificate: the names that the agent, the signer and the peers must agree on.

The identity is in the subject alternative names alone: a URI for people and policies, which names node and
pod, and a DNS name that TLS libraries can check. The common name is constant, because it ends at 64
characters and a node's name does not.
"""

from __future__ import annotations

from typing import Final

SIGNER: Final = "hawkpool.dev/agent"
"""The signerName of agents' certificate requests."""

COMMON_NAME: Final = "hawk-agent"

USAGES: Final = ("digital signature", "server auth", "client auth")
"""The key usages of a request: each agent is a server to some peers and a client to others."""

DNS_SUFFIX: Final = "agent.hawkpool.dev"
"""Agents' DNS names end so. They are never resolved: the suffix keeps a node that is named by an IP address a
name, and confines the authority to these names."""

NODE_NAME_EXTRA: Final = "authentication.kubernetes.io/node-name"
POD_UID_EXTRA: Final = "authentication.kubernetes.io/pod-uid"
"""Where the API server puts the node and the pod that a service account's token is bound to."""


def server_name(node: str) -> str:
    """The DNS name in the certificate of the agent on `node`; what a client checks the server for."""
    return f"{node}.{DNS_SUFFIX}"


def uri(node: str, pod_uid: str) -> str:
    """The URI in the certificate of the agent pod `pod_uid` on `node`."""
    return f"spiffe://hawkpool.dev/node/{node}/pod/{pod_uid}"


def node_of(name: str) -> str:
    """The node that a DNS name of a certificate stands for; ValueError when it is not an agent's name."""
    node = name.removesuffix(f".{DNS_SUFFIX}")
    if node == name or not node:
        raise ValueError(f"certificate name {name!r}: not an agent's; it must end in .{DNS_SUFFIX}")
    return node
