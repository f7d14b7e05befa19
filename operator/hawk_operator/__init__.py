"""The HawkPool operator and command line."""
