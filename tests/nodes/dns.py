"""The cluster's DNS, as far as tests need it: the addresses of services by name, asked of the API server.

CoreDNS would double what is built. A query is one UDP datagram; names outside the cluster don't exist.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any

from . import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster

PORT = 53
SERVICE = re.compile(r"([^.]+)\.([^.]+)\.svc\.cluster\.local", re.IGNORECASE)
ADDRESS, INTERNET = 1, 1
NO_SUCH_NAME = 3
SECONDS = 5


@contextlib.contextmanager
def served(cluster: Cluster) -> Iterator[None]:
    """Answer at the address that kubelets give to pods; it must be this network's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((settings.DNS, PORT))
        thread = threading.Thread(target=_serve, args=(server, cluster), name="dns", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.sendto(b"", (settings.DNS, PORT))
            thread.join()


def _serve(server: socket.socket, cluster: Cluster) -> None:
    while True:
        query, client = server.recvfrom(512)
        if not query:
            return
        name, kind = question(query)
        addresses = _addresses(cluster, name)
        server.sendto(answer(query, addresses if kind == ADDRESS or addresses is None else []), client)


def question(query: bytes) -> tuple[str, int]:
    """The name and the type that a query asks for. Pure."""
    labels, at = [], 12
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode())
        at += 1 + length
    [kind] = struct.unpack_from(">H", query, at + 1)
    return ".".join(labels), kind


def answer(query: bytes, addresses: list[str] | None) -> bytes:
    """The reply with these addresses; None: there is no such name. Pure."""
    end = query.index(b"\0", 12) + 5
    found = addresses or []
    flags = 0x8580 | (NO_SUCH_NAME if addresses is None else 0)
    reply = query[:2] + struct.pack(">5H", flags, 1, len(found), 0, 0) + query[12:end]
    for address in found:
        packed = ipaddress.IPv4Address(address).packed
        reply += struct.pack(">3HIH", 0xC00C, ADDRESS, INTERNET, SECONDS, len(packed)) + packed
    return reply


def _addresses(cluster: Cluster, name: str) -> list[str] | None:
    match = SERVICE.fullmatch(name.rstrip("."))
    if match is None:
        return None
    service, namespace = match.groups()
    items = cluster.get("services", "-n", namespace, f"--field-selector=metadata.name={service}")["items"]
    if not items:
        return None
    own: str = items[0]["spec"]["clusterIP"]
    if own != "None":
        return [own]
    chosen = f"kubernetes.io/service-name={service}"
    slices: list[dict[str, Any]] = cluster.get("endpointslices", "-n", namespace, "-l", chosen)["items"]
    return [one for item in slices for entry in item["endpoints"] or () for one in entry["addresses"]]
