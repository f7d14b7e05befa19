"""Network addresses as "host:port", with IPv6 in brackets.

`parse("[2001:db8::1]:7000") == Address("2001:db8::1", 7000)`; a bare IPv6 address followed by a port has two
readings and is refused.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple

_HOST: Final = re.compile(
    r"[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*\.?"
)
_PORT: Final = re.compile(r"[0-9]{1,5}")
_ZONE: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")

MAX_LENGTH: Final = 320


class Address(NamedTuple):
    """A host (a DNS name, an IPv4 address, or a bare IPv6 address with an optional %zone) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return format_address(self.host, self.port)

    @property
    def is_ipv6(self) -> bool:
        """True if the host is an IPv6 address."""
        return ":" in self.host


def parse_address(text: str, default_port: int | None = None) -> Address:
    """Host and port of `text`. ValueError when either is wrong, or a port is missing and has no default."""
    if not text or len(text) > MAX_LENGTH:
        raise ValueError(f"{text!r} is not an address; {_help()}")
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or not _is_ipv6(host) or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is not an IPv6 address in brackets; {_help()}")
        return Address(host, _port(text, rest[1:] if rest else None, default_port))
    if text.count(":") > 1:
        if _is_ipv6(text) and default_port is not None:
            return Address(text, default_port)
        raise ValueError(
            f"{text!r} has colons outside brackets; write an IPv6 address and port as [2001:db8::1]:7000"
        )
    host, colon, port = text.partition(":")
    if not _is_name(host):
        raise ValueError(f"{text!r} has no valid host name; {_help()}")
    return Address(host, _port(text, port if colon else None, default_port))


def format_address(host: str, port: int) -> str:
    """host:port, bracketed where the host is an IPv6 address, ready for a URL's authority."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port {port} is outside 0 to 65535")
    if _is_ipv6(host):
        return f"[{host}]:{port}"
    if not _is_name(host):
        raise ValueError(f"{host!r} is no host name and no IP address")
    return f"{host}:{port}"


def _port(text: str, port: str | None, default: int | None) -> int:
    if port is None:
        if default is None:
            raise ValueError(f"{text!r} has no port; {_help()}")
        return default
    if not _PORT.fullmatch(port) or int(port) > 65535:
        raise ValueError(f"{text!r} has no valid port; give a number from 0 to 65535")
    return int(port)


def _is_name(host: str) -> bool:
    """An IPv4 address or a DNS name. Numbers and dots alone must be a valid IPv4 address."""
    if len(host) > 253 or not _HOST.fullmatch(host):
        return False
    if re.fullmatch(r"[0-9.]+", host):
        return _ip_version(host) == 4
    return all(len(label) <= 63 for label in host.split("."))


def _is_ipv6(host: str) -> bool:
    bare, percent, zone = host.partition("%")
    return _ip_version(bare) == 6 and (not percent or _ZONE.fullmatch(zone) is not None)


def _ip_version(host: str) -> int | None:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return None


def _help() -> str:
    return "write host:port, 10.0.0.1:7000 or [2001:db8::1]:7000"
