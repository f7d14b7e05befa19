"""Libraries that we compare with, each in an environment of its own."""
