"""The generated CRDs reach the cluster and are served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster


def test_every_generated_kind_is_served(cluster: Cluster, crds: list[str]) -> None:
    names = {name.partition("/")[2] for name in crds}
    served = set(cluster.kubectl("api-resources", "--api-group=hawkpool.dev", "-o", "name").split())

    assert {"hawkpools.hawkpool.dev", "hawknodes.hawkpool.dev", "acceleratorclasses.hawkpool.dev"} <= names
    assert names <= served
