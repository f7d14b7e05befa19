"""The agent in a cluster: its HawkNode, its Lease, and the peers that the operator gives it."""
