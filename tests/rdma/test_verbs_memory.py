"""Every kind of memory that an engine may bring is registered, written by the card, and compared."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import subprocess
import sys
from multiprocessing import shared_memory
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.memory.mapping import F_ADD_SEALS, F_SEAL_SHRINK
from hawk_agent.transports.verbs import device, library, registration
from hawk_agent.transports.verbs.completion import finish_posting
from hawk_agent.transports.verbs.errors import MemoryRegistrationError
from hawk_agent.transports.verbs.posting import LocalMemory, Posting, RemoteMemory
from hawk_agent.transports.verbs.registration import register_memory
from tests.unit.verbs.ends import Pair

from .test_verbs_transfer import PATIENT, infos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .conftest import Port

MIB = 1 << 20
HUGE = 2 * MIB


@pytest.fixture(scope="module")
def ends(rxa: Port, rxb: Port) -> Iterator[Pair]:
    made = Pair.make(infos(rxa, rxb), timeouts=PATIENT)
    yield made
    made.close()


def memfd(flags: int = 0, nbytes: int = MIB) -> int:
    descriptor = os.memfd_create("hawk-test", flags | os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, nbytes)
    return descriptor


@contextlib.contextmanager
def mapped(descriptor: int, nbytes: int = MIB) -> Iterator[mmap.mmap]:
    with mmap.mmap(descriptor, nbytes) as memory:
        os.close(descriptor)
        yield memory


@contextlib.contextmanager
def shared() -> Iterator[memoryview]:
    memory = shared_memory.SharedMemory(create=True, size=MIB)
    try:
        yield memory.buf
    finally:
        memory.close()
        memory.unlink()


@contextlib.contextmanager
def huge() -> Iterator[mmap.mmap]:
    """A huge page, reserved for the while where none is; kernels may refuse to register a part of one."""
    pool = Path("/proc/sys/vm/nr_hugepages")
    before = int(pool.read_text())
    with contextlib.suppress(OSError):
        pool.write_text(str(before + 2))
    try:
        descriptor = memfd(os.MFD_HUGETLB, HUGE)
        try:
            memory = mmap.mmap(descriptor, HUGE)
        except OSError as error:
            pytest.skip(f"this machine has no huge page to spare ({error})")
        finally:
            os.close(descriptor)
        with memory:
            yield memory
    finally:
        with contextlib.suppress(OSError):
            pool.write_text(str(before))


@contextlib.contextmanager
def sealed() -> Iterator[mmap.mmap]:
    descriptor = memfd()
    fcntl.fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK)
    with mapped(descriptor) as memory:
        yield memory


KINDS: dict[str, Callable[[], contextlib.AbstractContextManager[object]]] = {
    "anonymous": lambda: mmap.mmap(-1, MIB),
    "memfd": lambda: mapped(memfd()),
    "sealed memfd": sealed,
    "shared memory": shared,
}


def write(ends: Pair, there: registration.RegisteredMemory, nbytes: int) -> np.ndarray:
    """Write random bytes to registered memory; returns them."""
    line = Layout.parse("d", {"d": nbytes}, "int8")
    data = np.random.default_rng(nbytes).integers(0, 256, nbytes, dtype=np.uint8)
    with ends.a.register(data, registration.GATHERED) as here:
        local, remote = (
            LocalMemory(nbytes, here.local_ranges),
            RemoteMemory(there.nbytes, there.remote_ranges),
        )
        finish_posting(Posting(ends.a.queue, compile_nest(line, line), local, remote), seconds=60)
    return data


WHOLE, PART = (0, MIB), (100, 5001)
CASES = [(kind, *part) for kind in KINDS for part in (WHOLE, PART)]


@pytest.mark.parametrize(("kind", "offset", "nbytes"), [*CASES, ("huge pages", 0, HUGE)])
def test_memory_of_any_kind_is_written(ends: Pair, kind: str, offset: int, nbytes: int):
    with KINDS.get(kind, huge)() as memory:
        view = np.frombuffer(memory, np.uint8)
        before = view.copy()
        at = registration.address_of(memory, nbytes) + offset
        with register_memory(ends.b.device, at, nbytes, registration.DESTINATION) as there:
            assert (there.how, there.why) == ("plain", ())
            data = write(ends, there, nbytes)
        expected = before
        expected[offset : offset + nbytes] = data

        assert np.array_equal(view, expected)
        del view


def test_a_descriptor_that_is_no_dma_buf_falls_back_to_its_pages_with_the_reason(ends: Pair):
    descriptor = memfd()
    with mmap.mmap(descriptor, MIB) as memory:
        with register_memory(
            ends.b.device, memory, MIB, registration.DESTINATION, dmabuf_fd=descriptor
        ) as there:
            assert there.how == "plain"
            assert there.why[0].startswith("dma-buf: ")
            assert "errno" in there.why[0]
            data = write(ends, there, MIB)
        assert memory[:] == data.tobytes()
    os.close(descriptor)


def test_a_region_larger_than_the_device_takes_is_written_across_its_parts(ends: Pair, rxb: Port):
    opened = ends.b.device
    made: list[tuple[int, int]] = []

    def make(*words: int) -> library.native.Memory:
        made.append(words[:2])
        return library.native.Memory(opened.context, *words)

    with mmap.mmap(-1, MIB) as memory:
        at = registration.address_of(memory, MIB)
        ways = [("plain", int(registration.DESTINATION), -1)]
        with registration.register_with(make, at, MIB, limit=200_000, ways=ways) as there:
            assert len(made) == len({key.rkey for key in there.remote_ranges}) == 6
            data = write(ends, there, MIB)
        assert memory[:] == data.tobytes()


def test_memory_that_cannot_be_written_is_registered_for_reading_only(ends: Pair, tmp_path: Path):
    file = tmp_path / "weights"
    file.write_bytes(b"x" * 8192)
    flags, prot = mmap.MAP_PRIVATE, mmap.PROT_READ
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 8192, flags=flags, prot=prot) as memory:
        at = np.frombuffer(memory, np.uint8).ctypes.data
        with register_memory(ends.b.device, at, 8192, registration.PULLED) as made:
            assert made.how == "plain"
        with pytest.raises(MemoryRegistrationError, match=r"plain: .*errno"):
            register_memory(ends.b.device, at, 8192, registration.DESTINATION)


def test_an_address_where_nothing_is_mapped_is_refused(ends: Pair):
    with mmap.mmap(-1, MIB) as memory:
        at = registration.address_of(memory, MIB)
    with pytest.raises(MemoryRegistrationError, match=r"plain: .*errno"):
        register_memory(ends.b.device, at, MIB, registration.DESTINATION)


FORKING = """
import os, sys
import numpy as np
from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.transports.verbs import device, library
from tests.unit.verbs.ends import Pair, transfer
from hawk_agent.transports.verbs.queue_pair import Timeouts

infos = {info.name: info for info in device.discover_devices()}
pair = Pair.make([infos[name] for name in sys.argv[1:3]], timeouts=Timeouts(ack=18))
data, landed = np.arange(1 << 16, dtype=np.uint64).astype(np.uint8), np.zeros(1 << 16, np.uint8)
with pair.b.register(landed):
    child = os.fork()
    if child == 0:
        os._exit(0)
    landed[:] = 1  # would part our page from the device's, were it shared with the child
    os.waitpid(child, 0)
    line = Layout.parse("d", {"d": landed.nbytes}, "int8")
    transfer(pair, compile_nest(line, line), data, landed)
pair.close()
print(library.fork_status(), np.array_equal(data, landed))
"""


def test_a_fork_takes_no_registered_page_away(rxa: Port, rxb: Port):
    command = [sys.executable, "-c", FORKING, rxa.device, rxb.device]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout

    assert said.split()[-1] == "True"
    assert not said.startswith("disabled")


def veth(port: Port) -> str:
    """The interface below a device of ours; skips where it isn't ours to change."""
    below = Path(f"/sys/class/infiniband/{port.device}/ports/1/gid_attrs/ndevs/0").read_text().strip()
    shown = subprocess.run(["ip", "-d", "link", "show", below], capture_output=True, text=True, check=True)
    if "veth" not in shown.stdout:
        pytest.skip(f"{below} is a real link, which a test leaves alone")
    return below


def test_over_frames_of_1500_bytes_every_size_arrives(rxa: Port, rxb: Port):
    """The port says 1024 then, both ends use what it says, and sizes around it arrive whole."""
    interfaces = [veth(rxa), veth(rxb)]
    try:
        for interface in interfaces:
            subprocess.run(["ip", "link", "set", interface, "mtu", "1500"], check=True)
        pair = Pair.make(infos(rxa, rxb), timeouts=PATIENT)
        assert pair.a.device.info.active_mtu == pair.a.queue.mtu == pair.b.queue.mtu == 1024
        for nbytes in (1, 1023, 1024, 1025, 1444, 1445, 2049, 65537):
            landed = np.zeros(nbytes, np.uint8)
            with pair.b.register(landed) as there:
                data = write(pair, there, nbytes)
            assert np.array_equal(landed, data)
        pair.close()
    finally:
        for interface in interfaces:
            subprocess.run(["ip", "link", "set", interface, "mtu", "9000"], check=True)


def test_a_device_told_to_use_another_address_checks_it(rxa: Port):
    usual = infos(rxa)[0]
    listed = device.discover_devices(gids={rxa.device: usual.gid_index})

    assert usual in listed
    assert f"{rxa.device} port 1: GID index 200" in device.unavailable(gids={rxa.device: 200})
