"""What is said about a pool: facts in, conditions and counts out."""
