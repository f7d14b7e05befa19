"""Run tests that need RDMA, on any machine.

    make test-rdma                                             the whole suite, one boot
    make test-rdma ARGS="tests/rdma/test_rig.py -k active"     one file, one test: pytest's own arguments
    make demo-rdma                                             the demo's transfer and kill steps over verbs
    python -m tests.rdma run -- ibv_devinfo -d rxa             any command, from the checkout's root
    python -m tests.rdma build                                 fetch and unpack what the guest is made of

On a machine with active RoCE devices, or where root can load rdma_rxe, it runs right there. Anywhere else it
runs in a guest whose kernel has SoftRoCE, emulated unless HAWK_RDMA_ACCELERATOR=kvm works: 20 times slower
than here and more, so keep data small. The guest has the checkout as it is now, the project's virtual
environment, gcc and the like from /usr, libibverbs with its headers, pyverbs, and two RDMA devices:

    rxa  10.9.0.1      rxb  10.9.0.2      on a veth pair of MTU 9000 (active_mtu 4096), max_sge 32

Tests find them by the fixtures of tests/rdma/conftest.py. The command's output comes live, its status is
ours: 124 when time was up, 125 when the guest died, whose console is then shown. junit.xml and, with --cov,
the coverage data are put into out/rdma.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tests.support.errors import MissingToolError
from tests.support.progress import Progress
from tests.support.supervisor import ProcessEndedError

from . import guest, here
from .image import environment_image
from .kernel import kernel
from .tools import tools

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "out" / "rdma"
PYTEST = [sys.executable, "-m", "pytest", f"--junit-xml={RESULTS}/junit.xml", "-pno:cacheprovider"]
PASSED_ON = ("CI", "HAWK_", "HYPOTHESIS_", "PYTEST_ADDOPTS")
WORDS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


class Where(StrEnum):
    """Where to run: auto is here where there are RDMA devices or the rxe module, else in the guest."""

    AUTO = "auto"
    HERE = "here"
    GUEST = "guest"


# \b keeps the next paragraph's lines as they are.
HELP = (__doc__ or "").replace("\n\n    ", "\n\n\b\n    ")
app = typer.Typer(help=HELP, no_args_is_help=True, add_completion=False, rich_markup_mode=None)
Timeout = Annotated[float, typer.Option(help="Seconds, boot included, after which all is ended.")]
At = Annotated[Where, typer.Option(envvar="HAWK_RDMA_WHERE", help="Here, in the guest, or the best (auto).")]
Accelerator = Annotated[str, typer.Option(envvar="HAWK_RDMA_ACCELERATOR", help="QEMU's: tcg, or kvm.")]
Arguments = Annotated[list[str] | None, typer.Argument()]
TIMEOUT, EMULATION = 1800.0, "tcg,thread=multi"


@app.command()
def build() -> None:
    """Fetch and unpack what the guest is made of; what is cached already stays."""
    with _errors():
        _machine(EMULATION)


@app.command("test", context_settings=WORDS)
def suite(
    arguments: Arguments = None,
    timeout: Timeout = TIMEOUT,
    where: At = Where.AUTO,
    accelerator: Accelerator = EMULATION,
) -> None:
    """Run pytest with ARGUMENTS (tests/rdma when they name no path)."""
    words = arguments or []
    if not any(Path(word.partition("::")[0]).exists() for word in words):
        words = ["tests/rdma", *words]
    _run([*PYTEST, *plugins(words), *words], timeout, where, accelerator)


@app.command(context_settings=WORDS)
def demo(
    arguments: Arguments = None,
    timeout: Timeout = TIMEOUT,
    where: At = Where.AUTO,
    accelerator: Accelerator = EMULATION,
) -> None:
    """Run the demo's transfer and kill steps over verbs; ARGUMENTS are the demo's (tests/rdma/demo)."""
    _run([sys.executable, "-m", "tests.rdma.demo", *(arguments or [])], timeout, where, accelerator)


@app.command("run", context_settings=WORDS)
def any_command(
    command: Arguments = None,
    timeout: Timeout = TIMEOUT,
    where: At = Where.AUTO,
    accelerator: Accelerator = EMULATION,
) -> None:
    """Run any COMMAND where the devices are."""
    if not command:
        raise typer.BadParameter("give a command: python -m tests.rdma run -- ibv_devinfo")
    _run(command, timeout, where, accelerator)


def plugins(words: list[str]) -> list[str]:
    """The plugins for these arguments: loading all that are installed takes an emulated guest a minute."""
    found = [f"-p{name}" for name in ("pytest_asyncio.plugin", "pytest_timeout", "_hypothesis_pytestplugin")]
    if any(word.startswith("--cov") for word in words):
        found.append("-ppytest_cov.plugin")
    return found


def _machine(accelerator: str) -> guest.Machine:
    progress = Progress()
    image = environment_image(Path(sys.prefix), progress)
    return guest.Machine(kernel(progress), tools(progress), image, accelerator)


def _run(command: list[str], timeout: float, where: Where, accelerator: str) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    began, output, env = time.monotonic(), sys.stdout.buffer, environment()
    with _errors():
        if where is Where.HERE or (where is Where.AUTO and (here.devices() or here.module_loadable())):
            ended = here.run(command, checkout=ROOT, environment=env, timeout=timeout, output=output)
        else:
            ended = guest.run(
                _machine(accelerator),
                command,
                checkout=ROOT,
                results=RESULTS,
                environment=env,
                timeout=timeout,
                output=output,
            )
    if ended.trouble:
        _fail(ended.trouble, ended.status)
    Progress().say(f"ended with {ended.status} after {time.monotonic() - began:.0f} s")
    raise typer.Exit(ended.status)


def environment() -> dict[str, str]:
    """The command's environment: ours where it is about the tests, else the guest's own."""
    ours = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    return {
        **ours,
        "LANG": "C.UTF-8",
        "COLUMNS": "130",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONUNBUFFERED": "1",
        "COVERAGE_FILE": str(RESULTS / ".coverage"),
    }


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (MissingToolError, OSError, TimeoutError, ProcessEndedError) as error:
        _fail(str(error), 1)
    except KeyboardInterrupt:
        _fail("interrupted; what ran has been ended", 130)


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


if __name__ == "__main__":
    app(prog_name="python -m tests.rdma")
