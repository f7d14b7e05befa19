"""The C kernel under AddressSanitizer and UndefinedBehaviorSanitizer, with its widest path as well.

Where the processor has no AVX-512, its operations are emulated (avx512_emulated.h): that tests the path's
logic and that its streamed stores are aligned, not the instructions themselves.
"""

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import hawk_agent.layouts
from hawk_agent.layouts import engines

SOURCE = Path(hawk_agent.layouts.__file__).parent / "_kernel.c"
EMULATED = Path(__file__).parent / "avx512_emulated.h"
SUITE = ["test_kernel.py", "test_engines.py", "test_translation.py", "test_digest.py", "test_coverage.py"]
RUN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("hawk_agent.layouts._kernel", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.modules[spec.name] = module
import pytest
from hawk_agent.layouts import engines
assert engines._kernel is module
print("engines:", *engines.available())
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", *sys.argv[2:]]))
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_kernel_is_clean_under_sanitizers(tmp_path):
    compiler = shutil.which("gcc")
    if compiler is None:
        reason = "gcc isn't installed, so the kernel can't be built with sanitizers"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    built = tmp_path / "_kernel.so"
    flags = ["-O1", "-g", "-std=gnu11", "-shared", "-fPIC", "-fsanitize=address,undefined"]
    if platform.machine() == "x86_64" and "c-avx512" not in engines.available():
        flags += ["-include", str(EMULATED)]
    limited = ["-DPy_LIMITED_API=0x030B0000", f"-I{sysconfig.get_path('include')}"]
    command = [compiler, *flags, "-fno-sanitize-recover=all", *limited, "-o", built, SOURCE]
    subprocess.run(command, check=True, timeout=300)
    libraries = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True, timeout=20
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", RUN, built, *(str(here / name) for name in SUITE)],
        env={
            **os.environ,
            "LD_PRELOAD": ":".join(libraries),
            "ASAN_OPTIONS": "detect_leaks=0",
            "HAWK_TEST_PROFILE": os.environ.get("HAWK_TEST_PROFILE", "usual"),
        },
        cwd=here.parents[2],
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )

    if platform.machine() == "x86_64":
        assert "engines: c-avx512 c-avx2 c-sse2 c-portable numpy" in done.stdout
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "ERROR: AddressSanitizer" not in done.stderr
    assert "runtime error" not in done.stderr
