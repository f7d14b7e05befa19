"""Engines' tokens, reviewed by the API server.

| verb   | resource     | why                                            |
|--------|--------------|------------------------------------------------|
| create | tokenreviews | which pod an engine is, with `--engine-auth token` |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hawk_agent.errors import EngineRefusedError
from hawk_agent.service.engine_identity import EnginePod
from hawk_api.certificates import NODE_NAME_EXTRA
from hawk_kube.errors import ApiError
from hawk_kube.kinds import TOKEN_REVIEW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_kube.threads import AsyncClient

AUDIENCE: Final = "hawkpool.dev"
"""Tokens are asked for this audience, so that one for the API server itself is never handed to an agent."""
LONGEST: Final = 8192
_POD_NAME_EXTRA: Final = "authentication.kubernetes.io/pod-name"
_ACCOUNT: Final = "system:serviceaccount:"


class TokenReviewer:
    """Asks the API server about each token; nothing is remembered, so a pod's end is known at once."""

    def __init__(self, kube: AsyncClient) -> None:
        self._kube = kube

    async def review(self, token: str) -> EnginePod:
        """See `Reviewer`."""
        if not 0 < len(token) <= LONGEST:
            raise EngineRefusedError(
                "the engine gave no token; mount a projected service account token for the audience "
                f"{AUDIENCE} and name its file in HAWK_ENGINE_TOKEN_FILE"
            )
        spec = {"token": token, "audiences": [AUDIENCE]}
        try:
            found = await self._kube.call(self._kube.client.review, TOKEN_REVIEW, spec)
        except ApiError as error:
            raise EngineRefusedError(f"the engine's token can't be checked now: {error}") from error
        return pod_of(found)


def pod_of(status: Mapping[str, Any]) -> EnginePod:
    """The pod that a TokenReview's status names, or EngineRefusedError. Pure."""
    if not status.get("authenticated") or AUDIENCE not in (status.get("audiences") or ()):
        why = status.get("error") or f"it isn't for the audience {AUDIENCE}"
        raise EngineRefusedError(f"the engine's token is refused: {why}")
    user = status.get("user") or {}
    extra = user.get("extra") or {}
    pods, nodes = (list(extra.get(key) or ()) for key in (_POD_NAME_EXTRA, NODE_NAME_EXTRA))
    account = str(user.get("username") or "")
    if not account.startswith(_ACCOUNT) or len(pods) != 1:
        raise EngineRefusedError(
            "the engine's token isn't bound to a pod; use a projected token, not a Secret's or a person's"
        )
    namespace = account.removeprefix(_ACCOUNT).partition(":")[0]
    return EnginePod(namespace, str(pods[0]), str(nodes[0]) if len(nodes) == 1 else "")
