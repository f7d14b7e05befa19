"""Transfer plans."""
