"""Other projects' own code as policies, each in an environment of its own."""
