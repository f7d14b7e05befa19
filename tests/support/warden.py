"""The process that owns every child process of a test session or a demo, and outlives neither.

Run as `python -I -S warden.py SOCKET_FD OWNER_PID`; supervisor.py is its client. It speaks JSON, one message
a packet. When the owner closes the socket, dies (also by SIGKILL), or says "close", the warden kills all
children and all their descendants with SIGKILL, removes the run folder, and ends. It imports the
standard library only, so that nothing but its own death can keep it from cleaning up; and if it is itself
killed, the kernel kills its children (PR_SET_PDEATHSIG) and the next warden removes the folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "hawkpool-run-"
LARGEST_MESSAGE = 1 << 20
CLEANUP_SECONDS = 20.0
NEWBORN_SECONDS = 60.0
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

libc = ctypes.CDLL(None, use_errno=True)


class Warden:
    """Children, their exit codes and what has to be removed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.codes: dict[int, int | None] = {}
        self.remove: list[Path] = [folder]

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request of the owner."""
        handlers: dict[str, Callable[..., dict[str, Any]]] = {
            "hello": self.hello,
            "spawn": self.spawn,
            "poll": self.poll,
            "signal": self.signal,
            "remove": self.remove_at_end,
        }
        number = request.pop("id")
        try:
            return {"id": number, **handlers[request.pop("do")](**request)}
        except (OSError, KeyError, TypeError, ValueError) as error:
            return {"id": number, "error": f"{type(error).__name__}: {error}"}

    def hello(self) -> dict[str, Any]:
        """Tell the run folder."""
        return {"folder": str(self.folder)}

    def spawn(self, command: list[str], env: dict[str, str], cwd: str, log: str) -> dict[str, Any]:
        """Start a child in its own session, its output appended to `log`."""
        pid = launch(command, env, cwd, log)
        self.codes[pid] = None
        return {"pid": pid}

    def poll(self, pid: int) -> dict[str, Any]:
        """Return the child's exit code (negative: the signal that ended it), or none while it runs."""
        self.reap()
        return {"code": self.codes[pid]}

    def signal(self, pid: int, number: int) -> dict[str, Any]:
        """Signal a child unless it has ended (its id may then be another process's)."""
        self.reap()
        if self.codes[pid] is None:
            os.kill(pid, number)
        return {}

    def remove_at_end(self, path: str) -> dict[str, Any]:
        """Remove one more file or folder at the end."""
        self.remove.append(Path(path))
        return {}

    def reap(self) -> None:
        """Collect what has ended, orphaned grandchildren included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self.codes:
                self.codes[pid] = os.waitstatus_to_exitcode(status)

    def clean_up(self) -> None:
        """Kill every descendant and remove the folders.

        A killed child's own children become ours (we are their subreaper), so killing our children until none
        is left reaches all of them, whatever sessions they made for themselves.
        """
        deadline = time.monotonic() + CLEANUP_SECONDS
        while time.monotonic() < deadline:
            self.reap()
            children = children_of(os.getpid())
            if not children:
                break
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        for path in self.remove:
            discard(path)


def launch(command: list[str], env: dict[str, str], cwd: str, log: str) -> int:
    """Fork and execute; raises OSError when the program can't be executed."""
    warden = os.getpid()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != warden:
                os._exit(1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(cwd)
            os.execvpe(command[0], command, env)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the parent must hear of it
            os.write(write, str(error).encode())
        finally:
            os._exit(127)
    os.close(write)
    with os.fdopen(read) as failed:
        message = failed.read()
    if message:
        os.waitpid(pid, 0)
        raise OSError(f"{command[0]}: {message}")
    return pid


def children_of(parent: int) -> list[int]:
    """Return the ids of the processes whose parent is `parent`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # "pid (command, which may hold anything) state ppid ..."
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == parent:
                    found.append(int(entry.name))
    return found


def discard(path: Path) -> None:
    """Remove a file or a folder, whatever state it is in."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def own_folder() -> tuple[Path, int]:
    """Make the run folder and lock it; the lock's release tells others that its warden is gone."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return folder, handle


def sweep() -> None:
    """Remove the run folders of wardens that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.stat()
            if status.st_uid != os.getuid() or time.time() - status.st_ctime < NEWBORN_SECONDS:
                continue
            handle = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def serve(link: socket.socket, owner: int, warden: Warden) -> None:
    """Answer the owner until it is gone."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    with selectors.DefaultSelector() as selector:
        selector.register(link, selectors.EVENT_READ)
        selector.register(os.pidfd_open(owner), selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if link not in ready:
                return
            try:
                packet = link.recv(LARGEST_MESSAGE)
                request = json.loads(packet) if packet else {"do": "close"}
                if request["do"] == "close":
                    return
                link.send(json.dumps(warden.answer(request)).encode())
            except OSError:
                return


def main() -> None:
    """Serve, then clean up, whatever ended the serving."""
    descriptor, owner = map(int, sys.argv[1:])
    link = socket.socket(fileno=descriptor)
    link.set_inheritable(False)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    sweep()
    folder, _lock = own_folder()
    warden = Warden(folder)
    try:
        serve(link, owner, warden)
    except ProcessLookupError:
        pass  # the owner died before we could watch it
    finally:
        warden.clean_up()
        with contextlib.suppress(OSError):
            link.send(b"{}")


if __name__ == "__main__":
    main()
