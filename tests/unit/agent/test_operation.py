"""An agent's HawkNode status, metrics and health, and the refusals of its command line."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hawk_agent import errors
from hawk_agent.kube import publisher, status
from hawk_agent.layouts import Layout
from hawk_agent.protocol import peer_pb2
from hawk_agent.service.handshake import HandshakeProblem
from hawk_agent.service.http import HttpServer
from hawk_agent.service.links import LinkFacts, LinkState
from hawk_agent.service.settings import AgentSettings
from hawk_api.reasons import Reason
from hawk_api.settings import SettingsError
from hawk_api.v1alpha1.hawknode import HawkNodeStatus
from tests.unit.agent.house import House, off

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = peer_pb2.Identity(
    node="n1", epoch="18a0-1f", version="0.1.0", protocol=1, host="h" * 200, transports=["shm", "tcp"]
)


@dataclass
class FakeRegion:
    """The fields of a region that the status reads."""

    name: str
    identity: str
    pool: str = "n" * 63 + "/" + "p" * 253
    group: str = "g" * 63
    worker: str = "w" * 253
    layout: Layout = Layout.parse("s d", {"s": 2, "d": 2}, "float16")  # noqa: RUF009 -- immutable
    nbytes: int = 2**60


def links(count: int) -> list[LinkFacts]:
    problem = HandshakeProblem(Reason.PEER_UNREACHABLE, "€" * 3000)
    down = [
        LinkFacts(f"{i:03}-{'x' * 200}", "a:1", "", LinkState.DOWN, "", problem) for i in range(count // 2)
    ]
    return down + [
        LinkFacts(f"{i:03}", "a:1", "e", LinkState.VERIFIED, "shm", None) for i in range(count // 2, count)
    ]


def test_a_status_is_valid_bounded_and_the_same_for_the_same_facts() -> None:
    regions = [FakeRegion(f"r{i:04}" + "y" * 240, str(i)) for i in range(64)]
    made = status.build_node_status(IDENTITY, "[2001:db8::1]:7400", regions, links(128))  # type: ignore[arg-type]
    again = status.build_node_status(IDENTITY, "[2001:db8::1]:7400", reversed(regions), links(128))  # type: ignore[arg-type]
    parsed = HawkNodeStatus.model_validate(made)

    assert made == again
    assert len(parsed.links.problems) == 16
    assert (parsed.links.up, parsed.links.down, parsed.links.verified) == (64, 64, 64)
    assert parsed.region_count == 64


def test_conditions_keep_their_time_while_they_stay() -> None:
    first = status.node_conditions([], [], "2026-01-01T00:00:00Z")
    second = status.node_conditions(links(2)[1:], first, "2026-01-02T00:00:00Z")
    third = status.node_conditions(links(4)[2:], second, "2026-01-03T00:00:00Z")
    times = [
        {c["type"]: (c["status"], c["lastTransitionTime"][8:10]) for c in made}
        for made in (first, second, third)
    ]

    assert times == [
        {"Ready": ("True", "01"), "Wired": ("Unknown", "01")},
        {"Ready": ("True", "01"), "Wired": ("True", "02")},
        {"Ready": ("True", "01"), "Wired": ("True", "02")},
    ]


def test_peers_are_taken_from_the_spec_this_node_itself_among_them() -> None:
    peers = [{"node": n, "address": f"{n}:7400", "epoch": "e"} for n in ("n1", "n2")]

    assert [p.node for p in publisher.wanted({"peers": peers})] == ["n1", "n2"]
    assert publisher.wanted({}) == []


async def test_metrics_have_help_and_the_prefix_and_health_follows_the_tick(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await house.agent("npu", metrics="127.0.0.1:0")
    http = HttpServer(agent.settings.metrics, agent.metrics.registry, agent.unhealthy)
    await http.start()

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{http.address}{path}", timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    code, text = await off(get, "/metrics")
    families = list(text_string_to_metric_families(text))
    assert code == 200
    assert len(families) > 15
    assert all(
        family.name.startswith("hawk_agent_") and len(family.documentation) > 10 for family in families
    )
    assert (await off(get, "/healthz"))[0] == (await off(get, "/readyz"))[0] == 200
    assert (await off(get, "/nope"))[0] == 404
    monkeypatch.setattr(agent.receiver, "tick", lambda: 1 / 0)
    agent._ticked -= 60
    assert (await off(get, "/healthz"))[0] == 503
    await http.close()
    await asyncio.sleep(0)


LOCAL = "--node a --listen 127.0.0.1:0"
TEST = f"{LOCAL} --insecure"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "--node: missing"),
        ("--node a --insecure", "--advertise: missing"),
        ("--node a", "--advertise: missing"),
        (LOCAL, "--tls-cert, --tls-key, --tls-ca: missing"),
        (f"{LOCAL} --tls-cert x", "give all three"),
        (f"{TEST} --tls-cert x --tls-key x --tls-ca x", "--insecure: contradicts --tls-cert"),
        ("--node a --listen 1:2:3 --insecure", "--listen: '1:2:3' has colons"),
        (f"{TEST} --peer x", "--peer: 'x' has no port"),
        (f"{TEST} --grace 40s", "grace 40.0 s must be"),
        (f"{TEST} --grace 5", "--grace: '5'"),
        (f"{TEST} --data-port many", "--data-port: 'many'"),
        (f"{TEST} --socket-mode rw", "--socket-mode: 'rw'"),
        (
            f"{LOCAL} --tls-cert x --tls-key x --tls-ca x --peer h:1",
            "the peer's node is checked; write NODE=h:1",
        ),
    ],
)
def test_options_that_can_not_be_right_are_refused_by_name(options: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        AgentSettings.read(options.split())

    assert message in str(caught.value)


def test_an_agent_without_a_cluster_names_the_option_for_that(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hawk_agent.main", *TEST.split(), "--metrics", "127.0.0.1:0"]
    environment = {**os.environ, "HOME": str(tmp_path)}
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        environment.pop(name, None)
    done = subprocess.run(
        [*command, "--socket", str(tmp_path / "agent.sock")],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert "outside a cluster use --no-kube" in done.stderr


def test_options_become_settings() -> None:
    options = [
        "--node",
        "a",
        "--listen",
        "[::1]:0",
        "--insecure",
        "--peer",
        "b=[::1]:7400",
        "--metrics-port",
        "9",
    ]
    made = AgentSettings.read(options)

    assert (made.peers[0].node, made.peers[0].address) == ("b", "[::1]:7400")
    assert made.metrics_address.endswith(":9")


async def test_an_unknown_transport_is_refused_and_nothing_stays_open(house: House) -> None:
    with pytest.raises(
        errors.BadRequestError, match="transport 'pigeon' is unknown; installed: nixl, shm, tcp, verbs"
    ):
        await house.agent("npu", transports=("shm", "pigeon"))
    assert list_sockets(house.folder) == []


def list_sockets(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_every_error_of_the_tree_is_found_by_its_name() -> None:
    def tree(kind: type[errors.HawkAgentError]) -> set[type[errors.HawkAgentError]]:
        return {kind}.union(*(tree(below) for below in kind.__subclasses__()))

    drawn = errors.__doc__ or ""
    for kind in tree(errors.HawkAgentError):
        if kind.__module__ == errors.__name__:
            assert kind.__name__ in drawn
            if kind is not errors.TransferFailedError:
                assert errors.by_name(kind.__name__) is kind
    assert errors.by_name("FromTheFuture") is errors.HawkAgentError
