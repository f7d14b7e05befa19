"""The configuration: which API server, and how to log in there.

The rules, the first that applies: the files that $KUBECONFIG names; the service account of the pod that this
process runs in; ~/.kube/config. Files of $KUBECONFIG are merged as kubectl does it: the first one that has a
name, or a current context, wins.

Proxies of the environment count as for kubectl, with two exceptions: never in a pod, whose API server is next
door whatever its other traffic needs, and never to this machine itself.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import yaml

from hawk_api import addresses
from hawk_kube.credentials import Credentials, Fixed, Login, Plugin, TokenFile, basic
from hawk_kube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a kubelet mounts token, ca.crt and namespace."""

_UNSUPPORTED: Final = ("auth-provider", "as", "as-uid", "as-groups", "as-user-extra")


@dataclass(frozen=True)
class Endpoint:
    """An API server and how to talk to it.

    `source` begins the messages of errors; `authority` is PEM, or empty for the system's; `proxy` is None
    where the environment says, "" for none.
    """

    source: str
    server: str
    credentials: Credentials
    authority: bytes = b""
    verify: bool = True
    server_name: str = ""
    proxy: str | None = None
    namespace: str = "default"


def load_config(environ: Mapping[str, str] = os.environ, service_account: Path | None = None) -> Endpoint:
    """The endpoint by the rules above. Raises ConfigError."""
    named = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if named:
        return from_files(named)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ, service_account or SERVICE_ACCOUNT)
    default = Path(environ.get("HOME") or "~").expanduser() / ".kube" / "config"
    if not default.exists():
        raise ConfigError(f"kubeconfig: KUBECONFIG isn't set, this is no pod, and there is no {default}")
    return from_files([default])


def in_cluster(environ: Mapping[str, str], folder: Path) -> Endpoint:
    """The endpoint of a pod, from its environment and its service account's mount. Raises ConfigError."""
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT") or "443"
    source = f"service account {folder}"
    namespace = folder / "namespace"
    return Endpoint(
        source=source,
        server=f"https://{addresses.format_address(host, int(port))}",
        credentials=TokenFile(source, folder / "token"),
        authority=_read(folder / "ca.crt", source),
        proxy="",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def from_files(paths: Sequence[Path]) -> Endpoint:
    """The endpoint of the current context of kubeconfigs. Raises ConfigError."""
    merged = _Merged()
    for path in paths:
        if path.exists():
            merged.add(path)
        elif len(paths) == 1:
            raise ConfigError(f"kubeconfig: {path}: no such file")
    context, _ = merged.entry("contexts", merged.current, "current-context")
    where = f"contexts[{merged.current}].context"
    cluster, beside = merged.entry("clusters", context.get("cluster"), f"{where}.cluster")
    name = context.get("user")
    if not name:
        raise ConfigError(
            f"kubeconfig: {where} has no user; set one with kubectl config set-context --current --user=NAME"
        )
    user, home = merged.entry("users", name, f"{where}.user")
    said = f"kubeconfig: cluster {context['cluster']}"
    server = str(cluster.get("server") or "").rstrip("/")
    if not _is_address(server):
        raise ConfigError(f"{said}.server: {server!r} is no http(s) address")
    authority = _file_or_data(cluster, "certificate-authority", beside, said)
    return Endpoint(
        source=said,
        server=server,
        credentials=_credentials(user, home, f"kubeconfig: user {name}", cluster, authority),
        authority=authority,
        verify=not cluster.get("insecure-skip-tls-verify"),
        server_name=str(cluster.get("tls-server-name") or ""),
        proxy=str(cluster.get("proxy-url") or "") or ("" if _here(server) else None),
        namespace=str(context.get("namespace") or "default"),
    )


class _Merged:
    """Several kubeconfigs as one; each entry with the folder that its relative paths start from."""

    def __init__(self) -> None:
        self.current = ""
        self._entries: dict[str, dict[str, tuple[dict[str, Any], Path]]] = {
            "clusters": {},
            "contexts": {},
            "users": {},
        }

    def add(self, path: Path) -> None:
        try:
            found = yaml.safe_load(path.read_text()) or {}
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise ConfigError(f"kubeconfig: {path}: {' '.join(str(error).split())}") from error
        try:
            for section, known in self._entries.items():
                inner = section.removesuffix("s")
                for item in found.get(section) or ():
                    known.setdefault(str(item["name"]), (dict(item.get(inner) or {}), path.parent))
            self.current = self.current or str(found.get("current-context") or "")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"kubeconfig: {path}: it isn't built as a kubeconfig is ({type(error).__name__}: {error})"
            ) from error

    def entry(self, section: str, name: object, field: str) -> tuple[dict[str, Any], Path]:
        if not name:
            raise ConfigError(f"kubeconfig: {field} isn't set; set it with kubectl config")
        try:
            return self._entries[section][str(name)]
        except KeyError:
            raise ConfigError(f"kubeconfig: {field} is {name!r}, which {section} doesn't have") from None


def _credentials(
    user: Mapping[str, Any], home: Path, where: str, cluster: Mapping[str, Any], authority: bytes
) -> Credentials:
    """By the fields of a user, in kubectl's order."""
    for field in _UNSUPPORTED:
        if user.get(field):
            raise ConfigError(f"{where}.{field}: isn't supported; use a token, a certificate or exec")
    certificate = _file_or_data(user, "client-certificate", home, where)
    key = _file_or_data(user, "client-key", home, where)
    if bool(certificate) != bool(key):
        raise ConfigError(f"{where}: client-certificate and client-key go together; one is missing")
    base = Login(certificate=certificate, key=key)
    if token := user.get("token"):
        return Fixed(Login(f"Bearer {token}", certificate, key))
    if token_file := user.get("tokenFile"):
        return TokenFile(f"{where}.tokenFile", home / str(token_file), base)
    if user.get("username"):
        header = basic(str(user["username"]), str(user.get("password") or ""))
        return Fixed(Login(header, certificate, key))
    if plugin := user.get("exec"):
        told = {
            "server": cluster.get("server"),
            "tls-server-name": cluster.get("tls-server-name"),
            "insecure-skip-tls-verify": cluster.get("insecure-skip-tls-verify"),
            "certificate-authority-data": base64.b64encode(authority).decode(),
            "proxy-url": cluster.get("proxy-url"),
            "config": _plugin_config(cluster),
        }
        return Plugin(f"{where}.exec", plugin, home, {key: value for key, value in told.items() if value})
    return Fixed(base)


def _plugin_config(cluster: Mapping[str, Any]) -> object:
    for item in cluster.get("extensions") or ():
        if item.get("name") == "client.authentication.k8s.io/exec":
            return item.get("extension")
    return None


def _file_or_data(entry: Mapping[str, Any], field: str, folder: Path, where: str) -> bytes:
    """PEM from `FIELD-data`, else from the file that `FIELD` names, else nothing."""
    if data := entry.get(f"{field}-data"):
        try:
            return base64.b64decode(str(data), validate=True)
        except binascii.Error as error:
            raise ConfigError(f"{where}.{field}-data: {error}") from error
    if path := entry.get(field):
        return _read(folder / str(path), f"{where}.{field}")
    return b""


def _read(path: Path, where: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{where}: {path}: {error.strerror}") from error


def _is_address(server: str) -> bool:
    try:
        parts = urlsplit(server)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _here(server: str) -> bool:
    """True if an address is this machine's own, as Go's clients judge it."""
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
