"""The HawkPool node agent."""
