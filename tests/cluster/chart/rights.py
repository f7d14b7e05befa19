"""An account's requests to the API server, against its own rendered roles.

The comparison is by component: a right that one component lacks is not made up by another that has it. The
audit log tells what was asked, and whether it was refused; the chart's own output tells what is granted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

OPEN = frozenset(
    {
        ("create", "authentication.k8s.io", "selfsubjectreviews"),
        ("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
        ("create", "authorization.k8s.io", "selfsubjectrulesreviews"),
    }
)
"""Requests that the cluster allows every account."""

_CSR = "certificates.k8s.io"
IMPLIED = {
    ("approve", _CSR, "signers"): ("update", _CSR, "certificatesigningrequests/approval"),
    ("sign", _CSR, "signers"): ("update", _CSR, "certificatesigningrequests/status"),
}
"""Rights that are checked inside another request, and so are not in the log by themselves."""


class Right(NamedTuple):
    """One verb on one resource; a subresource is `resource/subresource`."""

    verb: str
    group: str
    resource: str


def account(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


def asked(events: Iterable[Mapping[str, Any]], user: str) -> set[Right]:
    """A user's requests about resources, refused or not; discovery and health are not resources."""
    return {right for event in _of(events, user) for right in _rights(event)} - OPEN


def refused(events: Iterable[Mapping[str, Any]], user: str) -> list[str]:
    """Requests that were answered with 403, as lines to read."""
    return [
        f"{event['verb']} {event['requestURI']}: {event['responseStatus'].get('message', '')}"
        for event in _of(events, user)
        if event.get("responseStatus", {}).get("code") == 403
    ]


def granted(objects: Iterable[Mapping[str, Any]], namespace: str, name: str) -> set[Right]:
    """Return the requests that the rendered roles bound to one account allow."""
    objects = list(objects)
    bound = {
        (item["roleRef"]["kind"], item["roleRef"]["name"])
        for item in objects
        if item["kind"] in {"RoleBinding", "ClusterRoleBinding"}
        for subject in item["subjects"]
        if (subject["namespace"], subject["name"]) == (namespace, name)
    }
    return {
        Right(verb, group, resource)
        for item in objects
        if (item["kind"], item["metadata"]["name"]) in bound
        for rule in item["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(rights: set[Right]) -> set[Right]:
    """The rights that were asked for, and those that were checked on the way."""
    return rights | {Right(*inner) for inner, outer in IMPLIED.items() if outer in rights}


def _of(events: Iterable[Mapping[str, Any]], user: str) -> Iterator[Mapping[str, Any]]:
    return (event for event in events if event["user"]["username"] == user and "objectRef" in event)


def _rights(event: Mapping[str, Any]) -> Iterator[Right]:
    about = event["objectRef"]
    name = about["resource"] + (f"/{about['subresource']}" if about.get("subresource") else "")
    yield Right(event["verb"], about.get("apiGroup", ""), name)
    if event["verb"] == "patch" and event.get("responseStatus", {}).get("code") == 201:
        yield Right("create", about.get("apiGroup", ""), name)  # an apply that made its object
