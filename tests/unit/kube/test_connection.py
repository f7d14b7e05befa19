"""Servers that are slow, silent, garbled or gone: every call ends, with an error that says why."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from socket import create_server

import pytest

from hawk_kube import client, request
from hawk_kube.config import Endpoint
from hawk_kube.credentials import Fixed, Login
from hawk_kube.errors import ApiError, ConfigError, UnavailableError
from hawk_kube.kinds import CONFIG_MAP, DEPLOYMENT, HAWK_NODE, LEASE, POD, TOKEN_REVIEW
from tests.support.waiting import until


@pytest.fixture
def impatient(monkeypatch):
    """Calls of a fifth of a second."""
    original = client.ApiRequest

    def hasty(*arguments, **more):
        made = original(*arguments, **more)
        return replace(made, seconds=0.2) if made.seconds == request.CALL_SECONDS else made

    monkeypatch.setattr(client, "ApiRequest", hasty)


def silent(call):
    time.sleep(1.0)


def head_only(call):
    call.send_response(200)
    call.send_header("Content-Length", "100")
    call.end_headers()
    time.sleep(1.0)


def dripping(call):
    call.begin()
    for _ in range(40):
        call.chunk(b" ")
        time.sleep(0.05)


def cut(call):
    call.send_response(200)
    call.send_header("Content-Length", "100")
    call.end_headers()
    call.wfile.write(b'{"kind":')
    call.close_connection = True


def hang_up(call):
    call.close_connection = True


def garbled(call):
    call.reply(200, b"<html>proxy</html>")


def a_list(call):
    call.reply(200, [1])


def elsewhere(call):
    call.reply(302, Location="http://127.0.0.1:1/")


@pytest.mark.parametrize(
    "answer",
    [silent, head_only, dripping, cut, hang_up, garbled, a_list, elsewhere],
    ids=lambda a: a.__name__,
)
def test_every_call_ends_with_an_error_and_is_sent_once(answer, serving, impatient):
    with serving(answer) as server:
        with pytest.raises(ApiError, match="get hawknodes/n: "):
            server.client().get(HAWK_NODE, "n")
        until(lambda: server.seen, what="the request")
        assert len(server.seen) == 1


def test_no_server_and_one_that_takes_no_connection(impatient):
    with closing(create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        silent = client.connect_client(
            "test", endpoint=Endpoint("test", f"http://127.0.0.1:{port}", Fixed(Login()))
        )
        with pytest.raises(UnavailableError, match=r"[Tt]ime"):
            silent.get(HAWK_NODE, "n")
    gone = client.connect_client(
        "test", endpoint=Endpoint("test", f"https://127.0.0.1:{port}", Fixed(Login()))
    )
    with pytest.raises(UnavailableError, match="refused"):
        gone.get(HAWK_NODE, "n")


def test_a_connection_is_used_again(serving):
    with serving(lambda call: call.reply()) as server:
        api = server.client()
        for _ in range(3):
            api.get(HAWK_NODE, "n")
        assert len({call.client_address for call in server.seen}) == 1


def test_what_is_sent(serving):
    """Method, path with its query, media type and body of every call."""
    body = {"metadata": {"name": "a/b", "namespace": "n"}, "spec": {}}
    typed = {"apiVersion": "v1", "kind": "ConfigMap", **body}
    force = "fieldManager=test&force=true"
    at = "/api/v1/namespaces/n/configmaps/a%2Fb"
    expected = [
        (lambda api: api.get(CONFIG_MAP, "a/b", "n"), "GET", at, None, None),
        (lambda api: api.get(HAWK_NODE, "x"), "GET", "/apis/hawkpool.dev/v1alpha1/hawknodes/x", None, None),
        (lambda api: api.list(POD), "GET", "/api/v1/pods?limit=500", None, None),
        (
            lambda api: api.list(POD, "n", {"a": "1", "b": "2"}, {"spec.nodeName": "x"}),
            "GET",
            "/api/v1/namespaces/n/pods?labelSelector=a%3D1%2Cb%3D2&fieldSelector=spec.nodeName%3Dx&limit=500",
            None,
            None,
        ),
        (lambda api: api.apply(CONFIG_MAP, body), "PATCH", f"{at}?{force}", request.APPLY, typed),
        (
            lambda api: api.apply(CONFIG_MAP, body, dry_run=True, subresource="status"),
            "PATCH",
            f"{at}/status?{force}&dryRun=All",
            request.APPLY,
            typed,
        ),
        (
            lambda api: api.patch(CONFIG_MAP, "c", "n", {"data": {}}),
            "PATCH",
            "/api/v1/namespaces/n/configmaps/c?fieldManager=test",
            request.MERGE,
            {"data": {}},
        ),
        (
            lambda api: api.create(CONFIG_MAP, body),
            "POST",
            "/api/v1/namespaces/n/configmaps?fieldManager=test",
            request.JSON,
            typed,
        ),
        (lambda api: api.replace(CONFIG_MAP, body), "PUT", f"{at}?fieldManager=test", request.JSON, typed),
        (
            lambda api: api.delete(CONFIG_MAP, "a/b", "n"),
            "DELETE",
            at,
            request.JSON,
            {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"},
        ),
        (
            lambda api: api.scale(DEPLOYMENT, "n", "d", 3),
            "PATCH",
            "/apis/apps/v1/namespaces/n/deployments/d/scale?fieldManager=test",
            request.MERGE,
            {"spec": {"replicas": 3}},
        ),
        (
            lambda api: api.review(TOKEN_REVIEW, {"token": "t"}),
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            request.JSON,
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "metadata": {},
                "spec": {"token": "t"},
            },
        ),
    ]
    with serving(lambda call: call.reply()) as server:
        api = server.client()
        for call, *wanted in expected:
            call(api)
            sent = server.seen.pop()
            assert [sent.command, sent.path, sent.headers.get("Content-Type"), sent.body] == wanted
            assert sent.headers["User-Agent"] == "test"
            assert (
                sent.headers.get("Accept-Encoding", "identity") == "identity"
            )  # dearer than the bytes saved
            assert "Authorization" not in sent.headers


def test_pages_are_followed_to_the_end(serving):
    pages = [
        {"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [{"n": 1}, {"n": 2}]},
        {"metadata": {"resourceVersion": "7", "continue": "last"}, "items": None},
        {"metadata": {"resourceVersion": "7"}, "items": [{"n": 3}]},
    ]
    with serving(lambda call: call.reply(200, pages[len(server.seen) - 1])) as server:
        assert list(server.client().pages(LEASE)) == [
            ("7", [{"n": 1}, {"n": 2}]),
            ("7", []),
            ("7", [{"n": 3}]),
        ]
        assert ["continue=" in call.path for call in server.seen] == [False, True, True]


def test_an_answer_that_something_between_compressed_is_read(serving):
    import gzip

    with serving(lambda call: call.reply(200, gzip.compress(b'{"a": 1}'), Content_Encoding="gzip")) as server:
        assert server.client().get(HAWK_NODE, "n") == {"a": 1}


class Rotating:
    """Another token after each refusal."""

    def __init__(self):
        self.count = 0

    def login(self):
        return Login(f"Bearer token-{self.count}")

    def refused(self):
        self.count += 1


def test_a_refused_token_is_replaced_for_the_next_call(serving):
    def answer(call):
        call.reply(200 if call.headers["Authorization"] == "Bearer token-1" else 401)

    with serving(answer) as server:
        api = server.client(Rotating())
        with pytest.raises(UnavailableError) as caught:
            api.get(HAWK_NODE, "n")
        assert caught.value.status == 401
        api.get(HAWK_NODE, "n")
        api.get(HAWK_NODE, "n")
        assert len(server.seen) == 3


class Broken:
    """Credentials that end after the first login."""

    def __init__(self):
        self.given = False

    def login(self):
        if self.given:
            raise ConfigError("the plugin failed")
        self.given = True
        return Login("Bearer t")

    def refused(self):
        pass


def test_credentials_that_fail_later_are_an_error_of_the_call(serving):
    with serving(lambda call: call.reply()) as server:
        api = server.client(Broken())
        with pytest.raises(UnavailableError, match="get hawknodes/n: the plugin failed"):
            api.get(HAWK_NODE, "n")
        assert server.seen == []


@pytest.mark.parametrize("login", [Login(certificate=b"no", key=b"pem"), Login(certificate=b"", key=b"")])
def test_certificates_that_are_none_are_said_at_once(login):
    endpoint = Endpoint("here", "https://127.0.0.1:1", Fixed(login), authority=b"" if login.key else b"no")
    with pytest.raises(ConfigError, match="here: certificates: "):
        client.connect_client("test", endpoint=endpoint)


@pytest.mark.parametrize(("proxy", "through"), [(None, True), ("", False)])
def test_proxies_of_the_environment(proxy, through, serving, monkeypatch):
    """The environment's counts where the endpoint leaves it open, and else not at all."""
    with serving(lambda call: call.reply()) as server, serving(lambda call: call.reply()) as other:
        monkeypatch.setenv("http_proxy", other.address)
        monkeypatch.setenv("no_proxy", "")
        endpoint = Endpoint("test", server.address, Fixed(Login()), proxy=proxy)
        with closing(client.connect_client("test", endpoint=endpoint)) as api:
            api.get(HAWK_NODE, "n")
        assert (len(server.seen), len(other.seen)) == ((0, 1) if through else (1, 0))
