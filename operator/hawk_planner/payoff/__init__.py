"""The pay-off of splitting inference over heterogeneous devices: arithmetic, plans, and the condition on a
pool."""
