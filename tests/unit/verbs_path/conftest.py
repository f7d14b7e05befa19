"""The data path over an executable model of a device: what runs in the guest runs here too, and quickly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.rdma import path
from tests.rdma.conftest import Port
from tests.unit.verbs.conftest import _built, fake

if TYPE_CHECKING:
    from tests.unit.verbs.fake import Fake

__all__ = ["_built", "fake", "model", "rxa", "rxb"]


@pytest.fixture
def model(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """The model in place of libibverbs."""
    monkeypatch.setattr(path, "library", fake.path)
    monkeypatch.setattr(path, "work", fake.work)
    return fake


@pytest.fixture
def rxa(model: Fake) -> Port:
    del model
    return Port("fakea", "10.9.0.1")


@pytest.fixture
def rxb(model: Fake) -> Port:
    del model
    return Port("fakeb", "10.9.0.2")
