"""From a decision to running workers: children, steps, drains and scale targets."""
