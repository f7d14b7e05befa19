"""The status of a pool: conditions and counts, computed from facts."""
