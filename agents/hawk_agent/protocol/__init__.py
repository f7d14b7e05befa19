"""The wire protocols: protobuf messages between engine and agent and between agents, and their framing."""
