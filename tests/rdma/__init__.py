"""Tests against a real RDMA provider, and the rig that gives one to any machine: see __main__."""
