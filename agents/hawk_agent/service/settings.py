"""Settings of the agent process, and where its peers are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, Field, PlainValidator, model_validator
from pydantic_settings import SettingsConfigDict

from hawk_agent.errors import BadRequestError
from hawk_agent.streaming.lease import LeaseTerms
from hawk_api import addresses
from hawk_api.settings import Names, NamesOption, ProcessSettings, TimeSpan, TimeSpanOption

if TYPE_CHECKING:
    from hawk_agent.identity import Files

PROTOCOL = 1
"""Version of both wire protocols. Agents and engines of another number are refused."""


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """Where a peer is. The node is empty when it isn't known beforehand."""

    address: str
    node: str = ""
    epoch: str = ""


class FileMode(int):
    """Permissions of a file, written in octal: 660."""

    @classmethod
    def parse(cls, value: str | int) -> Self:
        """ValueError for a text that is no octal number, or a mode above 777."""
        try:
            mode = int(value, 8) if isinstance(value, str) else value
        except ValueError:
            mode = -1
        if not 0 <= mode <= 0o777:
            raise ValueError(f"{value!r} isn't an octal mode such as 660")
        return cls(mode)

    def __str__(self) -> str:
        return f"{int(self):o}"


def _address(text: str) -> str:
    return str(addresses.parse_address(text))


def _host(text: str) -> str:
    if text:
        addresses.parse_address(text, 0)
    return text


Address = Annotated[str, AfterValidator(_address)]
Port = Annotated[int, Field(ge=0, le=65_535)]


class AgentSettings(ProcessSettings):
    """The HawkPool node agent."""

    model_config = SettingsConfigDict(env_prefix="HAWK_AGENT_", cli_prog_name="hawk-agent")

    node: Annotated[str, Field(min_length=1)]
    """Name of this node."""
    socket: Path = Path("/run/hawk/agent.sock")
    """Unix socket for engines; with .peer appended, for agents of the same host."""
    socket_mode: Annotated[FileMode, PlainValidator(FileMode.parse)] = FileMode(0o660)
    """Permissions of that socket, in octal."""
    device_plugins: Path | None = None
    """The kubelet's directory of device plugins; if set, pods may request the resource hawkpool.dev/agent."""
    engine_auth: Literal["token", "none"] = "none"
    """How engines authenticate: by a token bound to their pod, or not at all."""
    listen: Address = "0.0.0.0:7400"
    """Address for peers, host:port; port 0 takes a free one."""
    data_port: Port = 0
    """Port of the TCP data path, on the same host; 0 takes a free one."""
    advertise: Annotated[str, AfterValidator(_host)] = ""
    """Address that peers are told, host or host:port; empty is the listening one."""
    metrics: Address = "0.0.0.0:9400"
    """Address of /metrics, /healthz and /readyz, host:port."""
    metrics_port: Annotated[int | None, Field(ge=0, le=65_535)] = None
    """Port that replaces the one in --metrics."""
    transports: NamesOption = Names(("shm", "tcp"))
    """Allowed transports, best first: verbs, shm, tcp, nixl, or one of another package."""
    rdma_device: NamesOption = Names()
    """RDMA devices for verbs, a rail each, best first; empty takes all with a port that is up."""
    rdma_gid_index: Annotated[int | None, Field(ge=0, le=255)] = None
    """Index in their GID tables; by default a routable RoCE v2 GID."""
    rails: Annotated[int, Field(ge=0, le=16)] = 0
    """Most rails per transfer over verbs; 0 uses all."""
    strategy: Literal[
        "auto", "gather-writes", "contiguous", "scatter-reads", "tile-then-send", "send-then-tile"
    ] = "auto"
    """How bytes are moved over verbs; auto takes the cheapest by the cost model."""
    host_id: str = ""
    """Identity of this machine; empty reads it from the kernel. Agents with equal ones share memory."""
    copy_threads: Annotated[int, Field(ge=1, le=64)] = 4
    """Threads each for sending, receiving and hashing."""
    grant: TimeSpanOption = TimeSpan(60.0)
    """Longest wait from granting a lease to the sender's first message."""
    stall: TimeSpanOption = TimeSpan(10.0)
    """Longest silence of the other agent in a transfer."""
    grace: TimeSpanOption = TimeSpan(0.2)
    """Wait after a transfer completes before the sender asks the receiver; reservations may override it."""
    max_grace: TimeSpanOption = TimeSpan(30.0)
    """Longest hold of a source after its transfer is complete; reservations may override it."""
    layer_timeout: TimeSpanOption = TimeSpan(120.0)
    """Longest wait for an engine to report a layer as complete."""
    tls_cert: Path | None = None
    """Certificate file (PEM)."""
    tls_key: Path | None = None
    """Private key file (PEM)."""
    tls_ca: Path | None = None
    """Trusted CA certificates (PEM). The three files are reloaded when they change."""
    insecure: bool = False
    """Disable TLS between peers: anyone on the network may write to this node's leases. For tests."""
    identity: Literal["files", "kubernetes"] = "files"
    """Source of the certificate: the files, or the cluster's CSR API, with renewal."""
    system_namespace: str = "hawk-system"
    """Namespace of HawkPool's Leases and CA certificates."""
    peer: NamesOption = Names()
    """[NODE=]HOST:PORT of a peer; may be repeated."""
    kube: bool = True
    """Publish a HawkNode and read peers from it."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""

    @cached_property
    def terms(self) -> LeaseTerms:
        """How long a lease may stay where it is, unless a reservation asks for other graces."""
        return LeaseTerms(float(self.grant), float(self.stall), float(self.grace), float(self.max_grace))

    @cached_property
    def peers(self) -> tuple[PeerAddress, ...]:
        """Peers that are known beforehand."""
        split = (text.rpartition("=") for text in self.peer)
        return tuple(PeerAddress(_address(address), node) for node, _, address in split)

    @cached_property
    def tls(self) -> Files | None:
        """Certificate, key and trusted authorities; None without TLS."""
        if not (self.tls_cert and self.tls_key and self.tls_ca):
            return None
        from hawk_agent.identity import Files  # noqa: PLC0415 -- cryptography, with TLS only

        return Files(self.tls_cert, self.tls_key, self.tls_ca)

    @property
    def metrics_address(self) -> str:
        """host:port of /metrics."""
        given = addresses.parse_address(self.metrics)
        return str(given if self.metrics_port is None else given._replace(port=self.metrics_port))

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        host = addresses.parse_address(self.listen).host
        if not self.advertise and host in {"0.0.0.0", "::"} and (self.kube or self.peer):  # noqa: S104 -- compared, not bound
            raise ValueError(f"--advertise: missing; peers can't connect to {host}, give this node's address")
        return self

    @model_validator(mode="after")
    def _trusted(self) -> Self:
        given = [bool(file) for file in (self.tls_cert, self.tls_key, self.tls_ca)]
        if not any(given):
            if not self.insecure:
                raise ValueError(
                    "--tls-cert, --tls-key, --tls-ca: missing; give them, or --insecure for a test"
                )
            if self.identity == "kubernetes":
                raise ValueError(
                    "--identity kubernetes: give --tls-cert, --tls-key and --tls-ca, where the files shall be"
                )
        elif not all(given):
            raise ValueError("--tls-cert, --tls-key, --tls-ca: give all three")
        elif self.insecure:
            raise ValueError("--insecure: contradicts --tls-cert; leave one out")
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for text in self.peer:
            node, _, address = text.rpartition("=")
            if self.tls_cert and not node:
                raise ValueError(f"--peer {text}: with TLS the peer's node is checked; write NODE={text}")
            try:
                addresses.parse_address(address)
            except ValueError as error:
                raise ValueError(f"--peer: {error}; write [NODE=]HOST:PORT") from error
        try:
            assert self.terms
        except BadRequestError as error:
            raise ValueError(f"--grace, --max-grace: {error}") from error
        return self


def host_id() -> str:
    """Identity of this machine for this boot: two agents that read the same one share memory."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
