"""Whether splitting inference over unlike devices pays: arithmetic, plans, and the condition on a pool."""
