"""Input and output shared by several commands: files, clusters, the pool in question, printed tables."""
