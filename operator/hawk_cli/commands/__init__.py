"""The commands of hawk, one module each."""
