"""Settings, metrics and the work queue that the other modules share."""
