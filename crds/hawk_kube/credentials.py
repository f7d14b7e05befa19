"""How to log in at the API server: a token or a certificate, from a kubeconfig, a file or a plugin.

Each kind of credentials gives a `Login` for the next call, and hears when the server refused one (401).
Calls come from several threads.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import subprocess
import threading
import time
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from hawk_kube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_REREAD_SECONDS: Final = 60.0
"""As client-go: a kubelet replaces a token when a fifth of its life is left, ten minutes of an hour."""

_PLUGIN_SECONDS: Final = 60.0
"""Long enough for a person to follow a plugin to a browser."""

_PLUGIN_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Login:
    """The Authorization header, and a client certificate with its key (PEM); empty where there is none."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""


class Credentials(Protocol):
    """A source of logins."""

    def login(self) -> Login:
        """The login for a call now. Raises ConfigError."""

    def refused(self) -> None:
        """The server answered 401: have another login for the next call, if there can be one."""


class Fixed:
    """Credentials that a kubeconfig itself holds."""

    def __init__(self, login: Login) -> None:
        self._login = login

    def login(self) -> Login:
        """See `Credentials`."""
        return self._login

    def refused(self) -> None:
        """See `Credentials`."""


class TokenFile:
    """A token that somebody else replaces in its file: read again each minute, and after a refusal."""

    def __init__(
        self, where: str, path: Path, base: Login = Login(), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._where = where
        self._path = path
        self._base = base
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._due = float("-inf")

    def login(self) -> Login:
        """See `Credentials`. The last token stays where the file can't be read for a while."""
        with self._lock:
            if self._clock() >= self._due:
                self._read()
            return replace(self._base, authorization=f"Bearer {self._token}")

    def refused(self) -> None:
        """See `Credentials`."""
        self._due = float("-inf")

    def _read(self) -> None:
        try:
            token = self._path.read_text().strip()
        except OSError as error:
            token, problem = "", error.strerror
        else:
            problem = "it is empty"
        if token:
            self._token, self._due = token, self._clock() + _REREAD_SECONDS
        elif self._token:
            _log.warning("%s: %s: %s; going on with the last token", self._where, self._path, problem)
        else:
            raise ConfigError(f"{self._where}: {self._path}: {problem}")


class Plugin:
    """A credential plugin, the `exec` of a kubeconfig's user: run when its last answer has expired or was
    refused. `cluster` is what the plugin is told of the cluster, where it asks for that."""

    def __init__(
        self,
        where: str,
        settings: Mapping[str, Any],
        folder: Path,
        cluster: Mapping[str, Any],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._where = where
        self._version = str(settings.get("apiVersion") or "")
        if self._version not in _PLUGIN_VERSIONS:
            raise ConfigError(
                f"{where}.apiVersion: {self._version or 'missing'}; give {' or '.join(_PLUGIN_VERSIONS)}"
            )
        command = str(settings.get("command") or "")
        if not command:
            raise ConfigError(f"{where}.command: missing")
        if "/" in command:
            command = str(folder / command)
        self._command = [command, *map(str, settings.get("args") or ())]
        self._environment = {item["name"]: str(item["value"]) for item in settings.get("env") or ()}
        self._hint = str(settings.get("installHint") or "").strip()
        self._cluster = dict(cluster) if settings.get("provideClusterInfo") else None
        self._clock = clock
        self._lock = threading.Lock()
        self._login: Login | None = None
        self._expires = float("inf")

    def login(self) -> Login:
        """See `Credentials`."""
        with self._lock:
            if self._login is None or self._clock() >= self._expires:
                self._login, self._expires = self._parse(self._run())
            return self._login

    def refused(self) -> None:
        """See `Credentials`."""
        self._login = None

    def _run(self) -> bytes:
        spec: dict[str, Any] = {"interactive": False}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        info = {"apiVersion": self._version, "kind": "ExecCredential", "spec": spec}
        environment = {**os.environ, **self._environment, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        name = self._command[0]
        try:
            done = subprocess.run(
                self._command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PLUGIN_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ConfigError(f"{self._where}: {name} gave nothing in {_PLUGIN_SECONDS:g} s") from None
        except OSError as error:
            hint = f"; {self._hint}" if self._hint else ""
            raise ConfigError(f"{self._where}: {name}: {error.strerror}{hint}") from error
        if done.returncode:
            said = " ".join(done.stderr.decode(errors="replace").split())
            raise ConfigError(f"{self._where}: {name} ended with {done.returncode}: {said[-500:]}")
        return done.stdout

    def _parse(self, output: bytes) -> tuple[Login, float]:
        """The login in a plugin's answer, and when it ends (Unix seconds)."""
        try:
            answer = json.loads(output)
            status = answer["status"]
            version, token = answer["apiVersion"], status.get("token") or ""
            certificate = (status.get("clientCertificateData") or "").encode()
            key = (status.get("clientKeyData") or "").encode()
            end = status.get("expirationTimestamp")
            expires = datetime.fromisoformat(end).timestamp() if end else float("inf")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            problem = f"printed no ExecCredential ({type(error).__name__}: {error})"
            raise ConfigError(f"{self._where}: {self._command[0]} {problem}") from error
        if version != self._version:
            raise ConfigError(
                f"{self._where}: {self._command[0]} answered in {version}, asked for {self._version}"
            )
        if not token and not (certificate and key):
            raise ConfigError(
                f"{self._where}: {self._command[0]} gave neither a token nor a certificate with its key"
            )
        return Login(f"Bearer {token}" if token else "", certificate, key), expires


def basic(username: str, password: str) -> str:
    """The Authorization header for a name and a password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
