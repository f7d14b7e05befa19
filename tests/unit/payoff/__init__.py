"""Figures of the planner: golden values, independent recomputation, and properties."""
