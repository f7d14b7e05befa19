"""Fixtures of the RDMA tests, which are collected only where `make test-rdma` says that there are devices."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

DEVICES = os.environ.get("HAWK_RDMA_DEVICES", "")
DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
HERE = Path(__file__).parent
RIG_TESTS = HERE / "rig"
NOT_HERE = pytest.StashKey[bool]()


@dataclass(frozen=True)
class Port:
    """One end: an RDMA device's name and the IPv4 address that its RoCE v2 GID is made of."""

    device: str
    address: str


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave this folder's tests out where no devices were given, and the guest's own where some were."""
    if not collection_path.match("test_*.py"):
        return None
    if collection_path.is_relative_to(RIG_TESTS):
        return bool(DEVICES) or None
    if DEVICES:
        return None
    asked = [Path(argument.partition("::")[0]).absolute() for argument in config.args]
    config.stash[NOT_HERE] = any(collection_path.is_relative_to(path) for path in asked)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how to run what was left out."""
    if config.stash.get(NOT_HERE, False):
        terminalreporter.section("RDMA tests left out")
        terminalreporter.line('they need RDMA devices: make test-rdma ARGS="tests/rdma/... -k ..."')


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test here, so that `-m "not rdma"` leaves them out where there are devices.

    A file that is named on the command line is collected whatever is said above; it is left out here.
    """
    ours = [item for item in items if item.path.is_relative_to(HERE) and RIG_TESTS not in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.rdma)
    if ours and not DEVICES:
        config.stash[NOT_HERE] = True
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if item not in ours]


@pytest.fixture(scope="session")
def rdma_pair() -> tuple[Port, Port]:
    """The two ends that reach each other; the same device twice on a machine that has one."""
    ports = [Port(*entry.split("=", 1)) for entry in DEVICES.split(",")]
    return ports[0], ports[-1]


@pytest.fixture(scope="session")
def rxa(rdma_pair: tuple[Port, Port]) -> Port:
    """The first end."""
    return rdma_pair[0]


@pytest.fixture(scope="session")
def rxb(rdma_pair: tuple[Port, Port]) -> Port:
    """The second end."""
    return rdma_pair[1]


@pytest.fixture(scope="session")
def pyverbs() -> ModuleType:
    """The independent counterpart: Debian's pyverbs, importable from here on; skips where it can't be.

    It is built for Debian's own Python. Its folder stands last on sys.path, so that nothing else in there
    hides a package of the virtual environment.
    """
    if DEBIAN_PACKAGES not in sys.path:
        sys.path.append(DEBIAN_PACKAGES)
    try:
        import pyverbs
        import pyverbs.device
    except ImportError as error:
        version = ".".join(map(str, sys.version_info[:2]))
        pytest.skip(f"missing tool: pyverbs can't be imported in Python {version}: {error}")
    return pyverbs
