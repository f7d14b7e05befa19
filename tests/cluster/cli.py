"""The command line: build the control plane, start one, stop it, tell about it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from tests.support import cache
from tests.support.errors import MissingToolError
from tests.support.progress import Progress
from tests.support.supervisor import ProcessEndedError, Supervisor

from . import binaries
from .cluster import Cluster
from .control_plane import resident_bytes
from .gobuild import BuildError
from .prometheus import find_prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DETACH_SECONDS = 3600.0
STOP_SECONDS = 60.0

app = typer.Typer(
    help="A Kubernetes control plane on this machine, for tests and the demo.", no_args_is_help=True
)
Name = Annotated[str, typer.Option(help="Which cluster; several may run side by side.")]


@app.command()
def build() -> None:
    """Build and fetch every tool that the cluster tests use; what is cached already stays."""
    progress = Progress()
    with _errors():
        started = time.monotonic()
        programs = binaries.programs(progress)
        binaries.clients(progress)
        find_prometheus(progress)
        progress.say(f"everything is in {programs.etcd.parent} ({time.monotonic() - started:.1f} s)")


@app.command()
def up(
    name: Name = "dev",
    detach: Annotated[bool, typer.Option("--detach", help="Leave it running in the background.")] = False,
) -> None:
    """Start a cluster; it ends with Ctrl-C, or with `down` when it was detached."""
    with _errors():
        if detach:
            _detach(name)
        else:
            _serve(name)


@app.command()
def down(name: Name = "dev") -> None:
    """Stop a cluster, wait until its processes, ports and folder are gone."""
    state = _live(name)
    if not state:
        _fail(f"no cluster {name!r} runs")
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(state["pid"])
        os.kill(state["pid"], signal.SIGTERM)
        if not select.select([handle], [], [], STOP_SECONDS)[0]:
            _fail(f"cluster {name!r}: process {state['pid']} still runs after {STOP_SECONDS:.0f} s")


@app.command()
def kubeconfig(name: Name = "dev") -> None:
    """Print where a cluster's kubeconfig is: export KUBECONFIG=$(python -m tests.cluster kubeconfig)."""
    state = _live(name)
    if not state:
        _fail(f"no cluster {name!r} runs; start one: python -m tests.cluster up --detach --name {name}")
    typer.echo(state["kubeconfig"])


@app.command()
def status() -> None:
    """List the running clusters with their age and memory."""
    table = Table("name", "pid", "up", "memory", "kubeconfig", box=None)
    for path in sorted(_folder().glob("*.json")):
        if state := _live(path.stem):
            memory = sum(map(resident_bytes, state["processes"].values()))
            age = f"{time.time() - state['started']:.0f} s"
            table.add_row(path.stem, str(state["pid"]), age, f"{memory >> 20} MiB", state["kubeconfig"])
    Console(width=None if sys.stdout.isatty() else 200).print(table if table.row_count else "no cluster runs")


def _serve(name: str) -> None:
    progress = Progress()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with _claimed(name), contextlib.suppress(KeyboardInterrupt):
        programs, clients = binaries.programs(progress), binaries.clients(progress)
        with Supervisor() as supervisor, Cluster.started(supervisor, programs, clients, progress) as cluster:
            plane = cluster.plane
            assert plane is not None
            supervisor.remove_at_end(_state(name))
            _state(name).write_text(
                json.dumps(
                    {
                        "pid": os.getpid(),
                        "started": time.time(),
                        "kubeconfig": str(cluster.kubeconfig),
                        "processes": {part: process.pid for part, process in plane.processes.items()},
                    }
                )
            )
            progress.say(", ".join(f"{part} {seconds:.1f} s" for part, seconds in plane.timings.items()))
            progress.say(f"export KUBECONFIG={cluster.kubeconfig}")
            progress.say("Ctrl-C stops it")
            while True:
                for process in plane.processes.values():
                    process.check()
                time.sleep(1)


def _detach(name: str) -> None:
    if _live(name):
        _fail(
            f"cluster {name!r} runs already; stop it: python -m tests.cluster down --name {shlex.quote(name)}"
        )
    # Built here, where the progress can be seen.
    binaries.programs(Progress())
    binaries.clients(Progress())
    log = _folder() / f"{name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster", "up", "--name", name],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + DETACH_SECONDS
    while not (state := _live(name)):
        if process.poll() is not None:
            _fail(f"cluster {name!r} did not start:\n{log.read_text()}")
        if time.monotonic() > deadline:
            process.terminate()
            _fail(f"cluster {name!r} is not ready after {DETACH_SECONDS:.0f} s; see {log}")
        time.sleep(0.1)
    typer.echo(f"export KUBECONFIG={state['kubeconfig']}")


def _folder() -> Path:
    folder = cache.root() / "clusters"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _state(name: str) -> Path:
    if not name.replace("-", "").replace("_", "").isalnum():
        _fail(f"--name {name!r}: letters, digits, - and _ only")
    return _folder() / f"{name}.json"


@contextlib.contextmanager
def _claimed(name: str) -> Iterator[None]:
    """Hold the cluster's name; the lock, not the state file, is what says that it runs."""
    path = _state(name).with_suffix(".lock")
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _fail(f"cluster {name!r} runs already; stop it or choose another --name")
        yield


def _live(name: str) -> dict[str, Any] | None:
    """Return the state of a running cluster; remove what a killed one left."""
    path = _state(name)
    try:
        state: dict[str, Any] = json.loads(path.read_text())
        with path.with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
    except BlockingIOError:
        return state
    except (FileNotFoundError, ValueError):
        pass
    return None


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (MissingToolError, BuildError, ProcessEndedError, TimeoutError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _fail("interrupted; a build that was cut short goes on where it stopped", code=130)


def _fail(message: str, code: int = 1) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)
