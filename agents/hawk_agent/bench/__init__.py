"""Benchmarks: ours, the peers' and the machine's limit, interleaved in one run."""
