"""What a watch event means: which keys to look at. Nothing is decided and nothing is written here."""
