"""Which devices there are, which address of theirs is used, and what is said where there is none."""

from __future__ import annotations

import subprocess
import sys
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

import pytest

from hawk_agent.transports.verbs import device, library
from hawk_agent.transports.verbs.device import Gid, choose_gid
from hawk_agent.transports.verbs.errors import DeviceError, VerbsUnavailableError

from .ends import End

if TYPE_CHECKING:
    from pathlib import Path

    from .fake import Fake


def gid(index: int, address: str, kind: str) -> Gid:
    return Gid(index, IPv6Address(address).packed, kind)


TABLE = [
    gid(0, "fe80::1", "roce-v1"),
    gid(1, "fe80::1", "roce-v2"),
    gid(2, "::ffff:10.9.0.1", "roce-v1"),
    gid(3, "::ffff:10.9.0.1", "roce-v2"),
    gid(4, "2001:db8::1", "roce-v2"),
]


@pytest.mark.parametrize(
    ("indices", "chosen"),
    [((0, 1, 2, 3, 4), 3), ((4, 3), 3), ((0, 1, 2, 4), 4), ((0, 1, 2), 1)],
)
def test_a_routable_address_of_version_2_is_chosen(indices, chosen):
    found, warnings = choose_gid([TABLE[index] for index in indices])

    assert found.index == chosen
    assert bool(warnings) == (chosen == 1), "a link-local one is used with a warning only"


@pytest.mark.parametrize("indices", [(), (0,), (0, 2)])
def test_a_port_without_version_2_cannot_be_used(indices):
    with pytest.raises(DeviceError, match="no GID of version 2"):
        choose_gid([TABLE[index] for index in indices])


def test_an_index_that_is_asked_for_is_checked():
    assert choose_gid(TABLE, 4)[0].index == 4
    assert "link-local" in choose_gid(TABLE, 1)[1][0]
    with pytest.raises(DeviceError, match="GID index 9: no such entry"):
        choose_gid(TABLE, 9)
    with pytest.raises(DeviceError, match="version 1, which isn't routed"):
        choose_gid(TABLE, 2)


def test_devices_are_found_with_their_limits(fake: Fake):
    first, second = device.discover_devices(fake.path)

    assert (first.name, first.port, first.gid_index, first.address) == ("fakea", 1, 3, "::ffff:10.9.0.1")
    assert (second.name, second.address) == ("fakeb", "::ffff:10.9.0.2")
    assert (first.active_mtu, first.state, first.link_layer) == (4096, "active", "ethernet")
    assert (first.limits.max_sge, first.limits.max_msg_bytes, first.limits.max_mw) == (32, 8 << 20, 1024)
    assert device.unavailable(fake.path) == ""


def test_a_port_that_is_down_is_left_out_with_the_reason(fake: Fake):
    fake.knobs.port_state[0] = 1

    assert [info.name for info in device.discover_devices(fake.path)] == ["fakeb"]
    assert device.unavailable(fake.path) == "fakea port 1 is down"


def test_an_index_for_one_device_leaves_the_other_alone(fake: Fake):
    found = device.discover_devices(fake.path, gids={"fakea": 1, "fakeb:1": 3})

    assert [info.gid_index for info in found] == [1, 3]
    assert "link-local" in found[0].warnings[0]
    assert "no such entry" in device.unavailable(fake.path, gids={"fakea": 7})


def test_without_the_library_there_is_no_device_and_a_reason(tmp_path: Path):
    missing = str(tmp_path / "libibverbs.so.1")

    assert device.discover_devices(missing) == []
    assert "install rdma-core" in device.unavailable(missing)
    with pytest.raises(VerbsUnavailableError):
        library.load_library(missing)


def test_without_the_extension_everything_imports_and_says_so():
    program = """
import sys
sys.modules["hawk_agent.transports.verbs._verbs"] = None
from hawk_agent.transports.verbs import registration
from hawk_agent.transports.verbs import completion, device, posting, queue_pair, windows
print(device.discover_devices(), device.unavailable())
"""
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout

    assert said.startswith("[] the verbs extension isn't built")


def test_a_device_that_changes_is_noticed_before_it_is_used(fake: Fake):
    end = End.make(fake.infos()[0])
    end.device.check()
    fake.set_gid(0, 3, IPv6Address("::ffff:10.9.0.77").packed, 2)
    with pytest.raises(DeviceError, match=r"index 3 is ::ffff:10\.9\.0\.77 now"):
        end.device.check()
    fake.set_gid(0, 3, bytes(16), 2)
    with pytest.raises(DeviceError, match="can't be asked any more"):
        end.device.check()
    fake.knobs.port_state[0] = 1
    with pytest.raises(DeviceError, match=r"can't be asked|the port is down"):
        end.device.check()
    assert end.device.event() is None
    end.close()


def test_a_device_is_not_closed_under_what_was_made_from_it(fake: Fake):
    end = End.make(fake.infos()[0])
    with pytest.raises(ValueError, match="2 of its objects are open"):
        end.device.close()
    with pytest.raises(DeviceError, match="close its queue pairs first"):
        end.completions.close()
    end.close()
    end.close()


def test_a_device_that_is_gone_cannot_be_opened(fake: Fake):
    info = fake.infos()[0]
    object.__setattr__(info, "name", "elsewhere")
    with pytest.raises(DeviceError, match="elsewhere can't be opened"):
        device.open_device(info)


@pytest.mark.parametrize(("nbytes", "code"), [(256, 1), (1024, 3), (1500, 3), (4096, 5), (9000, 5), (0, 1)])
def test_an_mtu_is_the_largest_that_fits(nbytes, code):
    assert device.mtu_code(nbytes) == code


def test_the_fork_status_is_told(fake: Fake):
    assert library.fork_status(fake.path) == "not needed"
