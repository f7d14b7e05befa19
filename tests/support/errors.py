"""What keeps a test from running here; each becomes a skip with its reason."""


class MissingToolError(RuntimeError):
    """A tool that is needed can't be had on this machine; the message says how to supply it."""


class NotHereError(RuntimeError):
    """The chosen cluster lacks what only our own control plane has."""
