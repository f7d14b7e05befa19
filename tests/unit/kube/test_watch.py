"""Watches: an end on both sides, and every end told from a failure."""

from __future__ import annotations

import asyncio
import gc
import json
import threading

import pytest

from hawk_kube import client
from hawk_kube.errors import UnavailableError
from hawk_kube.kinds import HAWK_NODE
from hawk_kube.threads import AsyncClient


def event(kind, **body):
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def watch(server, seconds=1):
    return server.client().watch(HAWK_NODE, version="7", seconds=seconds, fields={"metadata.name": "n"})


def test_events_come_whole_however_they_are_cut(serving):
    lines = event("ADDED", name="ä") + b"\n" + event("MODIFIED", name="b") + event("DELETED", name="c")

    def answer(call):
        call.begin()
        for at in range(0, len(lines), 7):
            call.chunk(lines[at : at + 7])
        call.chunk(b"")

    with serving(answer) as server:
        seen = list(watch(server))
        assert server.seen[0].path == (
            "/apis/hawkpool.dev/v1alpha1/hawknodes?watch=true&resourceVersion=7&timeoutSeconds=1"
            "&fieldSelector=metadata.name%3Dn"
        )
    assert seen == [("ADDED", {"name": "ä"}), ("MODIFIED", {"name": "b"}), ("DELETED", {"name": "c"})]


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        (event("ERROR", code=410, reason="Expired", message="too old"), 410, "watch hawknodes: too old"),
        (event("ERROR"), 500, "HTTP 500"),
        (b"<html>\n", 0, "no event"),
        (b"[1]\n", 0, "no event"),
    ],
)
def test_an_error_among_the_events_is_raised(line, status, words, serving):
    def answer(call):
        call.begin()
        call.chunk(event("ADDED", name="a") + line)
        call.chunk(b"")

    with serving(answer) as server:
        events = watch(server)
        assert next(events) == ("ADDED", {"name": "a"})
        with pytest.raises(UnavailableError, match=words) as caught:
            next(events)
    assert caught.value.status == status


def test_a_watch_that_breaks_off_is_a_failure(serving):
    def answer(call):
        call.begin()
        call.chunk(event("ADDED"))
        call.close_connection = True

    with serving(answer) as server, pytest.raises(UnavailableError, match="watch hawknodes: "):
        list(watch(server))


@pytest.mark.parametrize("talks", [False, True])
def test_a_server_that_does_not_end_it_is_a_failure(talks, serving, monkeypatch):
    monkeypatch.setattr(client, "CALL_SECONDS", 0.1)
    over = threading.Event()

    def answer(call):
        call.begin()
        while not over.wait(0.02):
            if talks:
                call.chunk(event("MODIFIED"))

    with serving(answer) as server:
        with pytest.raises(UnavailableError, match="watch hawknodes: "):
            list(watch(server, seconds=0))
        over.set()


def mute(over):
    def answer(call):
        call.begin()
        call.chunk(event("ADDED", name="a"))
        over.wait(30)

    return answer


def test_another_thread_may_close_it(serving):
    over = threading.Event()
    with serving(mute(over)) as server:
        events = watch(server, seconds=60)
        assert next(events)[0] == "ADDED"
        closing = threading.Timer(0.1, events.close)
        closing.start()
        assert list(events) == []
        events.close()
        closing.join()
        over.set()


async def test_a_loop_that_is_cancelled_closes_it(serving):
    over, began = threading.Event(), asyncio.Event()
    with serving(mute(over)) as server:
        kube = AsyncClient(server.client(), threads=1)

        async def follow():
            begin = kube.client.watch
            async for _ in kube.watch(lambda: begin(HAWK_NODE, version="7", seconds=60)):
                began.set()

        task = asyncio.create_task(follow())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        over.set()  # the one thread is free again: another call has its turn
        server.answer = lambda call: call.reply(200, {"a": 1})
        assert await asyncio.wait_for(kube.call(kube.client.get, HAWK_NODE, "n"), 10) == {"a": 1}
        await kube.close()


@pytest.mark.parametrize("events", [0, 1])
def test_one_that_nobody_reads_is_closed_at_once(events, serving):
    """The server sees the end of the connection, without waiting for the garbage collector."""
    ended = threading.Event()

    def answer(call):
        call.begin()
        call.chunk(event("ADDED", name="a"))
        if call.rfile.read(1) == b"":
            ended.set()

    gc.disable()
    try:
        with serving(answer) as server:
            opened = watch(server, seconds=60)
            for _ in range(events):
                next(opened)
            opened.close()
            assert ended.wait(10)
            assert list(opened) == []
    finally:
        gc.enable()


async def test_a_wait_that_is_cancelled_before_its_thread_began_closes_it(serving):
    ended, busy = threading.Event(), threading.Event()

    def answer(call):
        call.begin()
        call.chunk(event("ADDED", name="a"))
        if call.rfile.read(1) == b"":
            ended.set()

    gc.disable()
    try:
        with serving(answer) as server:
            kube = AsyncClient(server.client(), threads=1)
            begin = kube.client.watch
            events = kube.watch(lambda: begin(HAWK_NODE, version="7", seconds=60))
            await anext(events)
            taken = asyncio.create_task(kube.call(busy.wait, 30))
            following = asyncio.create_task(anext(events))
            await asyncio.sleep(0)  # both are handed to the one thread, in this order
            await asyncio.sleep(0)
            following.cancel()
            with pytest.raises(asyncio.CancelledError):
                await following
            assert await asyncio.to_thread(ended.wait, 10)
            busy.set()
            await taken
            await kube.close()
    finally:
        gc.enable()
