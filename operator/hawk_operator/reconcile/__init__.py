"""One look at one pool: observe, plan, act, and say what was found."""
