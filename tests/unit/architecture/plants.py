"""Imports that no room may have, each with the contract of pyproject.toml that refuses it."""

from __future__ import annotations

from typing import NamedTuple

ROOMS = "the agent's rooms, from top to bottom"
CIRCLE = "no files of the agent import each other in a circle"
ENGINE = "an engine that connects to its agent loads none of the agent's machinery"
PURE = "pure rooms know neither Kubernetes nor the metrics store nor RDMA"
APART = "the agent never imports the operator"
BELOW = "hawk_api is below everything"


class Plant(NamedTuple):
    """A statement that is added to a file (a module's name), and the contract that must break."""

    module: str
    statement: str
    contract: str


AGENT = (
    Plant("hawk_agent.transports.tcp", "from hawk_agent.streaming import lease", ROOMS),
    Plant("hawk_agent.transports.shm", "from hawk_agent.service import settings", ROOMS),
    Plant("hawk_agent.streaming.receiver", "from hawk_agent.service.links import Links", ROOMS),
    Plant("hawk_agent.memory.region", "from hawk_agent.transports.verbs import registration", ROOMS),
    Plant("hawk_agent.metrics", "from hawk_agent.net import sockets", ROOMS),
    Plant("hawk_agent.service.links", "from hawk_agent.kube import status", ROOMS),
    Plant("hawk_agent.service.requests", "from hawk_agent.client import Engine", ROOMS),
    Plant("hawk_agent.plans.costs", "from hawk_agent.protocol import framing", ROOMS),
    Plant("hawk_agent.errors", "def late():\n    from hawk_agent.layouts import Layout", ROOMS),
    Plant("hawk_agent.attic", "", ROOMS),  # a room that nobody has drawn
    Plant("hawk_agent.streaming.lease", "from hawk_agent.streaming import table", CIRCLE),
    Plant("hawk_agent.transports.verbs.device", "from hawk_agent.transports.verbs import port", CIRCLE),
    Plant("hawk_agent.client.engine", "from hawk_agent.streaming import lease", ENGINE),
    Plant("hawk_agent.layouts.notation", "import grpc", PURE),
    Plant("hawk_agent.kube.api", "from hawk_operator import resources", APART),
    Plant("hawk_api.units", "from hawk_agent import layouts", BELOW),
)

PLANTS = (*AGENT,)
