"""The planner against a real API server."""
