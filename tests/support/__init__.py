"""What the rigs of the tests share: child processes that never outlive us, a cache, packages, progress."""
