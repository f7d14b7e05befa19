"""Shared by the rigs of the tests: child processes that never outlive us, a cache, packages, progress."""
