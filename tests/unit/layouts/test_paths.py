"""Every vector path against the portable one, without Python: this machine's, and NEON's in an emulator."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

import hawk_agent.layouts
from tests.support import debian
from tests.support.errors import MissingToolError
from tests.support.progress import Silent

PROGRAM = Path(__file__).parent / "paths_agree.c"
FLAGS = ["-O2", "-std=gnu11", f"-I{Path(hawk_agent.layouts.__file__).parent}"]
CROSS = ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user-static")


def output(*words: str | Path, **environment: str) -> str:
    done = subprocess.run(
        words, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_paths_of_this_machine_agree(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("missing tool: cc, to compile the paths")
    output(compiler, *FLAGS, PROGRAM, "-o", tmp_path / "agree")

    assert output(tmp_path / "agree").endswith(" agree\n")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the compiler and the emulator are for x86-64")
def test_neon_agrees_under_an_emulator(tmp_path):
    """Compiled for 64-bit Arm and run by QEMU, both out of Debian's packages (130 MB, kept in the cache)."""
    try:
        tools = debian.unpacked("aarch64", CROSS, Silent())
    except MissingToolError as error:
        pytest.skip(f"missing tool: a compiler and an emulator for 64-bit Arm: {error}")
    target = tools / "usr" / "aarch64-linux-gnu"
    found = [f"-isystem{target}/include", f"-B{target}/lib", f"-L{target}/lib"]
    compiler = tools / "usr" / "bin" / "aarch64-linux-gnu-gcc"
    libraries = str(tools / "usr" / "lib" / "x86_64-linux-gnu")
    built = tmp_path / "agree"
    output(compiler, "-static", *FLAGS, *found, PROGRAM, "-o", built, LD_LIBRARY_PATH=libraries)

    assert output(tools / "usr" / "bin" / "qemu-aarch64-static", built) == "portable neon agree\n"
