"""Access to the Kubernetes API: calls, rights, events, served schemas."""
