"""A worker's pod is told who it is, and gets a socket that it can use and not replace."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import CommandError

from .pools import Pool, call, group

TAKE_OVER = """
import os, socket
directory = os.path.dirname(os.environ["HAWK_AGENT_SOCKET"])
try:
    os.rename(f"{directory}/agent.sock", f"{directory}/taken.sock")
finally:
    socket.socket(socket.AF_UNIX).bind(f"{directory}/mine.sock")
"""


def test_root_in_a_worker_can_use_the_agents_socket_and_not_replace_it(pool: Pool) -> None:
    pool.apply(group("prefill", "Prefill"), group("decode", "Decode"))
    pool.wait()
    [worker] = pool.workers("prefill")
    words = ("exec", "-n", pool.namespace, worker["metadata"]["name"], "--", "python3", "-c", TAKE_OVER)
    with pytest.raises(CommandError, match="Read-only file system"):
        pool.cluster.kubectl(*words)

    assert call(worker, "/")["registrations"] == 1


def test_workers_of_one_image_on_one_node_register_one_name(pool: Pool) -> None:
    here = {"kubernetes.io/hostname": "n2"}
    pool.apply(group("prefill", "Prefill", nodes=here), group("decode", "Decode", workers=3, nodes=here))
    pool.wait()
    status = pool.cluster.get("hawknode", "n2")["status"]
    ours = [region for region in status["regions"] if region["pool"] == f"{pool.namespace}/{pool.name}"]
    pods = {pod["metadata"]["name"] for name in ("prefill", "decode") for pod in pool.workers(name)}

    assert {region["worker"] for region in ours} == pods
    assert len(pods) == 4
