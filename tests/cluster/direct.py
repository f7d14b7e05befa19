"""Reads and applies at our own control plane, from this process.

Tests look several times a second until something is so, and kubectl would compute 80 ms for each look.
What is read and said is as kubectl has it.
"""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

TIMEOUT_SECONDS = 60.0
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
JSON = "application/json"
APPLY = "application/apply-patch+yaml"


class RefusedError(Exception):
    """The API server's refusal, in the form in which kubectl prints it."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        super().__init__(f"Error from server ({status.get('reason')}): {status.get('message')}")


@dataclass(frozen=True)
class Resource:
    """A kind as it is served: `names` are its plural, its singular and its short ones."""

    api_version: str
    kind: str
    plural: str
    names: frozenset[str]
    namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        """Where its objects are."""
        where = f"/{'apis' if '/' in self.api_version else 'api'}/{self.api_version}"
        where += f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{where}/{self.plural}" + (f"/{quote(name)}" if name else "")


@dataclass(frozen=True)
class Question:
    """The simplest arguments of `kubectl get`: KIND [NAME] [-n NAMESPACE] [-l SELECTOR]."""

    kind: str
    name: str = ""
    namespace: str = "default"
    selector: str = ""

    @classmethod
    def of(cls, words: Sequence[str]) -> Question | None:
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
    """The administrator's requests; `folder` holds the control plane's files, `server` is its address."""

    def __init__(self, folder: Path, server: str) -> None:
        self._address = urlsplit(server).netloc
        pki = folder / "pki"
        self._tls = ssl.create_default_context(cafile=pki / "ca.crt")
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self._served: tuple[Resource, ...] = ()

    def get(self, question: Question) -> Any:
        """Return the object, or the list of a kind; None for a kind that isn't known by this name."""
        resource = self._find(lambda resource: question.kind in resource.names)
        if resource is None:
            return None
        path = resource.path(question.namespace, question.name)
        query = {"labelSelector": question.selector} if question.selector else {}
        found = self._ask("GET", path, query)
        for item in found["items"] if not question.name else [found]:
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
            item["metadata"].pop("managedFields", None)  # as kubectl does
        return found

    def apply(self, body: Mapping[str, Any], manager: str) -> bool:
        """Apply on the server's side; False for a kind that isn't known."""
        version, kind, metadata = body["apiVersion"], body["kind"], body["metadata"]
        resource = self._find(lambda resource: (resource.api_version, resource.kind) == (version, kind))
        if resource is None:
            return False
        path = resource.path(metadata.get("namespace", "default"), metadata["name"])
        self._ask("PATCH", path, {"fieldManager": manager, "fieldValidation": "Strict"}, body)
        return True

    def _find(self, wanted: Any) -> Resource | None:
        for again in (False, True):
            if again or not self._served:
                answers = (self._ask("GET", path, accept=DISCOVERY) for path in ("/api", "/apis"))
                self._served = tuple(resource for answer in answers for resource in served(answer))
            if found := next(filter(wanted, self._served), None):
                return found
        return None

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        accept: str = JSON,
    ) -> Any:
        connection = http.client.HTTPSConnection(self._address, timeout=TIMEOUT_SECONDS, context=self._tls)
        try:
            connection.request(
                method,
                f"{path}?{urlencode(query)}" if query else path,
                json.dumps(body) if body else None,
                {"Accept": accept} | ({"Content-Type": APPLY} if body else {}),
            )
            answer = connection.getresponse()
            content = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status >= http.client.BAD_REQUEST:
            raise RefusedError(content)
        return content


def served(discovery: Mapping[str, Any]) -> Iterator[Resource]:
    """Every resource of an aggregated discovery document, the preferred version of a group first."""
    for group in discovery["items"]:
        prefix = f"{group['metadata']['name']}/" if group["metadata"].get("name") else ""
        for version in group["versions"]:
            for resource in version["resources"]:
                plural, singular = resource["resource"], resource.get("singularResource", "")
                yield Resource(
                    f"{prefix}{version['version']}",
                    resource["responseKind"]["kind"],
                    plural,
                    frozenset({plural, singular, *resource.get("shortNames", ())}) - {""},
                    resource["scope"] == "Namespaced",
                )
