"""The watches run for any user: a container's has a number and no name."""

from __future__ import annotations

import pwd
import threading
from dataclasses import replace

import pytest

from hawk_kube import config
from hawk_kube.config import Endpoint
from hawk_kube.credentials import Fixed, Login
from hawk_kube.kinds import HAWK_POOL
from hawk_operator.manager.health import Activity
from hawk_operator.runtime.metrics import Metrics
from hawk_operator.runtime.settings import OperatorSettings
from hawk_operator.watch.watcher import Watcher, connection_info


def test_they_begin_for_a_user_without_a_name(monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "POD_ID"):
        monkeypatch.delenv(name, raising=False)
    logging_in = threading.Event()

    def nameless(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    def load() -> Endpoint:
        logging_in.set()
        return Endpoint("test", "http://127.0.0.1:1", Fixed(Login()))

    monkeypatch.setattr(pwd, "getpwuid", nameless)
    monkeypatch.setattr(config, "load_config", load)
    watcher = Watcher(OperatorSettings(), None, Metrics(), Activity(), [HAWK_POOL])
    watcher.start()
    try:
        began = logging_in.wait(30)
    finally:
        watcher.stop()
        watcher.join(10)

    assert began


@pytest.mark.parametrize(
    ("login", "headers"),
    [
        (Login("Bearer t"), {"Authorization": "Bearer t"}),
        (Login("Basic bWU6cHc="), {"Authorization": "Basic bWU6cHc="}),
        (Login("", b"CERT", b"KEY"), {}),
    ],
)
def test_they_log_in_as_every_other_call(login, headers):
    endpoint = Endpoint("pod", "https://[fd00::1]:6443", Fixed(login), authority=b"PEM", proxy="")
    found = connection_info(endpoint)

    assert (found.server, found.ca_data, found.insecure) == ("https://[fd00::1]:6443", b"PEM", False)
    assert found.as_http_headers() == headers
    assert (found.certificate_data or b"", found.private_key_data or b"") == (login.certificate, login.key)
    assert not found.trust_env
    assert connection_info(replace(endpoint, proxy=None)).trust_env
