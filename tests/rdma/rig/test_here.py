"""Which of a machine's RDMA devices the tests could use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.rdma.here import Device, devices

if TYPE_CHECKING:
    from pathlib import Path

MAPPED = "0000:0000:0000:0000:0000:ffff:0a09:0102"
LINK_LOCAL = "fe80:0000:0000:0000:0202:03ff:fe04:0506"


def add(root: Path, name: str, state: str, gids: dict[int, tuple[str, str]]) -> None:
    port = root / name / "ports" / "1"
    (port / "gids").mkdir(parents=True)
    (port / "gid_attrs" / "types").mkdir(parents=True)
    (port / "state").write_text(f"{state}\n")
    for index, (gid, kind) in gids.items():
        (port / "gids" / str(index)).write_text(f"{gid}\n")
        (port / "gid_attrs" / "types" / str(index)).write_text(f"{kind}\n")


@pytest.mark.parametrize(
    ("state", "gids"),
    [
        ("1: DOWN", {0: (MAPPED, "RoCE v2")}),
        ("4: ACTIVE", {0: (MAPPED, "IB/RoCE v1")}),
        ("4: ACTIVE", {0: (LINK_LOCAL, "RoCE v2")}),
        ("4: ACTIVE", {}),
    ],
    ids=["down", "v1", "not-routable", "no-gid"],
)
def test_what_is_not_active_or_not_routable_is_left_out(tmp_path: Path, state: str, gids: dict):
    add(tmp_path, "mlx5_0", state, gids)

    assert devices(tmp_path) == []


def test_the_address_is_that_of_the_first_routable_gid(tmp_path: Path):
    later = MAPPED.replace("0102", "0103")
    gids = {
        10: (later, "RoCE v2"),
        2: (LINK_LOCAL, "RoCE v2"),
        3: (MAPPED, "RoCE v2"),
        0: (MAPPED, "IB/RoCE v1"),
    }
    add(tmp_path, "mlx5_1", "4: ACTIVE", gids)
    add(tmp_path, "mlx5_0", "4: ACTIVE", {0: (later, "RoCE v2")})

    assert devices(tmp_path) == [Device("mlx5_0", "10.9.1.3"), Device("mlx5_1", "10.9.1.2")]
    assert devices(tmp_path / "absent") == []
