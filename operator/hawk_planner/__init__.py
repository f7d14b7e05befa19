"""Capacity planning for heterogeneous accelerators: traffic, sizing, pay-off, simulation. Pure."""
