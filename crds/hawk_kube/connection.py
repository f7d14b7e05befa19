"""Requests to the API server: the official client's `ApiClient` with our gate, log-in and time-outs."""

from __future__ import annotations

import json
import ssl
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException

from hawk_kube.errors import ApiError, ConfigError, UnavailableError, failure
from hawk_kube.gate import Gate, retry_after
from hawk_kube.request import JSON, ApiRequest

if TYPE_CHECKING:
    from hawk_kube.config import Endpoint
    from hawk_kube.credentials import Login

_CONNECTIONS: Final = 32
"""Kept open for the next call; more are made when more are needed at once."""

_PART_BYTES: Final = 1 << 18


class ApiConnection:
    """Calls of several threads, each with a time-out; `name` is the user agent.

    Raises ConfigError where the endpoint's credentials or certificates are no use.
    """

    def __init__(self, endpoint: Endpoint, gate: Gate, name: str) -> None:
        self.endpoint = endpoint
        self._gate = gate
        self._name = name
        self._lock = threading.Lock()
        self._login = endpoint.credentials.login()
        self._client = self._made(self._login)

    def close(self) -> None:
        """Close the connections that nobody uses just now."""
        self._client.close()  # type: ignore[no-untyped-call]

    def send(self, request: ApiRequest) -> Any:
        """Send a request; its parsed answer. Raises ApiError."""
        response = self.open(request)
        content = self._read(request, response)
        try:
            return json.loads(content)
        except ValueError as error:
            text = f"{request.call}: the answer is no JSON: {error}"
            raise UnavailableError(text, status=response.status) from error

    def open(self, request: ApiRequest) -> urllib3.HTTPResponse:
        """Send a request; its answer, once that has begun and is a success. Raises ApiError."""
        remaining = self._gate.remaining()
        if remaining > 0:
            raise _throttled(request, remaining)
        try:
            client = self._logged_in()
        except ConfigError as error:
            raise UnavailableError(f"{request.call}: {error}") from error
        headers = {"Accept": JSON, **({} if request.body is None else {"Content-Type": request.content_type})}
        method, url, headers, _, _ = client.param_serialize(
            request.method,
            request.path,
            query_params=[(key, value) for key, value in request.query.items() if value],
            header_params=headers,
            auth_settings=["BearerToken"],
        )
        try:
            # The time-out bounds connecting, and each wait for bytes of the answer.
            answer = client.call_api(method, url, headers, request.body, _request_timeout=request.seconds)
        except (ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise _unreachable(request, error) from error
        response: urllib3.HTTPResponse = answer.response
        if 200 <= response.status < 300:
            return response
        raise self._failed(request, response)

    def _read(self, request: ApiRequest, response: urllib3.HTTPResponse) -> bytes:
        """All of an answer."""
        parts, deadline = [], time.monotonic() + request.seconds
        try:
            for part in response.stream(_PART_BYTES, decode_content=True):
                parts.append(part)
                if time.monotonic() > deadline:
                    response.close()
                    text = f"{request.call}: the answer didn't end in {request.seconds:g} s"
                    raise UnavailableError(text, status=response.status)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _unreachable(request, error) from error
        response.release_conn()
        return b"".join(parts)

    def _failed(self, request: ApiRequest, response: urllib3.HTTPResponse) -> ApiError:
        wait = retry_after(response.status, response.headers)
        content = self._read(request, response)
        if wait is not None:
            self._gate.close(wait)
            return _throttled(request, wait)
        if response.status == 401:
            self.endpoint.credentials.refused()
        return failure(request.call, response.status, content)

    def _logged_in(self) -> ApiClient:
        """The client with the login of the moment; another certificate takes another client."""
        login = self.endpoint.credentials.login()
        with self._lock:
            if (login.certificate, login.key) != (self._login.certificate, self._login.key):
                made = self._made(login)
                self.close()
                self._client = made
            self._login = login
            if login.authorization:
                self._client.configuration.api_key["BearerToken"] = login.authorization
            return self._client

    def _made(self, login: Login) -> ApiClient:
        endpoint = self.endpoint
        configuration = Configuration(
            host=endpoint.server,
            verify_ssl=endpoint.verify,
            proxy=endpoint.proxy,
            tls_server_name=endpoint.server_name or None,
            connection_pool_maxsize=_CONNECTIONS,
            retries=False,  # urllib3's default: three more tries, each with the whole time-out
        )
        client = ApiClient(configuration)
        client.user_agent = self._name
        # By itself urllib3 reads files anew for each connection: a kubeconfig's keys would have to be files
        # for as long as the process lives.
        client.rest_client.pool_manager.connection_pool_kw["ssl_context"] = tls(endpoint, login)
        return client


def tls(endpoint: Endpoint, login: Login) -> ssl.SSLContext:
    """TLS as kubectl does it. Raises ConfigError for a certificate that is none."""
    try:
        context = ssl.create_default_context(cadata=endpoint.authority.decode() or None)
        # Python 3.13 asks more of an authority's certificate than Kubernetes' own tools put into it.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not endpoint.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if login.certificate:
            with tempfile.TemporaryDirectory(prefix="hawk-") as folder:  # Python takes them from files only
                certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
                certificate.write_bytes(login.certificate)
                key.write_bytes(login.key)
                context.load_cert_chain(certificate, key)
    except (ssl.SSLError, ValueError, OSError) as error:
        raise ConfigError(f"{endpoint.source}: certificates: {error}") from error
    return context


def _throttled(request: ApiRequest, seconds: float) -> UnavailableError:
    text = f"{request.call}: the API server is overloaded and asked to wait; {seconds:.1f} s are left"
    return UnavailableError(text, delay=seconds, status=429)


def _unreachable(request: ApiRequest, error: Exception) -> UnavailableError:
    said = error.reason if isinstance(error, ApiException) else error
    return UnavailableError(f"{request.call}: {type(error).__name__}: {' '.join(str(said).split())}")
