"""Imports that no module may have, each with the contract of pyproject.toml that refuses it."""

from __future__ import annotations

from typing import NamedTuple


def modules(package: str) -> str:
    """The name of the contract about a package's modules."""
    return f"the modules of {package}, from top to bottom"


MODULES = modules("hawk_agent")
CIRCLE = "no files import each other in a circle"
ENGINE = "an engine that connects to its agent loads none of the agent's machinery"
PURE = "pure modules know neither Kubernetes nor the metrics store nor RDMA"
PACKAGES = "packages: the command line is on top, the API below everything"
PART = "of the agent, planner and operator import only layouts and plans"


class Plant(NamedTuple):
    """A statement that is added to a file (a module's name), and the contract that must break."""

    module: str
    statement: str
    contract: str


AGENT = (
    Plant("hawk_agent.transports.tcp", "from hawk_agent.streaming import lease", MODULES),
    Plant("hawk_agent.transports.shm", "from hawk_agent.service import settings", MODULES),
    Plant("hawk_agent.streaming.receiver", "from hawk_agent.service.links import Links", MODULES),
    Plant("hawk_agent.memory.region", "from hawk_agent.transports.verbs import registration", MODULES),
    Plant("hawk_agent.metrics", "from hawk_agent.net import sockets", MODULES),
    Plant("hawk_agent.service.links", "from hawk_agent.kube import status", MODULES),
    Plant("hawk_agent.service.requests", "from hawk_agent.client import Engine", MODULES),
    Plant("hawk_agent.plans.costs", "from hawk_agent.protocol import framing", MODULES),
    Plant("hawk_agent.errors", "def late():\n    from hawk_agent.layouts import Layout", MODULES),
    Plant("hawk_agent.attic", "", MODULES),  # a module that nobody has drawn
    Plant("hawk_agent.streaming.lease", "from hawk_agent.streaming import table", CIRCLE),
    Plant("hawk_agent.transports.verbs.device", "from hawk_agent.transports.verbs import port", CIRCLE),
    Plant("hawk_agent.client.engine", "from hawk_agent.streaming import lease", ENGINE),
    Plant("hawk_agent.layouts.notation", "import grpc", PURE),
    Plant("hawk_agent.kube.api", "from hawk_operator.kube import access", PACKAGES),
    Plant("hawk_api.units", "from hawk_agent import layouts", PACKAGES),
)

OTHERS = (
    Plant("hawk_planner.sizing.mix", "from hawk_operator.status import facts", PACKAGES),
    Plant("hawk_operator.reconcile.act", "from hawk_cli.support import output", PACKAGES),
    Plant("hawk_planner.payoff.paths", "from hawk_agent.transfer import outcome", PART),
    Plant("hawk_operator.status.layouts", "from hawk_agent.memory import region", PART),
    Plant("hawk_planner.traffic.window", "from hawk_planner.sizing import goal", modules("hawk_planner")),
    Plant("hawk_planner.payoff.plan", "from hawk_planner.simulate import score", modules("hawk_planner")),
    Plant("hawk_operator.workloads.pods", "from hawk_operator.kube import access", PURE),
    Plant("hawk_operator.kube.access", "from hawk_operator.cache import classes", modules("hawk_operator")),
    Plant(
        "hawk_operator.watch.watcher", "from hawk_operator.manager import health", modules("hawk_operator")
    ),
    Plant("hawk_operator.loose", "", modules("hawk_operator")),
    Plant("hawk_cli.support.output", "from hawk_cli.commands import plan", modules("hawk_cli")),
    Plant("hawk_kube.errors", "from hawk_kube import watch", modules("hawk_kube")),
    Plant("hawk_kube.kinds", "from hawk_planner import sizing", PACKAGES),
    Plant("hawk_kube.cupboard", "", modules("hawk_kube")),
    Plant("hawk_planner.sizing.goal", "from hawk_kube import kinds", PURE),
    Plant("hawk_api.v1alpha1.group", "from hawk_api.models import resolve", modules("hawk_api")),
    Plant("hawk_api.cupboard", "", modules("hawk_api")),
    Plant("hawk_planner.payoff.checks", "from hawk_planner.payoff import roofline", CIRCLE),
)

PLANTS = (*AGENT, *OTHERS)
