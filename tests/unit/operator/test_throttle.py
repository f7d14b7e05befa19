"""The gate in front of the API server."""

from __future__ import annotations

import httpx2
import pytest

from hawk_operator.kube.throttle import Gate, GatedTransport, ThrottledError, wait_asked


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
def test_what_a_response_asks_for(status, headers, expected):
    assert wait_asked(status, headers) == expected


def test_nothing_is_sent_while_the_gate_is_closed():
    now = [100.0]
    sent = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(now[0])
        return httpx2.Response(429 if len(sent) == 1 else 200, headers={"Retry-After": "5"})

    counted = []
    gate = Gate(lambda: now[0])
    transport = GatedTransport(httpx2.MockTransport(answer), gate, lambda: counted.append(1))
    with httpx2.Client(transport=transport, base_url="http://api") as client:
        for moment in (100.0, 101.0, 104.9):
            now[0] = moment
            with pytest.raises(ThrottledError) as caught:
                client.get("/")
            assert caught.value.remaining == pytest.approx(105.0 - moment)
        now[0] = 105.0
        assert client.get("/").status_code == 200

    assert sent == [100.0, 105.0]
    assert counted == [1]


def test_a_gate_never_opens_earlier_than_was_asked():
    gate = Gate(lambda: 0.0)
    gate.close(10.0)
    gate.close(3.0)

    assert gate.remaining() == 10.0
