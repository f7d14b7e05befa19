"""Sockets: listeners whose errors name the cause, data sockets, and streams read in large parts."""
