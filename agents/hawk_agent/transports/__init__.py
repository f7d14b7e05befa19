"""Transports: each moves chunks from a source to a destination, by the interface in `transfer.transport`."""
