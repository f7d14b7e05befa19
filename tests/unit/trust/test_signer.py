"""Rounds of the signer against a small model of the API: versions, conflicts, and failures at any call."""

from __future__ import annotations

import base64
import copy
import threading
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from hawk_kube.errors import ConflictError, NotFoundError, UnavailableError
from hawk_operator.trust import Lifetimes, SignerSettings, TrustMetrics
from hawk_operator.trust.signer import BUNDLE_KEY, Signer, has_condition

from . import requests as make
from .test_authority import trusted

SETTINGS = SignerSettings("hawk-system", "hawk-system", lifetimes=Lifetimes(certificate=timedelta(hours=24)))
NOW = 1_900_000_000.0


class ModelApi:
    """Objects by (plural, name); each write needs the current resourceVersion. `fail_at` breaks one call."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {
            ("secrets", SETTINGS.secret): {"metadata": {"name": SETTINGS.secret, "resourceVersion": "1"}},
            ("configmaps", SETTINGS.config_map): {
                "metadata": {"name": SETTINGS.config_map, "resourceVersion": "1"}
            },
        }
        for item in items:
            self.objects["certificatesigningrequests", item["metadata"]["name"]] = copy.deepcopy(item)
        self.calls = 0
        self.fail_at: tuple[int, bool] | None = None
        self.writes: list[str] = []

    def _call(self, act: Any = lambda: None) -> Any:
        """Break before or after the call took effect, as a network does."""
        self.calls += 1
        here = self.fail_at is not None and self.fail_at[0] == self.calls
        if here and self.fail_at and self.fail_at[1]:
            raise UnavailableError("broken before")
        result = act()
        if here:
            raise UnavailableError("broken after")
        return result

    def get(self, kind, name, namespace=None):
        assert namespace == "hawk-system"
        if (kind.plural, name) not in self.objects:
            raise NotFoundError(f"{kind.plural}/{name}")
        return self._call(lambda: copy.deepcopy(self.objects[kind.plural, name]))

    def list(self, kind, *, fields):
        assert fields == {"spec.signerName": "hawkpool.dev/agent"}
        found = [value for (plural, _), value in self.objects.items() if plural == kind.plural]
        return self._call(lambda: copy.deepcopy(found))

    def replace(self, kind, body, subresource=""):
        name = body["metadata"]["name"]

        def put():
            stored = self.objects[kind.plural, name]
            if stored["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
                raise ConflictError(name)
            taken = copy.deepcopy(body)
            if subresource == "approval":  # the real one takes the conditions alone
                taken["status"] = {**stored["status"], "conditions": taken["status"]["conditions"]}
            taken["metadata"]["resourceVersion"] = str(int(stored["metadata"]["resourceVersion"]) + 1)
            self.objects[kind.plural, name] = taken
            self.writes.append(f"{kind.plural}/{subresource}")
            return copy.deepcopy(taken)

        return self._call(put)

    def request(self, name="hawk-agent-x"):
        return self.objects["certificatesigningrequests", name]

    def certificate(self, name="hawk-agent-x"):
        return base64.b64decode(self.request(name)["status"]["certificate"])

    def bundle(self):
        return self.objects["configmaps", SETTINGS.config_map]["data"][BUNDLE_KEY].encode()


def signer(api, clock=lambda: NOW):
    return Signer(api, SETTINGS, clock, TrustMetrics(CollectorRegistry()))


def test_a_good_request_is_approved_and_signed_by_the_published_authority_in_one_round():
    api = ModelApi(make.item())

    signer(api).round()

    assert has_condition(api.request(), "Approved")
    assert trusted(api.bundle(), api.certificate(), make.NODE, make_time(NOW))


def make_time(seconds):
    from hawk_operator.trust.authority import utc

    return utc(seconds)


def test_a_second_round_writes_nothing():
    api = ModelApi(make.item(), make.item("bad", username="somebody"))
    ours = signer(api)
    ours.round()
    writes = list(api.writes)

    ours.round()
    signer(api).round()  # another process, later

    assert api.writes == writes


def test_a_bad_request_is_denied_with_reason_and_message_and_not_signed():
    api = ModelApi(make.item(pem=make.pem(make.names("node-b"))))

    signer(api).round()

    (condition,) = api.request()["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("Denied", "NotItsOwnName")
    assert "node-b" in condition["message"]
    assert "certificate" not in api.request()["status"]


def test_what_a_person_approved_against_the_policy_fails_and_is_not_signed():
    asked = make.item(pem=make.pem(make.names("node-b")))
    asked["status"] = {"conditions": [{"type": "Approved", "status": "True"}]}
    api = ModelApi(asked)

    signer(api).round()

    assert has_condition(api.request(), "Failed")
    assert "certificate" not in api.request()["status"]


def test_what_a_person_denied_stays_denied():
    asked = make.item()
    asked["status"] = {"conditions": [{"type": "Denied", "status": "True"}]}
    api = ModelApi(asked)

    signer(api).round()

    assert "certificate" not in api.request()["status"]


def test_a_broken_secret_stops_signing_and_is_not_overwritten():
    api = ModelApi(make.item())
    api.objects["secrets", SETTINGS.secret]["data"] = {"signing.crt": base64.b64encode(b"x").decode()}

    with pytest.raises(ValueError, match=r"signing\.crt"):
        signer(api).round()

    assert api.writes == []


def test_a_changed_bundle_is_put_right_at_the_next_look():
    api = ModelApi()
    now = [NOW]
    ours = signer(api, lambda: now[0])
    ours.round()
    right = api.bundle()
    api.objects["configmaps", SETTINGS.config_map]["data"] = {BUNDLE_KEY: "somebody else's"}

    now[0] += SETTINGS.authority_poll
    ours.round()

    assert api.bundle() == right


def test_an_authority_that_another_process_made_first_is_taken_over():
    """Two processes that both believe they lead: the second's write is refused, and it reads again."""
    api = ModelApi(make.item())
    slow = ModelApi(make.item())
    slow.objects = api.objects
    original = slow.replace

    def overtaken(kind, body, subresource=""):
        slow.replace = original
        signer(api).round()
        return original(kind, body, subresource)

    slow.replace = overtaken
    ours = signer(slow)
    with pytest.raises(ConflictError):
        ours.round()
    ours.round()

    assert trusted(api.bundle(), api.certificate(), make.NODE, make_time(NOW))
    assert api.writes + slow.writes == [
        "secrets/",
        "configmaps/",
        "certificatesigningrequests/approval",
        "certificatesigningrequests/status",
    ]


@settings(deadline=None)
@given(at=st.integers(1, 9), before=st.booleans())
def test_broken_at_any_call_and_started_again_the_outcome_is_the_same(at, before):
    api = ModelApi(make.item(), make.item("bad", username="somebody"))
    api.fail_at = (at, before)

    for _ in range(2):
        try:
            signer(api).round()
        except UnavailableError:
            continue

    assert trusted(api.bundle(), api.certificate(), make.NODE, make_time(NOW))
    assert [entry["type"] for entry in api.request("bad")["status"]["conditions"]] == ["Denied"]
    assert api.writes.count("secrets/") == 1


def test_a_certificate_is_of_the_key_that_asked():
    api = ModelApi(make.item())

    signer(api).round()

    assert x509.load_pem_x509_certificate(api.certificate()).public_key() == make.key().public_key()


def test_the_loop_counts_a_failure_and_goes_on(caplog):
    api = ModelApi(make.item())
    api.fail_at = (1, True)
    registry = CollectorRegistry()
    stop = threading.Event()
    quick = SignerSettings("hawk-system", "hawk-system", poll=0.001)
    loop = threading.Thread(
        target=Signer(api, quick, lambda: NOW, TrustMetrics(registry)).run_signer, args=(stop,)
    )
    loop.start()
    try:
        for _ in range(10_000):
            if api.request()["status"].get("certificate"):
                break
            stop.wait(0.001)
    finally:
        stop.set()
        loop.join(10)

    assert not loop.is_alive()
    assert registry.get_sample_value("hawk_operator_trust_errors_total") == 1
    assert registry.get_sample_value("hawk_operator_trust_requests_total", {"outcome": "Signed"}) == 1
    assert "broken before" in caplog.text
