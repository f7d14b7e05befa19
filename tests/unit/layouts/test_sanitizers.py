"""The C kernel under AddressSanitizer and UndefinedBehaviorSanitizer, with its widest path as well.

Where the processor has no AVX-512, its operations are emulated (avx512_emulated.h): that tests the path's
logic and that its streamed stores are aligned, not the instructions themselves.
"""

import os
import platform
from pathlib import Path

import pytest

import hawk_agent.layouts
from hawk_agent.layouts import engines
from tests.unit.sanitizers import suite_is_clean

SOURCE = Path(hawk_agent.layouts.__file__).parent / "_kernel.c"
EMULATED = Path(__file__).parent / "avx512_emulated.h"
SUITE = ["test_kernel.py", "test_engines.py", "test_translation.py", "test_digest.py", "test_coverage.py"]


def check(tmp_path: Path, flags: list[str], expected: str) -> None:
    here = Path(__file__).parent
    profile = {"HAWK_TEST_PROFILE": os.environ.get("HAWK_TEST_PROFILE", "usual"), "HAWK_EXPECTED": expected}
    tests = [here / name for name in SUITE]
    suite_is_clean("hawk_agent.layouts._kernel", [SOURCE], tests, tmp_path, flags=flags, environment=profile)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_kernel_is_clean_under_sanitizers(tmp_path):
    check(tmp_path, [], " ".join(engines.available()))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="AVX-512 is emulated with AVX2")
def test_the_widest_path_is_clean_where_it_is_emulated(tmp_path):
    """On any x86-64: alignment of streamed stores is checked, which a processor would fault on."""
    check(tmp_path, ["-include", str(EMULATED)], "c-avx512 c-avx2 c-sse2 c-portable numpy")
