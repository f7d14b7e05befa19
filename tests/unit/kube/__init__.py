"""The Kubernetes client: its configuration, and what it makes of servers that misbehave."""
