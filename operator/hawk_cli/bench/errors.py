"""The one exception of this package."""


class BenchError(Exception):
    """A measurement isn't possible here, or its bytes were wrong; the message says why and what to do."""
