"""The hawk command line, also installed as kubectl-hawk."""

from hawk_operator.cli.app import main

__all__ = ["main"]
