from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.agent import house as houses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def house() -> AsyncIterator[houses.House]:
    """A folder with a short path: a Unix socket's is 108 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="hawk-") as folder:
        async with houses.house(Path(folder)) as built:
            yield built
