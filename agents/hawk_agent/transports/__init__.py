"""Ways to bring a chunk from a source to a destination, each behind the interface of `transfer.transport`."""
