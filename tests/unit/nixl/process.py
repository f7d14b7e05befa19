"""An agent in a process of its own that finds NIXL in another environment.

python -m tests.unit.nixl.process SITE NODE SOCKET. It answers in lines of JSON: its address at first; then
for each line NODE=ADDRESS on its input it wires that peer, and answers when the link is proved. It stops at
the end of its input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from hawk_agent.service.agent import NodeAgent
from hawk_agent.service.links import LinkState
from hawk_agent.service.settings import AgentSettings, PeerAddress

PROOF_SECONDS = 60.0


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


async def proved(agent: NodeAgent, node: str) -> str:
    facts = agent.links.facts
    try:
        async with asyncio.timeout(PROOF_SECONDS):
            while not any(f.node == node and f.state is LinkState.VERIFIED for f in facts()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    except TimeoutError:
        return f"not proved: {facts()}"
    return ""


async def main(node: str, socket: Path) -> None:
    listen = {"listen": "127.0.0.1:0", "insecure": True}
    agent = NodeAgent(AgentSettings(node=node, socket=socket, transports=("nixl",), copy_threads=2, **listen))
    await agent.start()
    say(address=agent.address, transports=sorted(agent.transports))
    while line := await asyncio.to_thread(sys.stdin.readline):
        peer, _, address = line.strip().partition("=")
        agent.links.wire([PeerAddress(address, peer)])
        say(error=await proved(agent, peer))
    await agent.stop()


if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    asyncio.run(main(sys.argv[2], Path(sys.argv[3])))
