"""Errors of an agent's identity."""

from __future__ import annotations

from hawk_agent.errors import HawkAgentError


class IdentityError(HawkAgentError):
    """No certificate, or one that can't be used; the message names the value and the remedy."""
