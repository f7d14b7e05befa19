"""One reconcile of one pool: observe, plan, act, report."""
