"""The hawk command line."""
