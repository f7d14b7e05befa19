"""Ways to bring a chunk's bytes from a source to a destination, each behind the interface of `base`."""
