"""The engine's side of its agent: register, reserve and wait (decode side), push (prefill side)."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from google.protobuf.message import DecodeError

from hawk_agent.client.connection import Connection
from hawk_agent.errors import BadRequestError, EventsRequiredError, TransferFailedError
from hawk_agent.protocol import common_pb2, engine_pb2
from hawk_agent.transfer.outcome import TransferOutcome, outcome_from_wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROTOCOL = 1
SOCKET = "/run/hawk/agent.sock"
TOKEN_FILE = "/var/run/secrets/hawkpool.dev/token"  # noqa: S105 -- its place
_VERIFY = {
    "Always": common_pb2.VERIFY_ALWAYS,
    "Sampled": common_pb2.VERIFY_SAMPLED,
    "Off": common_pb2.VERIFY_OFF,
    None: common_pb2.VERIFY_UNSPECIFIED,
}


@dataclass(frozen=True, slots=True)
class ChunkReport:
    """One chunk that arrived. Seconds from complete in the source to checked at the other end."""

    index: int
    first_layer: int
    layers: int
    nbytes: int
    seconds: float
    digest: bytes
    verified: bool


@dataclass(frozen=True, slots=True)
class TransferResult:
    """How a transfer ended, and how it went.

    Attributes:
        digest: eight bytes, the sum of the chunks' digests; empty when not every byte was checked for.
        hidden_share: bytes that had arrived when the last layer was complete, over all bytes.
        exposed_seconds: from the last layer's completion to the last byte's arrival.
        grace_extensions: how often the receiver asked for more time before it acknowledged.
    """

    outcome: TransferOutcome
    message: str
    nbytes: int
    seconds: float
    hidden_share: float
    exposed_seconds: float
    digest: bytes
    transport: str
    grace_extensions: int
    chunks: tuple[ChunkReport, ...]

    @property
    def may_resend(self) -> bool:
        """True if the same KV, still in the source's blocks, may be pushed again with a new ticket."""
        return self.outcome.may_resend

    def check(self) -> Self:
        """Itself, or TransferFailedError."""
        if not self.outcome.ok:
            raise TransferFailedError(self.outcome, self.message)
        return self


@dataclass(frozen=True, slots=True)
class Layers:
    """How many layers are present from the first on, and whether the transfer is complete."""

    present: int
    complete: bool


@dataclass(frozen=True, slots=True)
class LeaseHandle:
    """A reservation: `ticket` goes to the prefill side, unchanged; `id` is for `wait`, `acknowledge`,
    `release`."""

    id: int
    ticket: bytes
    on_failure: str = ""
    """The pool's action when the transfer fails: Resend, Recompute or Fail; empty where it isn't
    known."""


class Transfer:
    """A push under way."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self._number = number

    def result(self, timeout: float = 60.0) -> TransferResult:
        """Wait for the end, in seconds. NotYetError when it hasn't come. The outcome is in the result, not
        raised."""
        body = engine_pb2.AwaitTransfer(transfer=self._number, timeout_ms=_ms(timeout))
        reply = self._connection.ask(engine_pb2.Request(await_transfer=body), timeout=timeout)
        return _result(reply.ended)

    def abort(self, reason: str = "") -> TransferResult:
        """End it. Returns when the source's blocks are free; it may have succeeded just before."""
        body = engine_pb2.AbortTransfer(transfer=self._number, reason=reason)
        return _result(self._connection.ask(engine_pb2.Request(abort_transfer=body)).ended)


class AgentClient:
    """A connection to the node's agent. Safe to use from several threads; close it, or use it as a context.

    Args:
        path: the agent's socket; without, what HAWK_AGENT_SOCKET names, else /run/hawk/agent.sock.
        name: what the agent's log calls this engine.
        timeout: seconds for requests that don't wait for anybody.
        token_file: the service account token that is bound to this pod, for agents that ask for it; without,
            what HAWK_ENGINE_TOKEN_FILE names, else the place where HawkPool's templates mount it.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        name: str = "",
        timeout: float = 30.0,
        token_file: str | Path | None = None,
    ) -> None:
        path = path or os.environ.get("HAWK_AGENT_SOCKET") or SOCKET
        self._connection = Connection(str(path), timeout)
        try:
            hello = engine_pb2.Hello(
                protocol=PROTOCOL, engine=name or socket.gethostname(), token=_token(token_file)
            )
            welcome = self._connection.ask(engine_pb2.Request(hello=hello)).welcome
        except BaseException:
            self._connection.close()
            raise
        self.node: str = welcome.node
        self.epoch: str = welcome.epoch
        self.agent_version: str = welcome.version

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """True if the agent still is there. Once False, connect anew: a restarted agent is another epoch."""
        return self._connection.alive

    def close(self) -> None:
        """Leave. The agent ends this engine's leases and transfers and unmaps its regions."""
        self._connection.close()

    def register(
        self,
        region: str,
        memory: int,
        notation: str,
        sizes: Mapping[str, int],
        dtype: str,
        *,
        pool: str | None = None,
        group: str | None = None,
        worker: str | None = None,
    ) -> str:
        """Register a memfd as a region; returns the layout's fingerprint. The descriptor stays the caller's.

        Args:
            region: a name of the worker's own choice; other workers may use the same.
            memory: a memfd whose pages are in place, as `allocate` makes them.
            notation: the order of the layout's axes, such as "l c h s d".
            sizes: the axes' sizes in elements.
            dtype: float16, bfloat16, ...
            pool: namespace/name; without, HAWK_POOL, which HawkPool sets in the workers that it makes.
            group: without, HAWK_GROUP.
            worker: the pod's name; without, HAWK_WORKER.

        Raises:
            RegionError: it is too small for the layout, can't be sealed, has pages that were never written,
                or this worker has registered the name already.
            LayoutMismatchError: the layout can't be read.
            BadRequestError: pool, group or worker is neither given nor in the environment.
        """
        names = {"pool": pool, "group": group, "worker": worker}
        pool, group, worker = (_told(name, given) for name, given in names.items())
        layout = common_pb2.Layout(notation=notation, sizes=dict(sizes), dtype=dtype)
        body = engine_pb2.Register(region=region, layout=layout, pool=pool, group=group, worker=worker)
        return self._connection.ask(engine_pb2.Request(register=body), [memory]).registered.fingerprint

    def unregister(self, region: str) -> None:
        """Forget a region. Transfers that use it end first; the memory is unmapped then."""
        self._connection.ask(engine_pb2.Request(unregister=engine_pb2.Unregister(region=region)))

    def await_idle(self, timeout: float, *, pool: str | None = None, worker: str | None = None) -> None:
        """Wait until no lease or transfer uses the worker's memory. Before a worker stops, not after.

        Args:
            timeout: seconds to wait at most.
            pool: namespace/name; without, HAWK_POOL.
            worker: the pod's name; without, HAWK_WORKER.

        Raises:
            NotYetError: something still used it when the time was over.
            EngineRefusedError: the agent knows engines by tokens, and this one isn't of that pod.
        """
        names = {"pool": pool, "worker": worker}
        pool, worker = (_told(name, given) for name, given in names.items())
        body = engine_pb2.AwaitIdle(pool=pool, worker=worker, timeout_ms=_ms(timeout))
        self._connection.ask(engine_pb2.Request(await_idle=body), timeout=timeout)

    def reserve(
        self,
        region: str,
        request_id: str,
        *,
        blocks: Sequence[int] = (),
        windows: Mapping[str, tuple[int, int]] | None = None,
        empty: bool = False,
        verify: str | None = None,
        grace: float | None = None,
        max_grace: float | None = None,
    ) -> LeaseHandle:
        """Grant a lease on a part of a region to whoever presents its ticket.

        Args:
            region: where the KV shall arrive.
            request_id: for logs.
            blocks: the block table of a paged layout, in token order.
            windows: (start, stop) of an axis, such as `{"s": (0, 1000), "b": (3, 4)}`; all of it without.
            empty: nothing is to move (the prefix is here already); the source is let go at once.
            verify: Always, Sampled or Off; the agent's default without.
            grace: seconds from complete to the first question of the prefill side.
            max_grace: seconds that it holds the source in all.

        Raises:
            BlocksBusyError: another lease still holds a block, or remote access to it hasn't ended.
        """
        if verify not in _VERIFY:
            raise BadRequestError(f"verify {verify!r}: use Always, Sampled or Off")
        body = engine_pb2.Reserve(
            region=region,
            request=request_id,
            extent=_extent(blocks, windows, empty=empty),
            verify=_VERIFY[verify],
            grace_ms=_ms(grace),
            max_grace_ms=_ms(max_grace),
        )
        reserved = self._connection.ask(engine_pb2.Request(reserve=body)).reserved
        return LeaseHandle(reserved.lease, reserved.ticket, reserved.on_failure)

    def wait(self, lease: LeaseHandle, layer: int, timeout: float = 60.0) -> Layers:
        """Wait until layers 0..layer are present and checked. The last layer counts when all is complete.

        Raises:
            TransferFailedError: the transfer ended otherwise; none of the blocks may be used.
            NotYetError: not yet.
        """
        body = engine_pb2.WaitLayers(lease=lease.id, layer=layer, timeout_ms=_ms(timeout))
        layers = self._connection.ask(engine_pb2.Request(wait_layers=body), timeout=timeout).layers
        return Layers(layers.present, layers.complete)

    def acknowledge(self, lease: LeaseHandle) -> TransferResult:
        """Say that the first token was made: the prefill side may free the source. Again is fine."""
        body = engine_pb2.Acknowledge(lease=lease.id)
        return _result(self._connection.ask(engine_pb2.Request(acknowledge=body)).ended)

    def release(self, lease: LeaseHandle) -> TransferResult:
        """Give a lease back. When it returns nothing writes to the blocks, and they may be used again."""
        body = engine_pb2.Release(lease=lease.id)
        return _result(self._connection.ask(engine_pb2.Request(release=body)).ended)

    def push(
        self,
        ticket: bytes,
        region: str,
        chunk_layers: int = 0,
        layer_events: Sequence[int] | None = None,
        *,
        all_complete: bool = False,
        blocks: Sequence[int] = (),
        windows: Mapping[str, tuple[int, int]] | None = None,
        layer_timeout: float | None = None,
    ) -> Transfer:
        """Fill a lease from a region.

        Args:
            ticket: of the decode side's `reserve`.
            region: where the KV is.
            chunk_layers: layers sent together; 0 means all.
            layer_events: eventfds, one a layer or one a chunk, each written when its KV is *in memory*. They
            stay
                the caller's.
            all_complete: every layer is in memory already; the only way to push without events.
            blocks: the source's block table, where its layout is paged.
            windows: as in `reserve`; both sides' windows have the same lengths.
            layer_timeout: seconds that a layer may take.

        Raises:
            EventsRequiredError: neither events nor all_complete.
            LayoutMismatchError: no translation joins the two layouts; the message names both values.
            PeerError: the receiver isn't wired, is down, or has restarted since the ticket.
        """
        events = list(layer_events or ())
        if not events and not all_complete and not _empty(ticket):
            raise EventsRequiredError("give layer_events, one a layer or one a chunk, or all_complete=True")
        body = engine_pb2.Push(
            ticket=ticket,
            region=region,
            extent=_extent(blocks, windows, empty=False),
            chunk_layers=chunk_layers,
            all_complete=all_complete,
            layer_timeout_ms=_ms(layer_timeout),
        )
        return Transfer(
            self._connection, self._connection.ask(engine_pb2.Request(push=body), events).pushed.transfer
        )

    def decline(self, ticket: bytes, reason: str = "") -> None:
        """Don't use a ticket: the decode side gets its blocks back at once."""
        self._connection.ask(engine_pb2.Request(decline=engine_pb2.Decline(ticket=ticket, reason=reason)))


def _extent(
    blocks: Sequence[int], windows: Mapping[str, tuple[int, int]] | None, *, empty: bool
) -> engine_pb2.Extent:
    parts = [
        common_pb2.Window(axis=axis, start=start, stop=stop)
        for axis, (start, stop) in (windows or {}).items()
    ]
    return engine_pb2.Extent(windows=parts, blocks=blocks, empty=empty)


def _empty(ticket: bytes) -> bool:
    try:
        return engine_pb2.Ticket.FromString(ticket).empty
    except DecodeError as error:
        raise BadRequestError(f"the ticket can't be read ({error}); pass it on unchanged") from error


def _ms(seconds: float | None) -> int:
    return 0 if seconds is None else max(1, round(seconds * 1000))


def _result(ended: engine_pb2.Ended) -> TransferResult:
    return TransferResult(
        outcome=outcome_from_wire(ended.outcome),
        message=ended.message,
        nbytes=ended.bytes,
        seconds=ended.seconds,
        hidden_share=ended.hidden_share,
        exposed_seconds=ended.exposed_seconds,
        digest=ended.digest,
        transport=ended.transport,
        grace_extensions=ended.grace_extensions,
        chunks=tuple(
            ChunkReport(c.index, c.first_layer, c.layers, c.bytes, c.seconds, c.digest, c.verified)
            for c in ended.chunks
        ),
    )


def _told(name: str, given: str | None) -> str:
    """The caller's value, else the one in the worker's environment."""
    variable = f"HAWK_{name.upper()}"
    value = os.environ.get(variable) if given is None else given
    if value is None:
        raise BadRequestError(f"{name} is not known: pass it, or set {variable} in the environment")
    return value


def _token(file: str | Path | None) -> str:
    """The token, or "" where there is none: whether one is needed is the agent's to say."""
    path = Path(file or os.environ.get("HAWK_ENGINE_TOKEN_FILE", "") or TOKEN_FILE)
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
