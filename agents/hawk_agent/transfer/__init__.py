"""Shared by streaming and the transports: chunks, translations, outcomes, and a transport's interface."""
