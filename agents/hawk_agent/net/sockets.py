"""Listening sockets that say what is in the way, and data sockets that notice a dead peer."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from typing import TYPE_CHECKING

from hawk_agent.errors import SocketInUseError

if TYPE_CHECKING:
    from pathlib import Path

MAX_UNIX_PATH = 107
DEAD_PEER_SECONDS = 8.0


def listen_unix(path: Path, *, mode: int) -> socket.socket:
    """A listening Unix socket with these permissions from its first moment.

    A file left by a process that died is replaced; one that a live process answers on is refused, and so is a
    path that is something else than a socket.
    """
    if len(os.fsencode(path)) > MAX_UNIX_PATH - len(".new"):
        raise SocketInUseError(
            f"{path} is longer than the {MAX_UNIX_PATH - 4} bytes of a Unix socket's path; shorten it"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    _refuse_live(path)
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.bind(str(fresh))
        fresh.chmod(mode)
        listener.listen(128)
        fresh.rename(path)
    except BaseException:
        listener.close()
        fresh.unlink(missing_ok=True)
        raise
    return listener


def _refuse_live(path: Path) -> None:
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise SocketInUseError(f"{path} exists and is no socket; remove it or choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except OSError:  # a full backlog, a time-out: somebody is there
            pass
    raise SocketInUseError(f"{path}: another process listens there; stop it or choose another path")


def close_unix(listener: socket.socket, path: Path) -> None:
    """Close, and remove the file if it is still ours."""
    bound = listener.fileno() >= 0
    listener.close()
    if bound:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def listen_tcp(host: str, port: int) -> socket.socket:
    """A listening TCP socket; IPv6 where the host is one. SocketInUseError names the address that is
    taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.setblocking(False)
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise SocketInUseError(
            f"{host} port {port} can't be listened on ({error.strerror}); port 0 takes a free one"
        ) from error
    return listener


def tune_socket(sock: socket.socket) -> None:
    """Make a data socket notice a dead peer in seconds, and send small headers at once."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(DEAD_PEER_SECONDS * 1000))
