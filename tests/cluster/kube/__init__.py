"""The Kubernetes client against a real API server."""
