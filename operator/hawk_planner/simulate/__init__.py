"""Replay traffic through the scaling decision and other policies in simulated time."""
