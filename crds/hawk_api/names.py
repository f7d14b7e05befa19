"""Deterministic names of children and label values, whatever the length of the parents' names.

A HawkPool may be called anything that Kubernetes allows (253 characters, dots), a child can't: pods,
ReplicaSets and StatefulSets append to its name and put it in labels of at most 63 characters. Names that
don't fit, or that could be read in two ways, are shortened and get a hash of the parts. Pools "a-b" and "a"
with groups "c" and "b-c" must not meet in one child.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final

from hawk_api.base import DNS_LABEL, DNS_SUBDOMAIN

CHILD_LIMIT: Final = 52
"""A StatefulSet's revision label holds its name and 11 more characters; other kinds need less."""

LABEL_LIMIT: Final = 63
_HASH_LENGTH: Final = 8
_NAME_LIMIT: Final = 253
_LABEL: Final = re.compile(DNS_LABEL)
_SUBDOMAIN: Final = re.compile(DNS_SUBDOMAIN)
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def child_name(*parts: str, limit: int = CHILD_LIMIT) -> str:
    """A DNS label of at most `limit` characters that only these parts give.

    Joined by "-" where that fits and is unambiguous (no part after the first holds a "-"), otherwise
    shortened with a hash. The same parts always give the same name. `limit` is at least 10.
    """
    plain = "-".join(parts)
    unambiguous = all("-" not in part for part in parts[1:])
    if unambiguous and len(plain) <= limit and all(_LABEL.fullmatch(part) for part in parts):
        return plain
    readable = re.sub(r"[^a-z0-9-]+", "-", plain.lower())
    return _shorten(readable, _hash(parts), limit)


def label_value(text: str) -> str:
    """`text` where it is a valid label value, otherwise a shortened one with a hash."""
    if len(text) <= LABEL_LIMIT and _LABEL_VALUE.fullmatch(text):
        return text
    return _shorten(re.sub(r"[^-A-Za-z0-9_.]+", "-", text), _hash((text,)), LABEL_LIMIT)


def is_subdomain(text: str) -> bool:
    """True if `text` can be the name of an object: a DNS subdomain of at most 253 characters."""
    return len(text) <= _NAME_LIMIT and _SUBDOMAIN.fullmatch(text) is not None


def _shorten(readable: str, digest: str, limit: int) -> str:
    head = readable[: limit - len(digest) - 1].strip("-_.")
    if head[:1].isdigit() or not head:  # a Service's name must begin with a letter
        head = f"x{head}"[: limit - len(digest) - 1].rstrip("-_.")
    return f"{head}-{digest}"


def _hash(parts: tuple[str, ...]) -> str:
    """Eight characters a-z2-7 of the SHA-256 of the parts, which are separated unambiguously."""
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(digest).decode().lower()[:_HASH_LENGTH]
