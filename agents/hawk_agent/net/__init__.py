"""Sockets: listening ones that say what is in the way, data sockets, and streams read in large parts."""
