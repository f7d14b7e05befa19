"""The rig itself: what it promises to the tests that run on it."""

from __future__ import annotations

import os
import re
import resource
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conftest import Port


def test_both_devices_are_active_with_the_largest_mtu(rdma_pair: tuple[Port, Port]):
    for port in rdma_pair:
        said = subprocess.run(
            ["ibv_devinfo", "-v", "-d", port.device], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        assert "PORT_ACTIVE" in said
        assert re.search(r"active_mtu:\s+4096", said)
        assert f"::ffff:{port.address}" in said


def test_memory_may_be_locked_without_limit():
    assert resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    assert os.geteuid() == 0
