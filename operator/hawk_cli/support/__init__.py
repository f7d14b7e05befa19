"""Input and output that several commands share: files, clusters, the pool they are about, printed tables."""
