"""The HawkPool API."""
