"""The performance model that sizing, plans and simulation share."""
