"""Registered memory: regions that engines hand over, and which of their blocks are in use."""
