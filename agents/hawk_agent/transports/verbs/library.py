"""libibverbs: whether this host has it, and the extension that speaks to it."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final

from hawk_agent.transports.verbs.errors import VerbsUnavailableError

try:
    from hawk_agent.transports.verbs import _verbs as native
except ImportError:  # built without a compiler
    native = None  # type: ignore[assignment]

__all__ = ["LIBRARY", "fork_status", "load_library", "native"]

LIBRARY: Final = "libibverbs.so.1"
_HUGE_PAGES: Final = "RDMAV_HUGEPAGES_SAFE"
"""Has the library keep huge pages out of children as a whole; the kernel refuses parts of them."""
_FORKS: Final = ("disabled", "enabled", "not needed")


@lru_cache(maxsize=8)
def load_library(path: str = LIBRARY) -> native.Library:
    """libibverbs, opened once, with children of this process kept out of registered pages.

    VerbsUnavailableError says what is missing.
    """
    if native is None:
        raise VerbsUnavailableError(
            "the verbs extension isn't built; install a C compiler and reinstall the package"
        )
    try:
        library = native.Library(path)
    except OSError as error:
        raise VerbsUnavailableError(f"{error}; install rdma-core (libibverbs1, ibverbs-providers)") from error
    os.environ.setdefault(_HUGE_PAGES, "1")
    library.fork_init()
    return library


def fork_status(path: str = LIBRARY) -> str:
    """True if a child of this process could take a registered page away: for the log at start-up.

    "enabled": the library keeps the pages out of children; "not needed": the kernel copies them for children;
    "disabled": a child's first write to a shared page would part our mapping from the device's.
    """
    return _FORKS[load_library(path).fork_status()]
