"""Whether splitting inference over unlike devices pays: arithmetic, plans, and the condition on a pool."""

from .verdict import PaysOff, condition, given_by

__all__ = ["PaysOff", "condition", "given_by"]
