"""Children never outlive their owner, however the owner ends."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import warden
from tests.support.ports import Ports
from tests.support.supervisor import ProcessEndedError, Supervisor
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]

# A child that resists: it ignores SIGTERM and SIGINT, listens, and leaves a grandchild in another session.
STUBBORN = """
import os, signal, socket, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
server = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("grandchild", os.getpid(), server.getsockname()[1], flush=True)
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""
OWNER = f"""
import json, os, signal, sys, time
from tests.support.supervisor import Supervisor
from tests.support.waiting import until
with Supervisor() as processes:
    child = processes.spawn([sys.executable, "-c", {STUBBORN!r}], name="stubborn")
    words = until(lambda: child.tail().split(), what="the grandchild")
    facts = dict(pids=[os.getpid(), processes.pid, child.pid, int(words[1])], port=int(words[2]))
    print(json.dumps({{**facts, "folder": str(processes.folder)}}), flush=True)
    if sys.argv[1] == "fork":  # a forked copy of the owner holds the link open
        if os.fork() == 0:
            os.close(1)
            time.sleep(600)
    if sys.argv[1] == "raise":
        raise SystemExit(3)
    time.sleep(600)
"""


def running(pid: int) -> bool:
    """Tell whether a process lives; one that has ended and waits to be collected doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def free(port: int) -> bool:
    """Tell whether nobody listens on a port; the remains of ended connections don't count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def gone(facts: dict[str, Any]) -> bool:
    ports = facts.get("ports") or [facts["port"]]
    return (
        not any(map(running, facts["pids"])) and all(map(free, ports)) and not Path(facts["folder"]).exists()
    )


@pytest.fixture
def owner(request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A process that owns a stubborn child, and what is known of both."""
    words = [sys.executable, "-c", OWNER, getattr(request, "param", "")]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 60)[0], "the owner said nothing in a minute"
        facts = json.loads(process.stdout.readline())
        assert all(map(running, facts["pids"]))
        assert not free(facts["port"])
        yield process, facts
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_when_a_signal_ends_the_owner(owner: Any, number: int) -> None:
    process, facts = owner
    process.send_signal(number)

    until(lambda: gone(facts), what=f"everything of {facts} gone")


@pytest.mark.parametrize("owner", ["raise"], indirect=True)
def test_nothing_is_left_when_the_owner_ends_with_an_error(owner: Any) -> None:
    process, facts = owner

    assert process.wait(60) == 3
    assert gone(facts)


@pytest.mark.parametrize("owner", ["fork"], indirect=True)
def test_a_forked_copy_of_a_killed_owner_keeps_nothing_alive(owner: Any) -> None:
    process, facts = owner
    copies = until(
        lambda: [pid for pid in warden.children_of(process.pid) if pid != facts["pids"][1]], what="the copy"
    )
    process.kill()
    try:
        until(lambda: gone(facts), what=f"everything of {facts} gone")
        assert all(map(running, copies))
    finally:
        for pid in copies:
            os.kill(pid, signal.SIGKILL)


def test_children_die_with_a_killed_warden_and_the_next_removes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Supervisor() as first, Supervisor() as second:
        child = first.spawn(["sleep", "600"])
        os.kill(first.pid, signal.SIGKILL)
        until(lambda: not running(child.pid), what="the child gone")
        with pytest.raises(OSError, match=r"has ended, and all its children|Broken pipe|Connection reset"):
            child.poll()
        assert first.folder.exists()

        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        warden.sweep()
        assert first.folder.exists(), "a folder this young may be one that is being made"
        monkeypatch.setattr(warden, "NEWBORN_SECONDS", -1.0)
        warden.sweep()

        assert not first.folder.exists()
        assert second.folder.exists(), "its warden lives"


def test_early_death_is_told_with_the_end_of_the_log() -> None:
    with Supervisor() as processes:
        child = processes.spawn(["sh", "-c", "echo first; echo out of cheese >&2; exit 7"], name="mouse")
        until(lambda: child.poll() is not None, what="the end")

        with pytest.raises(ProcessEndedError, match=r"(?s)mouse ended with 7; .*mouse\.log.*out of cheese"):
            child.check()

        child = processes.spawn(["sleep", "600"], name="mouse")
        assert child.log.name == "mouse-2.log"
        child.check()
        assert child.kill() == -signal.SIGKILL
        with pytest.raises(ProcessEndedError, match="SIGKILL"):
            child.check()


def test_a_program_that_cannot_be_executed_is_an_error_at_once() -> None:
    with Supervisor() as processes, pytest.raises(OSError, match=r"no-such-program.*No such file"):
        processes.spawn(["no-such-program"])


def test_stop_asks_first_and_kills_after_the_grace() -> None:
    deaf = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    with Supervisor() as processes:
        polite = processes.spawn(["sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done"])
        stubborn = processes.spawn(["sh", "-c", deaf])
        for child in (polite, stubborn):
            until(lambda child=child: "ready" in child.tail(), what="its trap")  # type: ignore[misc]

        assert polite.stop() == 5
        with pytest.raises(TimeoutError, match="still runs after 0"):
            stubborn.wait(0)
        assert stubborn.stop(grace=0.2) == -signal.SIGKILL
        stubborn.signal(signal.SIGTERM)  # to a process that has ended: nothing


def test_environment_is_added_to_and_the_run_folder_is_home(tmp_path: Path) -> None:
    with Supervisor() as processes:
        child = processes.spawn(["sh", "-c", 'echo "$EXTRA $PWD"; echo "$PATH"'], env={"EXTRA": "thing"})
        assert child.wait(30) == 0
        assert child.tail().splitlines() == [f"thing {processes.folder}", os.environ["PATH"]]
        left = tmp_path / "left"
        left.write_text("")
        processes.remove_at_end(left)

    assert not left.exists()
    assert not processes.folder.exists()


def test_reserved_ports_are_distinct_and_can_be_listened_on() -> None:
    with Ports() as ports:
        numbers = [ports.reserve() for _ in range(500)]
        assert len(set(numbers)) == len(numbers)
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.bind(("127.0.0.1", numbers[0]))
        with socket.create_server(("127.0.0.1", numbers[0])) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()


def test_waiting_ends_with_what_it_saw_last() -> None:
    looks = iter(range(100))

    assert until(lambda: next(looks) >= 3, what="three", interval=0) is True
    with pytest.raises(TimeoutError, match="never: not so within 0 s; last seen: 0"):
        until(lambda: 0, what="never", timeout=0)

    def raises() -> bool:
        raise ConnectionRefusedError(f"at {time.monotonic()}")

    with pytest.raises(TimeoutError, match="ConnectionRefusedError"):
        until(raises, what="an answer", timeout=0, ignore=(OSError,))
    with pytest.raises(ConnectionRefusedError):
        until(raises, what="an answer", timeout=0)
