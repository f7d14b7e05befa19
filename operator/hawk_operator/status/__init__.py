"""The status of a pool: facts in, conditions and counts out."""
