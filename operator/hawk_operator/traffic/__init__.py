"""Reads the traffic of a pool from Prometheus as a window of `hawk_planner.traffic`."""
