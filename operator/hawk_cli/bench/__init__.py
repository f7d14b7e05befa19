"""Benchmarks of HawkPool, the baselines and the machine's limit, interleaved in one run."""
