"""Run tests that need RDMA, on any machine.

    make test-rdma                                             the whole suite, one boot
    make test-rdma ARGS="tests/rdma/test_rig.py -k active"     one file, one test: pytest's own arguments
    python -m tests.rdma run -- ibv_devinfo -d rxa             any command, from the checkout's root
    python -m tests.rdma build                                 fetch and unpack what the guest is made of

Everything runs in a guest whose kernel has SoftRoCE (rdma_rxe), emulated where no hardware helps: some 20
times slower than here, so keep data small. The guest has the checkout as it is now, the project's virtual
environment, gcc and the like from /usr, libibverbs with its headers, pyverbs, and two RDMA devices:

    rxa  10.9.0.1      rxb  10.9.0.2      on a veth pair of MTU 9000 (active_mtu 4096), max_sge 32

Tests find them by the fixtures of tests/rdma/conftest.py. The command's output comes live, its status is
ours: 124 when time was up, 125 when the guest died, whose console is then shown. junit.xml and, with --cov,
the coverage data are put into out/rdma.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tests.cluster.errors import MissingToolError
from tests.cluster.progress import Progress

from . import guest
from .kernel import kernel
from .tools import tools

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "out" / "rdma"
PASSED_ON = ("CI", "HAWK_", "HYPOTHESIS_", "PYTEST_ADDOPTS")
WORDS = {"ignore_unknown_options": True, "allow_interspersed_args": False}

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
Timeout = Annotated[float, typer.Option(help="Seconds, boot included, after which all is ended.")]
Accelerator = Annotated[str, typer.Option(envvar="HAWK_RDMA_ACCELERATOR", help="QEMU's -accel.")]
Arguments = Annotated[list[str] | None, typer.Argument()]


@app.command()
def build() -> None:
    """Fetch and unpack what the guest is made of; what is cached already stays."""
    _machine("tcg,thread=multi")


@app.command("test", context_settings=WORDS)
def suite(
    arguments: Arguments = None, timeout: Timeout = 900.0, accelerator: Accelerator = "tcg,thread=multi"
) -> None:
    """Run pytest with ARGUMENTS (tests/rdma when they name no path)."""
    words = arguments or []
    if not any(Path(word.partition("::")[0]).exists() for word in words):
        words = ["tests/rdma", *words]
    pytest = [sys.executable, "-m", "pytest", "--junit-xml=/results/junit.xml", "-p", "no:cacheprovider"]
    _run([*pytest, *words], timeout, accelerator)


@app.command("run", context_settings=WORDS)
def any_command(
    command: Arguments = None, timeout: Timeout = 900.0, accelerator: Accelerator = "tcg,thread=multi"
) -> None:
    """Run any COMMAND where the devices are."""
    if not command:
        raise typer.BadParameter("give a command: python -m tests.rdma run -- ibv_devinfo")
    _run(command, timeout, accelerator)


def _machine(accelerator: str) -> guest.Machine:
    progress = Progress()
    try:
        return guest.Machine(kernel(progress), tools(progress), accelerator)
    except (MissingToolError, OSError, TimeoutError) as error:
        _fail(str(error), 1)


def _run(command: list[str], timeout: float, accelerator: str) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    machine, began = _machine(accelerator), time.monotonic()
    try:
        ended = guest.run(
            machine,
            command,
            checkout=ROOT,
            environment=environment(),
            timeout=timeout,
            results=RESULTS,
            output=sys.stdout.buffer,
        )
    except KeyboardInterrupt:
        _fail("interrupted; the guest has been ended", 130)
    if ended.trouble:
        _fail(ended.trouble, ended.status)
    Progress().say(f"the guest ended with {ended.status} after {time.monotonic() - began:.0f} s")
    raise typer.Exit(ended.status)


def environment() -> dict[str, str]:
    """The command's environment: ours where it is about the tests, else the guest's own."""
    ours = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    return {
        **ours,
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/usr/sbin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "COVERAGE_FILE": "/results/.coverage",
        "HAWK_RDMA_DEVICES": "rxa=10.9.0.1,rxb=10.9.0.2",
    }


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


if __name__ == "__main__":
    app(prog_name="python -m tests.rdma")
