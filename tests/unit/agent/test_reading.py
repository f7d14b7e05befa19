"""A stream is read in large parts, and whole however it was cut; only silence is a stall."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.errors import TransportError
from hawk_agent.net import reading
from hawk_agent.net.reading import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

cuts = st.lists(st.integers(1, 400_000), min_size=1, max_size=6)


@contextmanager
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A sender and a receiver, over the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()
    with sender, receiver:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sender, receiver


def never() -> bool:
    return False


@given(sent=cuts, wanted=cuts)
def test_what_is_sent_is_read_however_both_sides_cut_it(sent: list[int], wanted: list[int]) -> None:
    """Also a last part that is smaller than the mark, after which nothing more comes."""
    total = min(sum(sent), sum(wanted))
    data = bytes(range(251)) * (total // 251 + 1)
    targets = []

    with connection() as (sender, receiver):

        def send() -> None:
            start = 0
            for size in sent:
                sender.sendall(data[start : min(start + size, total)])
                start += size

        thread = threading.Thread(target=send)
        thread.start()
        reader = Reader(receiver, never)
        for size in wanted:
            targets.append(bytearray(min(size, total - sum(map(len, targets)))))
            reader.fill(memoryview(targets[-1]))
        thread.join()

    assert b"".join(targets) == data[:total]


def test_a_read_brings_as_much_as_the_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LOW_WATER", 16 << 10)
    monkeypatch.setattr(reading, "GATHER_SECONDS", 5.0)
    reads = []

    with connection() as (sender, receiver):
        reader = Reader(receiver, lambda: bool(reads.append(1)))
        thread = threading.Thread(target=lambda: [sender.sendall(bytes(1 << 10)) for _ in range(64)])
        thread.start()
        reader.fill(memoryview(bytearray(64 << 10)))
        thread.join()

    assert len(reads) <= 4


def test_a_trickle_below_the_mark_is_taken_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender sends the rest only when the little that it sent has been read."""
    monkeypatch.setattr(reading, "GATHER_SECONDS", 0.01)
    parts = [bytes([1]) * 10, bytes([2]) * 20, bytes([3]) * (1 << 19)]
    target = bytearray(sum(map(len, parts)))

    with connection() as (sender, receiver):
        threads = []

        def read_again() -> bool:
            if parts:
                threads.append(threading.Thread(target=sender.sendall, args=(parts.pop(0),)))
                threads[-1].start()
            return False

        Reader(receiver, read_again).fill(memoryview(target))
        for thread in threads:
            thread.join()

    assert bytes(target) == b"\x01" * 10 + b"\x02" * 20 + b"\x03" * (1 << 19)


def test_silence_is_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(reading, "STALL_SECONDS", 0.05)

    with connection() as (sender, receiver):
        sender.sendall(b"some")
        with pytest.raises(TimeoutError):
            Reader(receiver, never).fill(memoryview(bytearray(8)))


def test_a_reader_that_was_stopped_reads_no_more() -> None:
    with connection() as (sender, receiver):
        sender.sendall(b"12345678")
        with pytest.raises(TransportError, match="the transfer was stopped"):
            Reader(receiver, lambda: True).fill(memoryview(bytearray(8)))

        assert receiver.recv(8) == b"12345678"


def test_an_end_before_the_last_byte_is_said() -> None:
    with connection() as (sender, receiver):
        sender.sendall(b"some")
        sender.close()
        with pytest.raises(TransportError, match="closed the connection before the last byte"):
            Reader(receiver, never).fill(memoryview(bytearray(8)))
