"""The objects of one kind as they were last seen, put together from a watch and from lists. Pure.

A watch says what changed and may fall silent; a list says what is there and takes long. Both are taken in
here in any order: of two words about one object the one with the higher resourceVersion counts, and a list
removes what it doesn't have, unless a watch told of it after the list was made. So a reader sees each object
as it was at some moment, never older than it was seen before, and a lost event is mended by the next list.

Objects are kept in the form that readers need (`reduce`), which is a fraction of the whole, and found by the
keys that `index` gives. What `reduce` gives must not be changed by anybody.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

T = TypeVar("T")

Ref = tuple[str, str]
"""Namespace ("" for objects of the cluster) and name."""


@dataclass(frozen=True)
class Change(Generic[T]):
    """An object before and after; None where it wasn't or isn't there."""

    before: T | None
    after: T | None


@dataclass(frozen=True)
class _Kept(Generic[T]):
    version: int
    value: T
    keys: frozenset[Hashable]


class Indexer(Generic[T]):
    """Safe for several threads; readers get copies of the containers, not of the objects."""

    def __init__(
        self,
        reduce: Callable[[Mapping[str, Any]], T],
        index: Callable[[T], Iterable[Hashable]] = lambda _: (),
    ) -> None:
        self._reduce = reduce
        self._index = index
        self._kept: dict[Ref, _Kept[T]] = {}
        self._gone: dict[Ref, int] = {}
        self._by: dict[Hashable, set[Ref]] = {}
        self._lock = threading.Lock()
        self.revision = 0
        """Grows with each change that readers can see."""

    def update(self, body: Mapping[str, Any]) -> Change[T] | None:
        """Take in an object that is there; None when that changes nothing for readers."""
        ref, version = ref_of(body), version_of(body)
        with self._lock:
            if self._knows(ref, version) or self._gone.get(ref, 0) >= version > 0:
                return None
            return self._set(ref, version, self._reduce(body))

    def delete(self, body: Mapping[str, Any]) -> Change[T] | None:
        """Take in that an object is gone; its resourceVersion is that of the deletion."""
        ref, version = ref_of(body), version_of(body)
        with self._lock:
            kept = self._kept.get(ref)
            if kept is None:
                self._gone[ref] = max(version, self._gone.get(ref, 0))
                return None
            if kept.version > version > 0:
                return None  # it was created anew since
            self._gone[ref] = max(version, kept.version)
            return self._remove(ref)

    def replace(self, version: int, bodies: Iterable[Mapping[str, Any]]) -> list[Change[T]]:
        """Take in a whole list that the API server made at `version`; what changed by it.

        Objects that are kept in this version, or in a later one, are not reduced again: most of a list says
        nothing new.
        """
        listed: dict[Ref, tuple[int, T] | None] = {}
        for body in bodies:
            ref, own = ref_of(body), version_of(body)
            listed[ref] = None if self._knows(ref, own) else (own, self._reduce(body))
        changes = []
        with self._lock:
            for ref, news in listed.items():
                if news is None or self._knows(ref, news[0]):
                    continue
                if self._gone.get(ref, 0) < max(news[0], version):
                    change = self._set(ref, *news)
                    if change is not None:
                        changes.append(change)
            lacking = [r for r, kept in self._kept.items() if r not in listed and kept.version <= version]
            changes += [self._remove(ref) for ref in lacking]
            self._gone = {ref: at for ref, at in self._gone.items() if at > version}
        return changes

    def get(self, namespace: str, name: str) -> T | None:
        """One object, or None."""
        with self._lock:
            kept = self._kept.get((namespace, name))
            return None if kept is None else kept.value

    def all(self) -> list[T]:
        """Every object, in no order."""
        with self._lock:
            return [kept.value for kept in self._kept.values()]

    def by_index(self, key: Hashable) -> list[T]:
        """The objects of an index key, in the order of their names."""
        with self._lock:
            return [self._kept[ref].value for ref in sorted(self._by.get(key, ()))]

    def __len__(self) -> int:
        return len(self._kept)

    def _knows(self, ref: Ref, version: int) -> bool:
        """True if the object is kept in this version or in a later one."""
        kept = self._kept.get(ref)
        return kept is not None and kept.version >= version > 0

    def _set(self, ref: Ref, version: int, value: T) -> Change[T] | None:
        old = self._kept.get(ref)
        self._gone.pop(ref, None)
        if old is not None and old.value == value:
            self._kept[ref] = _Kept(version, old.value, old.keys)
            return None
        self.revision += 1
        keys = frozenset(self._index(value))
        self._kept[ref] = _Kept(version, value, keys)
        self._reindex(ref, old.keys if old else frozenset(), keys)
        return Change(old.value if old else None, value)

    def _remove(self, ref: Ref) -> Change[T]:
        self.revision += 1
        old = self._kept.pop(ref)
        self._reindex(ref, old.keys, frozenset())
        return Change(old.value, None)

    def _reindex(self, ref: Ref, before: frozenset[Hashable], after: frozenset[Hashable]) -> None:
        for key in before - after:
            self._by[key].discard(ref)
            if not self._by[key]:
                del self._by[key]
        for key in after - before:
            self._by.setdefault(key, set()).add(ref)


def ref_of(body: Mapping[str, Any]) -> Ref:
    """The namespace and name of an object."""
    metadata = body["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata["name"])


def version_of(body: Mapping[str, Any]) -> int:
    """The resourceVersion as the number that it is since etcd counts it; 0, which is always taken, where it
    is something else."""
    text = str(body["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0
