"""Registrations are cut at the device's limit, fall back in order, and say what stood in the way."""

from __future__ import annotations

import errno
import mmap
import os
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.transports.verbs import device, registration
from hawk_agent.transports.verbs.errors import MemoryRegistrationError
from hawk_agent.transports.verbs.library import native
from hawk_agent.transports.verbs.registration import (
    AccessFlags,
    MemlockLimits,
    check_memlock,
    cut_range,
    memlock_reason,
    register_memory,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .fake import Fake

IPC_LOCK = 1 << 14
MIB = 1 << 20


@pytest.fixture
def opened(fake: Fake) -> Iterator[device.RdmaDevice]:
    made = device.open_device(fake.infos()[0])
    yield made
    made.close()


@given(nbytes=st.integers(1, 1 << 40), limit=st.integers(0, 1 << 40))
def test_parts_join_without_gap_within_the_limit(nbytes, limit):
    if limit and nbytes // limit > 300:
        limit = nbytes // 300 + 4096
    parts = cut_range(nbytes, limit)

    assert parts[0][0] == 0
    assert all(a + n == b for (a, n), (b, _) in pairwise(parts))
    assert sum(n for _, n in parts) == nbytes
    assert all(0 < n <= (limit or nbytes) for _, n in parts)
    if limit >= 4096:
        assert all(at % 4096 == 0 for at, _ in parts)


def test_a_pool_over_the_limit_becomes_parts_that_are_all_registered(fake: Fake):
    """5 GiB where the device takes 2: nothing is shortened in silence."""
    fake.knobs.max_mr = 2 << 30
    opened = device.open_device(fake.infos()[0])
    pool = 5 << 30
    with register_memory(opened, 1 << 40, pool, registration.DESTINATION) as made:
        keys = made.remote_ranges
        assert [(key.offset, key.nbytes) for key in keys] == [
            (0, 2 << 30),
            (2 << 30, 2 << 30),
            (4 << 30, 1 << 30),
        ]
        assert fake.seen.registered == sum(key.nbytes for key in keys) == pool
        rng = np.random.default_rng(1)
        for offset in rng.integers(0, pool, 200).tolist():
            (key,) = [key for key in keys if key.offset <= offset < key.offset + key.nbytes]
            assert made.part(offset)[2].rkey == key.rkey
            assert made.part(offset)[2].lkey == made.local_ranges[keys.index(key)].lkey
        with pytest.raises(MemoryRegistrationError, match="outside"):
            made.part(pool)
    assert fake.seen.registered == 0
    opened.close()


def test_a_dma_buf_is_preferred(fake: Fake, opened: device.RdmaDevice):
    with register_memory(opened, 1 << 40, MIB, registration.DESTINATION, dmabuf_fd=0) as made:
        assert (made.how, made.why) == ("dma-buf", ())


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, 524, errno.EINVAL, errno.EFAULT])
def test_a_dma_buf_that_is_not_taken_is_registered_as_memory(
    fake: Fake, opened: device.RdmaDevice, number: int
):
    fake.knobs.dmabuf_errno = number
    with register_memory(opened, 1 << 40, MIB, registration.DESTINATION, dmabuf_fd=0) as made:
        assert made.how == "plain"
        assert f"errno {number}" in made.why[0]
        assert made.why[0].startswith("dma-buf: ")


def test_memory_that_cannot_be_pinned_is_registered_on_demand(fake: Fake):
    fake.knobs.plain_errno = errno.ENOMEM
    opened = device.open_device(fake.infos()[0])
    object.__setattr__(opened.info.limits, "odp", True)
    with register_memory(opened, 1 << 40, MIB, registration.DESTINATION) as made:
        assert made.how == "odp"
        assert made.why[0].startswith("plain: Cannot allocate memory (errno 12)")
    opened.close()


def test_when_nothing_works_every_reason_is_told(fake: Fake):
    fake.knobs.dmabuf_errno, fake.knobs.plain_errno, fake.knobs.odp_errno = 95, errno.ENOMEM, errno.ENOSYS
    opened = device.open_device(fake.infos()[0])
    object.__setattr__(opened.info.limits, "odp", True)
    with pytest.raises(MemoryRegistrationError, match=r"dma-buf: .* 95\).*plain: .* 12\).*odp: .* 38\)"):
        register_memory(opened, 1 << 40, MIB, registration.DESTINATION, dmabuf_fd=0)
    opened.close()


def test_a_part_that_fails_takes_back_those_before_it(fake: Fake):
    fake.knobs.max_mr = MIB
    opened = device.open_device(fake.infos()[0])
    made: list[int] = []

    def make(at: int, size: int, access: int, descriptor: int, offset: int):
        if len(made) == 3:
            raise OSError(errno.ENOMEM, "no")
        made.append(at)
        return native.Memory(opened.context, at, size, access, descriptor, offset)

    with pytest.raises(MemoryRegistrationError, match=f"after {3 * MIB} bytes"):
        registration.register_with(make, 1 << 40, 8 * MIB, limit=MIB, ways=[("plain", 1, -1)])
    assert fake.seen.registered == 0
    opened.close()


def test_access_is_no_more_than_the_role_needs():
    assert registration.GATHERED == AccessFlags.NONE
    assert registration.PULLED == AccessFlags.IBV_ACCESS_REMOTE_READ
    assert (
        registration.DESTINATION == AccessFlags.IBV_ACCESS_LOCAL_WRITE | AccessFlags.IBV_ACCESS_REMOTE_WRITE
    )
    assert registration.STAGING == AccessFlags.IBV_ACCESS_LOCAL_WRITE
    assert not registration.WINDOWED & (
        AccessFlags.IBV_ACCESS_REMOTE_WRITE | AccessFlags.IBV_ACCESS_REMOTE_READ
    )


def test_each_registration_has_a_key_of_its_own(fake: Fake, opened: device.RdmaDevice):
    buffer = np.zeros(4096, np.uint8)
    keys = []
    for _ in range(3):
        with register_memory(opened, buffer, buffer.nbytes, registration.DESTINATION) as made:
            keys.append(made.remote_ranges[0].rkey)
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        (MemlockLimits(8 * MIB, 1000, 0), True),
        (MemlockLimits(8 * MIB, 0, 0), True),
        (MemlockLimits(8 * MIB, 0, IPC_LOCK), False),
        (MemlockLimits(-1, 1000, 0), False),
        (MemlockLimits(64 * MIB, 1000, 0), False),
        (MemlockLimits(64 * MIB, 1000, 0, pinned=60 * MIB), True),
        (MemlockLimits(64 << 10, 1000, 0), True),
    ],
)
def test_a_lock_limit_is_told_before_traffic(limits: MemlockLimits, refused: bool):
    reason = memlock_reason(16 * MIB, limits)

    assert bool(reason) is refused
    if refused:
        assert str(limits.memlock) in reason
        assert f"uid {limits.uid}" in reason
        assert "CAP_IPC_LOCK" in reason
        with pytest.raises(MemoryRegistrationError, match="memlock"):
            check_memlock(16 * MIB, limits)
    else:
        check_memlock(16 * MIB, limits)


def test_this_process_limits_can_be_read():
    found = MemlockLimits.now()

    assert found.uid == os.geteuid()
    assert found.memlock == -1 or found.memlock >= 0


def test_a_buffer_must_hold_what_is_registered(opened: device.RdmaDevice):
    with mmap.mmap(-1, 4096) as memory:
        with pytest.raises(MemoryRegistrationError, match="give all of its memory"):
            register_memory(opened, memory, 8192, registration.STAGING)
        with pytest.raises(MemoryRegistrationError, match="at least one byte"):
            register_memory(opened, memory, 0, registration.STAGING)
    with pytest.raises(MemoryRegistrationError, match="read-only"):
        register_memory(opened, bytes(4096), 4096, registration.STAGING)
