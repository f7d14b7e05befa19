"""Engines that say who they are, where the agent asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hawk_agent.client import AgentClient
from hawk_agent.errors import EngineRefusedError
from hawk_agent.kube.tokens import AUDIENCE, pod_of
from hawk_agent.service.agent import NodeAgent
from hawk_agent.service.engine_identity import EnginePod
from hawk_agent.service.settings import AgentSettings

from .house import GEOMETRY, ROWS, off, open_cache

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PODS = {
    "right": EnginePod("default", "decode-0", "npu"),
    "other": EnginePod("default", "decode-1", "npu"),
    "tenant": EnginePod("evil", "decode-0", "npu"),
    "elsewhere": EnginePod("default", "decode-0", "gpu"),
    "unsaid": EnginePod("default", "decode-0", ""),
}


class Known:
    """Pods by token."""

    async def review(self, token: str) -> EnginePod:
        if token not in PODS:
            raise EngineRefusedError("the engine's token is refused")
        return PODS[token]


def register(engine: AgentClient) -> None:
    """Register as default/llama's worker decode-0."""
    open_cache(engine, "kv", ROWS, GEOMETRY, "decode").close()


async def connect(folder: Path, token: str | None, ask: Callable[[AgentClient], None] = register) -> str:
    """Ask something of an agent that knows engines by tokens; the refusal's words, or ""."""
    settings = AgentSettings(
        node="npu", socket=folder / "a.sock", listen="127.0.0.1:0", insecure=True, copy_threads=1
    )
    agent = NodeAgent(settings, reviewer=Known())
    await agent.start()
    file = folder / "token"
    if token is not None:
        file.write_text(f"{token}\n")

    def engine() -> str:
        try:
            with AgentClient(agent.settings.socket, token_file=file) as made:
                ask(made)
        except EngineRefusedError as error:
            return str(error)
        return ""

    try:
        return await off(engine)
    finally:
        await agent.stop()


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("right", ""),
        ("unsaid", ""),
        (None, "refused"),
        ("forged", "refused"),
        ("other", "register as decode-1"),
        ("tenant", "isn't in namespace evil"),
        ("elsewhere", "runs on gpu"),
    ],
)
async def test_an_engine_is_the_worker_that_its_token_says(tmp_path, token, words):
    said = await connect(tmp_path, token)

    assert bool(said) == bool(words)
    assert words in said


def reviewed(**changes):
    extra = {
        "authentication.kubernetes.io/pod-name": ["decode-0"],
        "authentication.kubernetes.io/node-name": ["npu"],
    }
    user = {"username": "system:serviceaccount:default:engine", "extra": extra}
    return {"authenticated": True, "audiences": [AUDIENCE], "user": user, **changes}


def test_a_review_names_the_pod_that_the_token_is_bound_to():
    assert pod_of(reviewed()) == PODS["right"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({}, "refused"),
        ({"authenticated": False, "error": "token has expired"}, "expired"),
        (reviewed(audiences=["https://kubernetes.default.svc"]), "audience"),
        (reviewed(user={"username": "system:serviceaccount:default:engine"}), "isn't bound to a pod"),
        (reviewed(user={"username": "admin", "extra": reviewed()["user"]["extra"]}), "isn't bound"),
    ],
)
def test_a_token_that_names_no_pod_is_refused(status, words):
    with pytest.raises(EngineRefusedError, match=words):
        pod_of(status)
