"""Objects of the cluster in memory, kept current by watches and periodic lists."""
