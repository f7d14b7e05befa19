"""The agent's identity towards its peers: a key made here, and a certificate for it from the cluster.

`ensure` gets the first certificate before the agent talks to anybody; `keep` renews it and follows what is
trusted for as long as the agent runs. Both only write files. Whoever opens a connection reads them by `read`,
which gives a key and a certificate that belong together even while they are being replaced, so that a renewal
needs no restart. Certificates from elsewhere are files at the same places, and nothing here runs.
"""

from hawk_agent.identity.cluster import Cluster
from hawk_agent.identity.errors import IdentityError
from hawk_agent.identity.keeper import ensure_identity, keep_identity
from hawk_agent.identity.material import Files, Material, read_material

__all__ = [
    "Cluster",
    "Files",
    "IdentityError",
    "Material",
    "ensure_identity",
    "keep_identity",
    "read_material",
]
