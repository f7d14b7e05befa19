"""The comparison of policies in docs/scaling.md: measured once, drawn from what was measured."""
