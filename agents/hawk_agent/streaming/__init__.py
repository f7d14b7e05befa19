"""Transfers: leases, chunks, outcomes, and the two ends that move them."""
