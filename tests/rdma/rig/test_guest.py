"""The guest as its user sees it: status, output and results come back, and every other end is told apart."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.rdma import guest
from tests.rdma.following import DIED, TIMED_OUT, Ended, follow
from tests.rdma.image import environment_image
from tests.rdma.kernel import kernel
from tests.rdma.tools import tools
from tests.support.progress import Silent
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
PATIENCE = 400.0


@pytest.fixture(scope="module")
def machine() -> guest.Machine:
    return guest.Machine(kernel(Silent()), tools(Silent()), environment_image(Path(sys.prefix), Silent()))


@pytest.fixture
def run(machine: guest.Machine, tmp_path: Path) -> Callable[[str], tuple[Ended, str]]:
    def run(script: str) -> tuple[Ended, str]:
        output = io.BytesIO()
        ended = guest.run(
            machine,
            ["sh", "-c", script],
            checkout=ROOT,
            environment={"WORD": "it's passed on"},
            timeout=PATIENCE,
            results=tmp_path / "results",
            output=output,
        )
        return ended, output.getvalue().decode()

    return run


def test_status_output_and_results_come_back(run: Callable[[str], tuple[Ended, str]], tmp_path: Path):
    ended, said = run(
        f'echo "$WORD in $PWD"; echo oops >&2; echo kept > {tmp_path}/results/file; touch new; exit 7'
    )

    assert ended == Ended(7)
    assert said == f"it's passed on in {ROOT}\noops\n"
    assert (tmp_path / "results" / "file").read_text() == "kept\n"
    assert not (ROOT / "new").exists()


def test_a_guest_that_dies_is_an_error_and_shows_its_console(run: Callable[[str], tuple[Ended, str]]):
    ended, said = run("echo before; echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger; sleep 600")

    assert ended.status == DIED
    assert "the guest died" in ended.trouble
    assert "Kernel panic - not syncing: sysrq triggered crash" in ended.trouble
    assert said == "before\n"


def test_nothing_runs_on_when_the_parent_is_killed():
    words = [
        sys.executable,
        "-m",
        "tests.rdma",
        "run",
        "--where",
        "guest",
        "--",
        "sh",
        "-c",
        "exec sleep 600",
    ]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL) as parent:
        try:
            [qemu] = until(
                lambda: [pid for pid in _descendants(parent.pid) if b"-kernel" in _words(pid)],
                what="the guest to run",
                timeout=PATIENCE,
            )
            folder = Path(f"/proc/{qemu}/cwd").readlink()
        finally:
            parent.kill()

    until(lambda: not _words(qemu) and not folder.exists(), what="the guest and its folder to be gone")


def test_a_command_whose_time_is_up_is_told_from_one_that_ends(tmp_path: Path):
    file, output, began = tmp_path / "output", io.BytesIO(), time.monotonic()
    file.write_text("partly\n")
    with file.open("rb") as source:
        late = follow(source, output, lambda _: None, timeout=0.2)
        in_time = follow(source, output, lambda _: Ended(3), timeout=0.2)

    assert late.status == TIMED_OUT
    assert "0 s" in late.trouble
    assert time.monotonic() - began >= 0.2
    assert in_time == Ended(3)
    assert output.getvalue() == b"partly\n"


def _words(pid: int) -> list[bytes]:
    """The command line of a process; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return []


def _descendants(pid: int) -> list[int]:
    try:
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*children, *(one for child in children for one in _descendants(child))]
