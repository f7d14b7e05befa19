"""KV cache layouts."""
