"""The agent as a service: engines on a Unix socket, peers on gRPC, links between agents, health and
metrics."""
