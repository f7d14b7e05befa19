"""A C extension built with AddressSanitizer and UndefinedBehaviorSanitizer, and a test suite run on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_RUN = """
import importlib.util, sys
name, path, *tests = sys.argv[1:]
spec = importlib.util.spec_from_file_location(name, path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.modules[name] = module
import pytest
code = pytest.main(["-q", "-n0", "-p", "no:cacheprovider", "--no-header", *tests])
package, _, short = name.rpartition(".")
assert getattr(sys.modules.get(package), short, module) is module
sys.exit(code)
"""


def suite_is_clean(
    module: str,
    sources: Sequence[Path],
    tests: Sequence[Path],
    scratch: Path,
    *,
    flags: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> str:
    """Build an extension, run tests with it in the place of the product's, and assert that all is clean.

    Args:
        module: its full name.
        sources: what is compiled.
        tests: the suite.
        scratch: a folder for what is built.
        flags: for the compiler, beside the sanitizers'.
        environment: for the suite, beside this process'.

    Returns:
        What the suite printed.
    """
    compiler = shutil.which("gcc")
    if compiler is None:
        reason = "missing tool: gcc, to build the extension with sanitizers"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    built = scratch / f"{module.rpartition('.')[2]}.so"
    command = [compiler, "-O1", "-g", "-std=gnu11", "-shared", "-fPIC", *FLAGS, *flags]
    command += ["-DPy_LIMITED_API=0x030B0000", f"-I{sysconfig.get_path('include')}", "-o", str(built)]
    subprocess.run([*command, *map(str, sources)], check=True, timeout=300)
    libraries = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True, timeout=20
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    done = subprocess.run(
        [sys.executable, "-c", _RUN, module, str(built), *map(str, tests)],
        env={
            **os.environ,
            "LD_PRELOAD": ":".join(libraries),
            "ASAN_OPTIONS": "detect_leaks=0",
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "passed" in done.stdout
    assert "ERROR: AddressSanitizer" not in done.stderr
    assert "runtime error" not in done.stderr
    return done.stdout
