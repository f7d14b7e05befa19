"""Which agents are peers: from pools and agents to the specs of HawkNodes."""
