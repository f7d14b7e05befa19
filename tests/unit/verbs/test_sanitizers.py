"""The verbs extension, and the fake below it, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.sanitizers import FLAGS, suite_is_clean

from .fake import PACKAGE

SUITE = ["test_posting.py", "test_queue_pair.py", "test_dispatcher.py", "test_registration.py"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_extension_is_clean_under_sanitizers(tmp_path: Path):
    suite_is_clean(
        "hawk_agent.transports.verbs._verbs",
        sorted(PACKAGE.glob("_verbs*.c")),
        [Path(__file__).parent / name for name in SUITE],
        tmp_path,
        environment={"HAWK_TEST_CFLAGS": FLAGS[0]},
    )
