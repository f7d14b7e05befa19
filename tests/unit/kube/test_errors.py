"""Answers that are no success, and the gate that some of them close."""

from __future__ import annotations

import pytest

from hawk_kube.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    RejectedError,
    UnavailableError,
    failure,
)
from hawk_kube.gate import Gate, retry_after
from hawk_kube.kinds import CONFIG_MAP, HAWK_NODE, LEASE

KINDS = {
    400: RejectedError,
    401: UnavailableError,
    403: RejectedError,
    404: NotFoundError,
    405: RejectedError,
    408: UnavailableError,
    409: ConflictError,
    410: UnavailableError,
    415: RejectedError,
    422: RejectedError,
    500: UnavailableError,
    502: UnavailableError,
    504: UnavailableError,
}


@pytest.mark.parametrize(("code", "kind"), KINDS.items())
def test_each_code_is_one_kind_of_error(code, kind, serving):
    status = {"kind": "Status", "code": code, "reason": "Why", "message": "said so"}
    with serving(lambda request: request.reply(code, status)) as server, pytest.raises(kind) as caught:
        server.client().get(HAWK_NODE, "n")

    assert str(caught.value) == "get hawknodes/n: said so"
    assert (caught.value.status, caught.value.reason) == (code, "Why")


def test_a_rejection_names_the_fields():
    causes = [{"field": "spec.a", "message": "no"}, {"message": "of no field"}, {"field": "spec.b"}]
    body = b'{"message": "no", "details": {"causes": %s}}' % str(causes).replace("'", '"').encode()

    assert failure("apply x", 422, body).fields == ("spec.a", "spec.b")


@pytest.mark.parametrize("content", [b"", b"<html>gateway</html>", b"[1]", b"\xff\xfe", b'{"message": null}'])
def test_an_answer_of_no_known_form_is_told_with_its_code(content):
    error = failure("get x", 502, content)

    assert isinstance(error, UnavailableError)
    assert str(error).startswith("get x: ")
    assert str(error).endswith("(HTTP 502)")


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (200, {"Retry-After": "9"}, None),
        (404, {}, None),
        (429, {"Retry-After": "5"}, 5.0),
        (429, {}, 1.0),
        (429, {"Retry-After": "soon"}, 1.0),
        (429, {"Retry-After": "0"}, 0.1),
        (429, {"Retry-After": "-3"}, 0.1),
        (429, {"Retry-After": "99999"}, 60.0),
        (503, {"Retry-After": "2"}, 2.0),
        (503, {}, None),
        (500, {"Retry-After": "2"}, None),
    ],
)
def test_how_long_a_response_asks_to_wait(status, headers, expected):
    assert retry_after(status, headers) == expected


def test_nothing_is_sent_while_the_gate_is_closed(serving):
    now, counted = [100.0], []
    gate = Gate(lambda: counted.append(1), lambda: now[0])
    calls = [("get", HAWK_NODE, "n"), ("list", CONFIG_MAP), ("get", LEASE, "l", "ns")]

    def answer(request):
        request.reply(429 if len(server.seen) == 1 else 200, Retry_After="5")

    with serving(answer) as server:
        clients = [server.client(gate=gate), server.client(gate=gate)]
        for moment, (method, *arguments) in zip((100.0, 101.0, 104.9), calls, strict=True):
            now[0] = moment
            with pytest.raises(UnavailableError) as caught:
                getattr(clients[int(moment) % 2], method)(*arguments)
            assert caught.value.delay == pytest.approx(105.0 - moment)
            assert caught.value.status == 429
        now[0] = 105.0
        clients[1].get(HAWK_NODE, "n")

        assert len(server.seen) == 2
    assert counted == [1]


def test_a_gate_never_opens_earlier_than_was_asked():
    gate = Gate(clock=lambda: 0.0)
    gate.close(10.0)
    gate.close(3.0)

    assert gate.remaining() == 10.0


def test_what_must_not_be_written_is_not_sent(serving):
    with serving(lambda request: request.reply()) as server:
        api = server.client(may_write=lambda: False)
        body = {"metadata": {"name": "n", "namespace": "ns"}}
        for write in (
            lambda: api.apply(CONFIG_MAP, body),
            lambda: api.patch(CONFIG_MAP, "n", "ns", {}),
            lambda: api.create(CONFIG_MAP, body),
            lambda: api.replace(CONFIG_MAP, body),
            lambda: api.delete(CONFIG_MAP, "n", "ns"),
            lambda: api.scale(CONFIG_MAP, "ns", "n", 1),
        ):
            with pytest.raises(UnavailableError, match="may not write now") as caught:
                write()
            assert caught.value.delay > 0
        api.get(CONFIG_MAP, "n", "ns")

        assert [request.command for request in server.seen] == ["GET"]


def test_every_error_of_a_call_is_one_tree():
    for kind in {*KINDS.values()}:
        assert issubclass(kind, ApiError)
