"""Replay traffic through the decision in simulated time, beside the policies that people use today."""
