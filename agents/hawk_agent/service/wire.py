"""gRPC as both ends of a link use it: credentials, and options that notice a dead peer in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import grpc

from hawk_agent.errors import HawkAgentError
from hawk_api.certificates import server_name

if TYPE_CHECKING:
    from hawk_agent.identity import Files

MAX_MESSAGE: Final = 8 << 20
_KEEPALIVE: Final = (
    ("grpc.keepalive_time_ms", 2_000),
    ("grpc.keepalive_timeout_ms", 4_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
)
SERVER_OPTIONS: Final = (
    *_KEEPALIVE,
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
)
CLIENT_OPTIONS: Final = (
    *_KEEPALIVE,
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Two channels to one address must not share a connection: a new link proves a new connection.
    ("grpc.use_local_subchannel_pool", 1),
)


def _mark(files: Files) -> tuple[tuple[int, int], ...]:
    """A file's identity, which changes when the file is replaced."""
    statuses = [path.stat() for path in (files.certificate, files.key, files.authority)]
    return tuple((status.st_ino, status.st_mtime_ns) for status in statuses)


def server_credentials(files: Files) -> grpc.ServerCredentials:
    """Mutual TLS; a renewed certificate is taken at the next connection. IdentityError or OSError without
    files."""
    seen = [_mark(files)]

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        try:
            now = _mark(files)
            if now == seen[0]:
                return None
            renewed = _configuration(files)
        except (OSError, HawkAgentError):  # in the middle of a renewal: keep what there is
            return None
        seen[0] = now
        return renewed

    return grpc.dynamic_ssl_server_credentials(
        _configuration(files),
        fetch,  # type: ignore[arg-type]  # None means unchanged; the stubs don't know
        require_client_authentication=True,
    )


def _configuration(files: Files) -> grpc.ServerCertificateConfiguration:
    from hawk_agent import identity  # noqa: PLC0415 -- cryptography, with TLS only

    material = identity.read_material(files)
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.certificate)], material.authority
    )


def open_channel(address: str, tls: Files | None, node: str) -> grpc.aio.Channel:
    """A channel to a peer. With TLS the peer's certificate must name its node, wherever its address is."""
    if tls is None:
        return grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS)
    from hawk_agent import identity  # noqa: PLC0415 -- as above

    material = identity.read_material(tls)
    credentials = grpc.ssl_channel_credentials(material.authority, material.key, material.certificate)
    options = (*CLIENT_OPTIONS, ("grpc.ssl_target_name_override", server_name(node)))
    return grpc.aio.secure_channel(address, credentials, options=options)
