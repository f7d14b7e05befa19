"""HawkNode: one agent. The spec is the operator's, the status the agent's."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from hawk_api import addresses
from hawk_api.base import (
    Bool,
    Column,
    Int,
    KindInfo,
    Model,
    Name,
    ReportModel,
    Resource,
    Short,
    list_map,
    unique,
)
from hawk_api.conditions import Condition
from hawk_api.duration import Duration
from hawk_api.v1alpha1.enums import OnFailure, Verify
from hawk_api.v1alpha1.status import Count

MAX_PEERS = 64
MAX_REGIONS = 64
MAX_POOLS = 64
MAX_GROUPS = 16
MAX_PROBLEMS = 16
MAX_RAILS = 16


def _check_address(value: str) -> str:
    addresses.parse_address(value)
    return value


HostPort = Annotated[
    str,
    Field(
        min_length=3,
        max_length=addresses.MAX_LENGTH,
        pattern=r"^(\[[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?\]|[^:\[\]\s]+):[0-9]{1,5}$",
    ),
    AfterValidator(_check_address),
]
"""host:port, an IPv6 host in brackets."""

Epoch = Annotated[str, Field(min_length=1, max_length=64)]
"""The incarnation of an agent: a new one at each start."""


class Peer(Model):
    """An agent to keep a link with."""

    node: Name
    """The HawkNode's name."""
    address: HostPort
    """Where the agent listens: host:port, an IPv6 host in brackets."""
    epoch: Epoch
    """Epoch of the agent; any other is refused."""


def _one_a_node(peers: tuple[Peer, ...]) -> tuple[Peer, ...]:
    unique(tuple(peer.node for peer in peers))
    return peers


class PoolTerms(Model):
    """A pool's settings for the agents that hold its memory; a reservation may ask for something else."""

    pool: Annotated[str, Field(min_length=1, max_length=317)]
    """namespace/name of the pool."""
    grace: Duration = 0.2
    """How long prefill keeps sent KV before it asks if it is still needed."""
    max_grace: Duration = 30.0
    """Longest extension of that."""
    verify: Verify = Verify.SAMPLED
    """Which transfers are verified by a digest."""
    on_failure: OnFailure = OnFailure.RESEND
    """The action for a request whose transfer failed; engines are told."""
    draining: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63)], ...],
        Field(max_length=MAX_GROUPS, json_schema_extra={"x-kubernetes-list-type": "set"}),
        AfterValidator(unique),
    ] = ()
    """Groups with a draining worker here: the agent reports if their memory is in use."""


def _one_a_pool(terms: tuple[PoolTerms, ...]) -> tuple[PoolTerms, ...]:
    unique(tuple(entry.pool for entry in terms))
    return terms


class HawkNodeSpec(Model):
    """The operator's settings for an agent."""

    expected_epoch: Annotated[str, Field(max_length=64)] | None = None
    """Epoch of the agent that the peers were computed for."""
    peers: Annotated[
        tuple[Peer, ...],
        Field(max_length=MAX_PEERS, json_schema_extra=list_map("node")),
        AfterValidator(_one_a_node),
    ] = ()
    """Agents to keep links with."""
    pools: Annotated[
        tuple[PoolTerms, ...],
        Field(max_length=MAX_POOLS, json_schema_extra=list_map("pool")),
        AfterValidator(_one_a_pool),
    ] = ()
    """Settings of the pools with memory on this node."""


class Region(ReportModel):
    """Memory that an engine registered for a worker's KV cache."""

    pool: Annotated[str, Field(min_length=1, max_length=317)]
    """namespace/name of the pool."""
    group: Annotated[str, Field(min_length=1, max_length=63)]
    """The worker's group."""
    worker: Annotated[str, Field(min_length=1, max_length=253)]
    """The engine's pod or process."""
    name: Annotated[str, Field(max_length=63)] | None = None
    """The region's name, where a worker has several."""
    layout: Annotated[str, Field(max_length=128)]
    """Fingerprint of the layout."""
    bytes: Annotated[Int, Field(ge=0)]
    """Bytes of the memory."""
    epoch: Epoch
    """The incarnation of the worker."""
    busy: Bool | None = None
    """True if leases or transfers use it; reported only for groups in spec.pools[].draining."""


class LinkProblem(ReportModel):
    """Why a link isn't verified."""

    peer: Name
    """The HawkNode at the other end."""
    reason: Annotated[str, Field(min_length=1, max_length=128)]
    """The reason, as one word."""
    message: Short = ""
    """The reason, for people."""


class Links(ReportModel):
    """Links by state, and the first problems."""

    up: Count = 0
    """Links with a live connection."""
    down: Count = 0
    """Links without a live connection."""
    verified: Count = 0
    """Links whose canary transfer succeeded."""
    problems: Annotated[
        tuple[LinkProblem, ...], Field(max_length=MAX_PROBLEMS, json_schema_extra=list_map("peer"))
    ] = ()
    """The first links that aren't verified."""


class Rail(ReportModel):
    """A port that transfers can use."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """The port or interface."""
    transport: Annotated[str, Field(max_length=32)]
    """The transport's name, such as shm, tcp or verbs."""
    address: Annotated[str, Field(max_length=320)] | None = None
    """Its IP address."""
    gid: Annotated[str, Field(max_length=64)] | None = None
    """Its RDMA GID."""
    mtu: Annotated[Int, Field(ge=0, le=65_535)] | None = None
    """Its active MTU in bytes."""
    max_sge: Count | None = None
    """Most scatter/gather entries of one work request."""
    max_wr: Count | None = None
    """Most outstanding work requests of a queue."""
    max_message_bytes: Annotated[Int, Field(ge=0)] | None = None
    """Most bytes of one work request."""
    fence: Annotated[str, Field(max_length=64)] | None = None
    """How a lease's remote access is ended: memory-window for leases of few ranges, else queue-pair."""


class HawkNodeStatus(ReportModel):
    """An agent's report. It changes only when something changed: rates and times are metrics."""

    epoch: Annotated[str, Field(max_length=64)] | None = None
    """This incarnation of the agent."""
    version: Annotated[str, Field(max_length=64)] | None = None
    """The agent's release."""
    protocol: Annotated[Int, Field(ge=0, le=65_535)] | None = None
    """Version of its protocol between agents."""
    address: Annotated[str, Field(max_length=addresses.MAX_LENGTH)] | None = None
    """Where peers reach it."""
    host_id: Annotated[str, Field(max_length=128)] | None = None
    """The machine, so that agents on one machine share memory."""
    regions: Annotated[tuple[Region, ...], Field(max_length=MAX_REGIONS)] = ()
    """Registered memory."""
    region_count: Count | None = None
    """Regions, including those that the list has no space for."""
    links: Links = Links()
    rails: Annotated[tuple[Rail, ...], Field(max_length=MAX_RAILS, json_schema_extra=list_map("name"))] = ()
    """Ports that transfers can use."""
    verified_peers: Annotated[
        tuple[Name, ...], Field(max_length=MAX_PEERS, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = ()
    """Peers whose link is verified."""
    conditions: Annotated[
        tuple[Condition, ...], Field(max_length=16, json_schema_extra=list_map("type"))
    ] = ()
    """Conditions, one of each type."""


class HawkNode(Resource):
    """One agent on one node."""

    kind_info: ClassVar[KindInfo] = KindInfo(
        kind="HawkNode",
        plural="hawknodes",
        singular="hawknode",
        short_names=("hn",),
        namespaced=False,
        columns=(
            Column(name="Ready", json_path='.status.conditions[?(@.type=="Ready")].status'),
            Column(
                name="Verified",
                type="integer",
                json_path=".status.links.verified",
                description="Proved links",
            ),
            Column(
                name="Down", type="integer", json_path=".status.links.down", description="Links that are down"
            ),
            Column(name="Address", json_path=".status.address", priority=1),
            Column(name="Epoch", json_path=".status.epoch", priority=1),
            Column(name="Version", json_path=".status.version"),
            Column(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        ),
    )

    kind: Literal["HawkNode"] = "HawkNode"
    spec: HawkNodeSpec = HawkNodeSpec()
    status: HawkNodeStatus = HawkNodeStatus()
