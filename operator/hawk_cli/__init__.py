"""The hawk command line, also installed as kubectl-hawk."""
