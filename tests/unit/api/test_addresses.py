import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_api import addresses
from hawk_api.addresses import Address

ports = st.integers(0, 65535)
hosts = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
    st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z]([-a-z0-9]{0,20}[a-z0-9])?){0,3}", fullmatch=True),
)


@given(hosts, ports)
def test_round_trip(host: str, port: int) -> None:
    text = addresses.format_address(host, port)

    assert addresses.parse_address(text) == Address(host, port)
    assert str(addresses.parse_address(text)) == text


@given(st.ip_addresses(v=6), ports)
def test_bare_ipv6_with_a_port_has_two_readings_and_is_refused(
    host: ipaddress.IPv6Address, port: int
) -> None:
    with pytest.raises(ValueError, match=r"brackets|no valid"):
        addresses.parse_address(f"{host}:{port}")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("[2001:db8::1]:7000", "2001:db8::1", 7000),
        ("[fe80::1%eth0]:7000", "fe80::1%eth0", 7000),
        ("10.0.0.1:7000", "10.0.0.1", 7000),
        ("host:7000", "host", 7000),
        ("a.b.svc.cluster.local:1", "a.b.svc.cluster.local", 1),
        ("[::1]:0", "::1", 0),
    ],
)
def test_forms(text: str, host: str, port: int) -> None:
    assert addresses.parse_address(text) == (host, port)


@pytest.mark.parametrize(
    ("text", "host"), [("2001:db8::1", "2001:db8::1"), ("::1", "::1"), ("[::1]", "::1"), ("host", "host")]
)
def test_a_default_port_fills_in(text: str, host: str) -> None:
    assert addresses.parse_address(text, default_port=7000) == (host, 7000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "2001:db8::1",
        "2001:db8::1:7000",
        ":7000",
        "host:",
        "host:70000",
        "host:-1",
        "host:7e3",
        "[::1]7000",
        "[::1",
        "[host]:1",
        "[10.0.0.1]:1",
        "10.0.0.256:1",
        "1.2.3:1",
        "a b:1",
        "host:٣",
        "[fe80::1%]:1",
        "a..b:1",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|give"):
        addresses.parse_address(text)
