"""Tokens of real pods, reviewed by the real API server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from hawk_agent.errors import EngineRefusedError
from hawk_agent.kube.tokens import AUDIENCE, TokenReviewer
from hawk_agent.service.engine_identity import EnginePod
from hawk_kube.threads import AsyncClient
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.fixtures import AddNode

pytestmark = pytest.mark.cluster


def review(cluster: Cluster, token: str) -> EnginePod:
    async def ask() -> EnginePod:
        kube = AsyncClient(cluster.client())
        try:
            return await TokenReviewer(kube).review(token)
        finally:
            await kube.close()

    return asyncio.run(ask())


def token(cluster: Cluster, namespace: str, *words: str) -> str:
    return cluster.kubectl("create", "token", "default", "-n", namespace, *words).strip()


def test_a_token_of_a_pod_names_it_until_the_pod_is_gone(
    cluster: Cluster, namespace: str, fake_node: AddNode
) -> None:
    node = fake_node()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "decode-0", "namespace": namespace},
        "spec": {"nodeName": node, "containers": [{"name": "engine", "image": "example/engine:1"}]},
    }
    cluster.apply(pod)
    bound = ("--bound-object-kind=Pod", "--bound-object-name=decode-0")
    good = token(cluster, namespace, f"--audience={AUDIENCE}", *bound)

    assert review(cluster, good) == EnginePod(namespace, "decode-0", node)
    for other, words in (
        (token(cluster, namespace, *bound), "refused"),  # for the API server itself
        (token(cluster, namespace, f"--audience={AUDIENCE}"), "isn't bound to a pod"),
        (good[:-8] + "AAAAAAAA", "refused"),
        ("", "gave no token"),
    ):
        with pytest.raises(EngineRefusedError, match=words):
            review(cluster, other)
    cluster.kubectl("delete", "pod", "decode-0", "-n", namespace, "--force", "--grace-period=0")
    until(lambda: refused(cluster, good), what="the token to end with its pod")


def refused(cluster: Cluster, text: str) -> bool:
    """The API server remembers for some seconds that a token was good."""
    try:
        review(cluster, text)
    except EngineRefusedError:
        return True
    return False
