"""Start child processes that never outlive the process that asked for them.

    with Supervisor() as processes:
        agent = processes.spawn(["hawk-agent", "--node", "a"], name="agent-a")
        ...
        agent.stop()

The children belong to a process of their own (warden.py), which kills them and removes the run folder when
this process closes the supervisor, ends, or is killed. The terminal's Ctrl-C doesn't reach the children; it
reaches this process, whose `with` block then ends them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from . import warden

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ANSWER_SECONDS = 30.0
POLL_SECONDS = 0.02


class ProcessEndedError(RuntimeError):
    """A child ended when it should be running; the message holds its exit code and the end of its log."""


class Process:
    """A child; its output goes to `log`. Stays valid after the child has ended."""

    def __init__(self, owner: Supervisor, pid: int, name: str, log: Path) -> None:
        self.pid = pid
        self.name = name
        self.log = log
        self._owner = owner

    def poll(self) -> int | None:
        """Return the exit code (negative: the signal that ended it), or None while it runs."""
        code: int | None = self._owner.ask("poll", pid=self.pid)["code"]
        return code

    def wait(self, timeout: float) -> int:
        """Return the exit code; raises TimeoutError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} (pid {self.pid}) still runs after {timeout:g} s")
            time.sleep(POLL_SECONDS)
        return code

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens when the child has ended."""
        self._owner.ask("signal", pid=self.pid, number=int(number))

    def kill(self) -> int:
        """End the child with SIGKILL and return its exit code."""
        self.signal(signal.SIGKILL)
        return self.wait(ANSWER_SECONDS)

    def stop(self, grace: float = 10.0) -> int:
        """End the child with SIGTERM, after `grace` seconds with SIGKILL; return its exit code."""
        self.signal(signal.SIGTERM)
        try:
            return self.wait(grace)
        except TimeoutError:
            return self.kill()

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of the log."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""

    def check(self) -> None:
        """Raise ProcessEndedError when the child has ended."""
        code = self.poll()
        if code is not None:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            raise ProcessEndedError(f"{self.name} {how}; the last lines of {self.log}:\n{self.tail()}")


def run(
    command: Sequence[str | Path],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> tuple[int, str]:
    """Run a program to its end under a supervisor of its own; return its exit code and the end of its output.

    Unlike `subprocess.run` it leaves nothing running when this process is killed. Raises TimeoutError.
    """
    with Supervisor() as supervisor:
        process = supervisor.spawn(command, env=env, cwd=cwd)
        return process.wait(timeout), process.tail()


class Supervisor:
    """Children and a run folder that are gone when this is closed or this process has ended.

    Safe to use from several threads.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(ANSWER_SECONDS)
        self._link = ours
        self._lock = threading.Lock()
        self._names: dict[str, int] = {}
        self._count = 0
        with theirs:
            self._warden = subprocess.Popen(
                [sys.executable, "-I", "-S", warden.__file__, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        self.folder = Path(self.ask("hello")["folder"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The warden's process id."""
        return self._warden.pid

    def spawn(
        self,
        command: Sequence[str | Path],
        *,
        name: str | None = None,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Process:
        """Start `command`; `env` is added to this process's environment.

        `log` defaults to NAME.log in the run folder (or NAME-2.log and so on), `cwd` to the run
        folder. Raises OSError when the program can't be executed.
        """
        words = [str(word) for word in command]
        name = name or Path(words[0]).name
        log = log or self.folder / f"{self._unique(re.sub('[^A-Za-z0-9.-]', '-', name))}.log"
        answer = self.ask(
            "spawn",
            command=words,
            env={**os.environ, **(env or {})},
            cwd=str(cwd or self.folder),
            log=str(log.absolute()),
        )
        return Process(self, answer["pid"], name, log)

    def remove_at_end(self, path: Path) -> None:
        """Have one more file or folder removed at the end."""
        self.ask("remove", path=str(path.absolute()))

    def close(self) -> None:
        """Kill all children, remove the run folder, return when that is done. Idempotent."""
        with self._lock:
            if self._link.fileno() < 0:
                return
            with contextlib.suppress(OSError):  # raised when the warden is gone, and its children with it
                self._link.send(json.dumps({"do": "close"}).encode())
            try:
                self._warden.wait(warden.CLEANUP_SECONDS + ANSWER_SECONDS)
            finally:
                self._link.close()

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Send one request to the warden and return its answer; raises OSError with the warden's words."""
        with self._lock:
            self._count += 1
            self._link.send(json.dumps({"do": what, "id": self._count, **arguments}).encode())
            answer: dict[str, Any] = {}
            # A call that Ctrl-C or a time-out cut short leaves its answer behind.
            while answer.get("id") != self._count:
                received = self._link.recv(warden.LARGEST_MESSAGE)
                if not received:
                    raise ConnectionError(
                        f"process {self._warden.pid} has ended, and all its children with it"
                    )
                answer = json.loads(received)
        if "error" in answer:
            raise OSError(answer["error"])
        return answer

    def _unique(self, name: str) -> str:
        with self._lock:
            self._names[name] = self._names.get(name, 0) + 1
            return name if self._names[name] == 1 else f"{name}-{self._names[name]}"
