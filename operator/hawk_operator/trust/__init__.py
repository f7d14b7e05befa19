"""Trust between agents: signs and denies their certificate requests.

An agent makes its key on its node and asks through the Kubernetes API for a certificate that says which node
and pod it is. The operator compares that with the node and pod that the API server read from its token
(`policy`), signs (`authority`), and publishes what to trust. The authority's key is the one secret in the
cluster: one Secret that the operator alone may read. Nobody else learns a key, and no certificate names
anything but an agent.
"""

from hawk_operator.trust.authority import Lifetimes
from hawk_operator.trust.metrics import TrustMetrics
from hawk_operator.trust.signer import SignerSettings, run

__all__ = ["Lifetimes", "SignerSettings", "TrustMetrics", "run"]
