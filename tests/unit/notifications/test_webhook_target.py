"""The guard over where webhooks may go."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from tasks.notifications.webhook_target import Target, TargetRefused, addresses_of, is_public, read_target

INSIDE = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",  # metadata
    "169.254.170.2",
    "100.64.0.1",  # carrier-grade NAT
    "100.100.100.200",  # metadata
    "192.0.0.192",  # metadata
    "168.63.129.16",  # a host's service
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%1",
    "fc00::1",
    "fd00:ec2::254",  # metadata
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2001:0:7f00:1::",
    "no address",
    "",
]
OUTSIDE = ["8.8.8.8", "93.184.215.14", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "172.32.0.1", "100.128.0.1"]


@pytest.mark.parametrize("address", INSIDE)
def test_no_address_inside_is_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_an_address_outside_is_public(address: str) -> None:
    assert is_public(address)


def test_the_standard_library_alone_would_let_some_of_them_pass() -> None:
    """The negative control: what the list of refused networks is for."""
    passed = [one for one in INSIDE if one and one != "no address" and ipaddress.ip_address(one).is_global]
    assert {"168.63.129.16", "64:ff9b::a9fe:a9fe"} <= set(passed)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://example.org/", "not_https"),
        ("ftp://example.org/", "not_https"),
        ("file:///etc/passwd", "not_https"),
        ("example.org/hook", "not_https"),
        ("https://", "not_an_address"),
        ("https:///path", "not_an_address"),
        ("https://example.org:99999/", "not_an_address"),
        ("https://example.org:0/", "not_an_address"),
        ("https://[::1/", "not_an_address"),
        ("https://example.org/\r\nHost: other", "not_an_address"),
        ("https://example.org/ two", "not_an_address"),
        ("https://example.org\\@evil.example/", "not_an_address"),
        ("https://ädam.example/", "not_an_address"),
        ("https://example.org/" + "x" * 500, "not_an_address"),
        ("https://user:secret@example.org/", "has_password"),
    ],
)
def test_what_is_no_address_for_webhooks_is_refused(url: str, code: str) -> None:
    with pytest.raises(TargetRefused) as refused:
        read_target(url, loopback=False)
    assert refused.value.code == code


def test_an_address_is_taken_apart() -> None:
    read = read_target("https://Hooks.example.org:8443/in?a=1#part", loopback=False)
    assert read == Target("https", "hooks.example.org", 8443, "/in?a=1")
    assert read.netloc == "hooks.example.org:8443"
    assert read_target("https://[2606:4700:4700::1111]", loopback=False).netloc == "[2606:4700:4700::1111]"


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "localhost", "0"])
def test_no_way_of_writing_this_machine_gets_through(host: str) -> None:
    with pytest.raises(TargetRefused) as refused:
        addresses_of(read_target(f"https://{host}/", loopback=False), loopback=False)
    assert refused.value.code in ("not_public", "host_unknown")


def answers(*addresses: str):
    """Return what a resolver returns for these addresses."""

    def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        if not addresses:
            raise socket.gaierror
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    return resolve


def test_one_answer_that_is_not_public_spoils_them_all() -> None:
    target = read_target("https://example.org/", loopback=False)
    public = addresses_of(target, loopback=False, resolve=answers("8.8.8.8", "8.8.8.8", "8.8.4.4"))
    assert public == ["8.8.8.8", "8.8.4.4"]
    for spoilt in (("8.8.8.8", "10.0.0.1"), ("127.0.0.1",), ("8.8.8.8", "::1")):
        with pytest.raises(TargetRefused, match="not_public"):
            addresses_of(target, loopback=False, resolve=answers(*spoilt))
    with pytest.raises(TargetRefused, match="host_unknown"):
        addresses_of(target, loopback=False, resolve=answers())


def test_loopback_is_let_through_only_where_it_is_set_and_http_goes_nowhere_else() -> None:
    here, there = read_target("http://here/", loopback=True), answers("127.0.0.1")
    assert addresses_of(here, loopback=True, resolve=there) == ["127.0.0.1"]
    with pytest.raises(TargetRefused, match="not_public"):
        addresses_of(here, loopback=True, resolve=answers("8.8.8.8"))
    with pytest.raises(TargetRefused, match="not_public"):
        addresses_of(read_target("https://here/", loopback=True), loopback=True, resolve=answers("10.0.0.1"))
