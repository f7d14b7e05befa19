"""The fake library, built once a session; whatever a test opened through it must be closed at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hawk_agent.transports.verbs.library import native

from .fake import Fake, build

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Fake:
    if native is None:
        pytest.skip("missing tool: a C compiler, for the verbs extension")
    return Fake(build(tmp_path_factory.mktemp("verbs")))


@pytest.fixture
def fake(_built: Fake) -> Iterator[Fake]:
    _built.reset()
    yield _built
    assert _built.seen.lost == 0, "completions were lost: the completion queue is too small"
    assert _built.seen.open == 0, "something is still open"
