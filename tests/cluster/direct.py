"""Reads and applies at our own control plane, from this process.

Tests look several times a second until something is so, and kubectl would compute 80 ms for each look.
What is read and said is as kubectl has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hawk_kube import config
from hawk_kube.connection import ApiConnection
from hawk_kube.errors import ApiError
from hawk_kube.gate import Gate
from hawk_kube.kinds import ResourceKind
from hawk_kube.request import APPLY, ApiRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

TIMEOUT_SECONDS = 60.0


class RefusedError(Exception):
    """The API server's refusal, in the form in which kubectl prints it."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(f"Error from server ({error.reason}): {error}")


@dataclass(frozen=True)
class ServedKind:
    """A kind as it is served: `names` are its plural, its singular and its short ones."""

    kind: ResourceKind
    names: frozenset[str]


@dataclass(frozen=True)
class GetQuestion:
    """The simplest arguments of `kubectl get`: KIND [NAME] [-n NAMESPACE] [-l SELECTOR]."""

    kind: str
    name: str = ""
    namespace: str = "default"
    selector: str = ""

    @classmethod
    def of(cls, words: Sequence[str]) -> GetQuestion | None:
        """The question in these words; None where only kubectl understands them."""
        plain, options, rest = [], {"-n": "default", "-l": ""}, iter(words)
        for word in rest:
            if word in options:
                options[word] = next(rest)
            else:
                plain.append(word)
        if len(plain) not in {1, 2} or any(word.startswith("-") or "," in word for word in plain):
            return None
        return cls(plain[0], *plain[1:], namespace=options["-n"], selector=options["-l"])


class Direct:
    """The administrator's requests, by the product's connection; RefusedError for what isn't done."""

    def __init__(self, kubeconfig: Path) -> None:
        self._connection = ApiConnection(config.from_files([kubeconfig]), Gate(), "test")
        self._served: tuple[ServedKind, ...] = ()

    def get(self, question: GetQuestion) -> Any:
        """Return the object, or the list of a kind; None for a kind that isn't known by this name."""
        kind = self._find(lambda served: question.kind in served.names)
        if kind is None:
            return None
        found = self._ask(
            "GET", kind.path(question.namespace, question.name), {"labelSelector": question.selector}
        )
        for item in found["items"] if not question.name else [found]:
            item.setdefault("apiVersion", kind.api_version)
            item.setdefault("kind", kind.kind)
            item["metadata"].pop("managedFields", None)  # as kubectl does
        return found

    def apply(self, body: Mapping[str, Any], manager: str) -> bool:
        """Apply on the server's side, as kubectl does by default; False for a kind that isn't known.

        Unknown fields are refused, and other managers' fields aren't taken over.
        """
        wanted = body["apiVersion"], body["kind"]
        kind = self._find(lambda served: (served.kind.api_version, served.kind.kind) == wanted)
        if kind is None:
            return False
        metadata = body["metadata"]
        path = kind.path(metadata.get("namespace", "default"), metadata["name"])
        self._ask("PATCH", path, {"fieldManager": manager, "fieldValidation": "Strict"}, dict(body))
        return True

    def _find(self, wanted: Callable[[ServedKind], bool]) -> ResourceKind | None:
        for again in (False, True):
            if again or not self._served:
                self._served = tuple(self._discover())
            for served in self._served:
                if wanted(served):
                    return served.kind
        return None

    def _discover(self) -> Iterator[ServedKind]:
        """Every kind that is served, the preferred version of a group first."""
        yield from _kinds(self._ask("GET", "/api/v1"))
        for group in self._ask("GET", "/apis")["groups"]:
            preferred = group["preferredVersion"]
            for version in [preferred, *(other for other in group["versions"] if other != preferred)]:
                yield from _kinds(self._ask("GET", f"/apis/{version['groupVersion']}"))

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: dict[str, Any] | None = None,
    ) -> Any:
        request = ApiRequest(
            f"{method} {path}", method, path, query or {}, body, APPLY, seconds=TIMEOUT_SECONDS
        )
        try:
            return self._connection.send(request)
        except ApiError as error:
            raise RefusedError(error) from error


def _kinds(listed: Mapping[str, Any]) -> Iterator[ServedKind]:
    """The kinds of one version's APIResourceList, without subresources."""
    group, _, version = listed["groupVersion"].rpartition("/")
    for resource in listed["resources"]:
        if "/" not in resource["name"]:
            names = {resource["name"], resource["singularName"], *resource.get("shortNames", ())}
            kind = ResourceKind(group, version, resource["kind"], resource["name"], resource["namespaced"])
            yield ServedKind(kind, frozenset(names) - {""})
