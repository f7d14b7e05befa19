"""Reasons why a test can't run here; each becomes a skip that names it."""


class MissingToolError(RuntimeError):
    """A tool that is needed can't be had on this machine; the message says how to supply it."""


class NotHereError(RuntimeError):
    """The chosen cluster lacks what only our own control plane has."""
