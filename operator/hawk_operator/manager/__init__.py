"""The process: leader election, worker threads, periodic lists, health."""
