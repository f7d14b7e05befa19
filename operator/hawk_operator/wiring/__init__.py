"""Who must reach whom: from pools and agents to the peers in HawkNodes."""
