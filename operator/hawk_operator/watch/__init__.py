"""Watches of the cluster and their event handlers."""
