"""The watches run for any user: a container's has a number and no name."""

from __future__ import annotations

import pwd
import threading

import kopf
import pytest

from hawk_operator.kube.resources import POOL
from hawk_operator.manager.health import Activity
from hawk_operator.runtime.metrics import Metrics
from hawk_operator.runtime.settings import OperatorSettings
from hawk_operator.watch.watcher import Watcher, in_cluster


def test_they_begin_for_a_user_without_a_name(monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "POD_ID"):
        monkeypatch.delenv(name, raising=False)
    logging_in = threading.Event()

    def nameless(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    def login(**_: object) -> kopf.ConnectionInfo:
        logging_in.set()
        return kopf.ConnectionInfo(server="http://127.0.0.1:1")

    monkeypatch.setattr(pwd, "getpwuid", nameless)
    monkeypatch.setattr(kopf, "login_with_service_account", login)
    monkeypatch.setattr(kopf, "login_with_kubeconfig", login)
    watcher = Watcher(OperatorSettings(), None, Metrics(), Activity(), [POOL])
    watcher.start()
    try:
        began = logging_in.wait(30)
    finally:
        watcher.stop()
        watcher.join(10)

    assert began


@pytest.mark.parametrize(
    ("host", "address"),
    [("10.96.0.1", "https://10.96.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443"), (None, "")],
)
def test_the_api_server_is_found_without_dns(host, address):
    environ = {"KUBERNETES_SERVICE_PORT": "6443", **({"KUBERNETES_SERVICE_HOST": host} if host else {})}

    assert in_cluster(environ) == address
