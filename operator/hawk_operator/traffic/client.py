"""The one place that talks to Prometheus: every failure becomes a message that names the URL."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_ANSWER_BYTES = 64 << 20


class QueryError(Exception):
    """A query had no usable answer; the message names the URL and the cause.

    `answered` is true when the store did answer, with an error.
    """

    def __init__(self, message: str, *, answered: bool = False) -> None:
        super().__init__(message)
        self.answered = answered


@dataclass(frozen=True)
class Sample:
    """One series of an instant vector: its labels and its value as text."""

    labels: dict[str, str]
    text: object


@dataclass(frozen=True)
class Series:
    """One series of a matrix: its labels, and (time, value as text) in order of time."""

    labels: dict[str, str]
    points: tuple[tuple[float, object], ...]


class _BoundedSession(requests.Session):
    """A session whose requests end by a deadline even when the body trickles in."""

    def __init__(self, deadline: float, clock: Callable[[], float]) -> None:
        super().__init__()
        self._deadline = deadline
        self._clock = clock
        self.trust_env = False

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        remaining = self._deadline - self._clock()
        if remaining <= 0:
            raise requests.Timeout("no time left")
        # In the body: many proxies refuse URLs above 8 KiB, and quoting them takes ten times as long.
        kwargs["data"] = kwargs.pop("params", None)
        kwargs.update(timeout=remaining, stream=True, allow_redirects=False)
        response = super().request(*args, **kwargs)
        body = bytearray()
        while chunk := response.raw.read1(1 << 16, decode_content=True):
            body += chunk
            if self._clock() > self._deadline:
                raise requests.Timeout("the answer was still coming in")
            if len(body) > _MAX_ANSWER_BYTES:
                raise requests.RequestException(f"the answer is larger than {_MAX_ANSWER_BYTES} bytes")
        response._content = bytes(body)
        response._content_consumed = True  # type: ignore[attr-defined]
        return response


@dataclass
class Prometheus:
    """A client for the queries of one window, all of which end within `timeout` seconds together."""

    url: str
    timeout: float
    clock: Callable[[], float] = time.monotonic
    round_trips: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._session = _BoundedSession(self.clock() + self.timeout, self.clock)
        self._connection = PrometheusConnect(
            url=self.url.rstrip("/"),
            session=self._session,
            retry=Retry(total=0),
            method="POST",
        )

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()

    def query(self, promql: str) -> list[Sample]:
        """Ask for an instant vector at the store's own time; raises QueryError."""
        return _samples(self.url, self._ask(promql))

    def matrix(self, promql: str) -> list[Series]:
        """Ask for ranges (`…[1h:30s]`) that end at the store's own time; raises QueryError."""
        result = self._ask(promql)
        try:
            return [
                Series(dict(item["metric"]), tuple((float(when), text) for when, text in item["values"]))
                for item in result
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise QueryError(f"{self.url}: the answer holds no ranges ({error!r:.120})") from error

    def _ask(self, promql: str) -> Any:
        self.round_trips += 1
        try:
            return self._connection.custom_query(promql)
        except requests.Timeout as error:
            raise QueryError(f"{self.url}: no answer within {self.timeout:g} s") from error
        except PrometheusApiClientException as error:
            raise QueryError(f"{self.url}: {str(error)[:300]}", answered=True) from error
        except (requests.RequestException, HTTPError, OSError) as error:
            raise QueryError(f"{self.url}: {_cause(error)}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise QueryError(f"{self.url}: the answer isn't one of Prometheus ({error!r:.120})") from error


def _samples(url: str, result: object) -> list[Sample]:
    if not isinstance(result, list):
        raise QueryError(f"{url}: the answer isn't a list of series")
    if len(result) == 2 and not isinstance(result[0], dict):  # a scalar: [time, value]
        return [Sample({}, result[1])]
    try:
        return [Sample(dict(item["metric"]), item["value"][1]) for item in result]
    except (KeyError, TypeError, IndexError) as error:
        raise QueryError(f"{url}: the query must give an instant vector, not a range ({error!r})") from error


def _cause(error: BaseException) -> str:
    text = str(error)
    for needle, meaning in (
        ("Connection refused", "connection refused"),
        ("Failed to resolve", "the host name can't be resolved"),
        ("NameResolution", "the host name can't be resolved"),
        ("timed out", "timed out"),
    ):
        if needle in text:
            return meaning
    return text[:200] or type(error).__name__
