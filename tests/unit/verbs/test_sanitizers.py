"""The verbs extension, and the fake below it, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from .fake import PACKAGE

SUITE = ["test_posting.py", "test_queue_pair.py", "test_dispatcher.py", "test_registration.py"]
RUN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("hawk_agent.transports.verbs._verbs", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.modules[spec.name] = module
import pytest
from hawk_agent.transports.verbs import library
assert library.native is module
sys.exit(pytest.main(["-q", "-n0", "-p", "no:cacheprovider", "--no-header", *sys.argv[2:]]))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_extension_is_clean_under_sanitizers(tmp_path: Path):
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("missing tool: gcc, to build the extension with sanitizers")
    built = tmp_path / "_verbs.so"
    flags = ["-O1", "-g", "-std=gnu11", "-shared", "-fPIC", "-fsanitize=address,undefined"]
    limited = ["-DPy_LIMITED_API=0x030B0000", f"-I{sysconfig.get_path('include')}"]
    sources = [str(path) for path in sorted(PACKAGE.glob("_verbs*.c"))]
    command = [compiler, *flags, "-fno-sanitize-recover=all", *limited, "-o", str(built), *sources]
    subprocess.run(command, check=True, timeout=200)
    libraries = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True, timeout=20
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(built), *(str(here / name) for name in SUITE)],
        env={
            **os.environ,
            "LD_PRELOAD": ":".join(libraries),
            "ASAN_OPTIONS": "detect_leaks=0",
            "HAWK_TEST_CFLAGS": "-fsanitize=address,undefined",
        },
        cwd=here.parents[2],
        capture_output=True,
        text=True,
        timeout=700,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "passed" in done.stdout
    assert "ERROR: AddressSanitizer" not in done.stderr
    assert "runtime error" not in done.stderr
