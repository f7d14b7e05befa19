"""The content of the two images, seen from inside their containers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .release import Release

FACTS = """
import ctypes, glob, importlib.util, json, os, pwd
try:
    ctypes.CDLL("libibverbs.so.1")
    verbs = True
except OSError:
    verbs = False
try:
    user = pwd.getpwuid(os.getuid()).pw_name
except KeyError:
    user = ""
known = ("matplotlib", "grpc", "kopf", "numpy", "pip", "pytest")
print(json.dumps({
    "user": user,
    "verbs": verbs,
    "providers": sorted(glob.glob("/usr/lib/*/libibverbs/lib*.so")),
    "modules": [name for name in known if importlib.util.find_spec(name)],
    "compiled": bool(glob.glob("/usr/local/lib/python3*/dist-packages/hawk_agent/__pycache__/*.pyc")),
}))
"""


def facts(hawk: Release, pod: dict[str, Any]) -> dict[str, Any]:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    said = hawk.cluster.kubectl("exec", "-n", namespace, name, "--", "python3", "-c", FACTS)
    found: dict[str, Any] = json.loads(said)
    return found


def test_the_operators_image_names_its_user_and_holds_no_rdma_and_no_plots(hawk: Release) -> None:
    found = facts(hawk, hawk.leader())

    assert found["user"] == "hawk"
    assert not found["verbs"]
    assert found["modules"] == ["kopf", "numpy"]
    assert found["compiled"]


def test_the_agents_image_can_open_devices_of_all_makers(hawk: Release) -> None:
    found = facts(hawk, hawk.agents()["n1"])

    assert found["verbs"]
    assert any("mlx5" in name for name in found["providers"])
    assert any("efa" in name for name in found["providers"])
    assert found["modules"] == ["grpc", "numpy"]


def test_the_agent_says_that_this_node_has_no_device_and_not_that_something_is_missing(hawk: Release) -> None:
    asked = "from hawk_agent.transports.verbs.library import load_library; load_library(); print('opened')"
    pod = hawk.agents()["n1"]
    words = (
        "exec",
        "-n",
        pod["metadata"]["namespace"],
        pod["metadata"]["name"],
        "--",
        "python3",
        "-c",
        asked,
    )

    assert hawk.cluster.kubectl(*words).strip() == "opened"
