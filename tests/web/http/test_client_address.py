"""Tests the client address that rate limits use.

A made-up X-Forwarded-For, or an address that the sender can choose freely, does not evade a limit, and a limit does not
hit everybody behind one proxy. Over several processes: `tests/processes/web_server/test_concurrent_requests.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from flask import Flask

from tests.web.conftest import Browser, Person, Program, WebHarness, poll_address
from tests.web.upload_links.test_public import Sender
from webapp.extensions import client_address

COUNTED = [
    (0, None, "203.0.113.9", "203.0.113.9"),
    (0, "10.1.1.1", "203.0.113.9", "203.0.113.9"),
    (1, None, "203.0.113.9", "203.0.113.9"),
    (1, "10.1.1.1", "172.16.0.1", "10.1.1.1"),
    (1, "6.6.6.6, 10.1.1.1", "172.16.0.1", "10.1.1.1"),
    (1, "6.6.6.6,7.7.7.7 , 10.1.1.1", "172.16.0.1", "10.1.1.1"),
    (2, "6.6.6.6, 10.1.1.1, 172.16.0.2", "172.16.0.1", "10.1.1.1"),
    (2, "6.6.6.6", "172.16.0.1", "172.16.0.1"),
    (1, "6.6.6.6, 10.1.1.1:51234", "172.16.0.1", "10.1.1.1"),
    (1, "::ffff:10.1.1.1", "172.16.0.1", "10.1.1.1"),
    (1, "2001:db8:1:2:3:4:5:6", "172.16.0.1", "2001:db8:1:2::/64"),
    (1, "2001:db8:1:2:ffff::1", "172.16.0.1", "2001:db8:1:2::/64"),
    (1, "[2001:db8:1:2::9]:443", "172.16.0.1", "2001:db8:1:2::/64"),
    (1, "2001:db8:1:3::1", "172.16.0.1", "2001:db8:1:3::/64"),
    (1, "unknown", "172.16.0.1", "unknown"),
    (1, "[", "172.16.0.1", "["),
    (0, None, "", ""),
]
"""Trusted proxies, X-Forwarded-For, the connected address, and the address that is counted."""


def test_who_is_counted(make_app: Callable[..., Flask]) -> None:
    seen: list[str] = []
    apps = {hops: make_app(proxy_hops=hops) for hops in (0, 1, 2)}
    for app in apps.values():
        app.before_request(lambda: seen.append(client_address()))
    for hops, forwarded, connected, counted in COUNTED:
        headers = {"X-Real-IP": "9.9.9.9", "Client-IP": "9.9.9.9", "True-Client-IP": "9.9.9.9"}
        if forwarded is not None:
            headers["X-Forwarded-For"] = forwarded
        apps[hops].test_client().get("/healthz", headers=headers, environ_overrides={"REMOTE_ADDR": connected})
        assert seen.pop() == counted, (hops, forwarded)


def many(browser: Browser, forwarded: Iterator[str]) -> list[int]:
    return [
        browser.post("/register", {"email": "no address"}, headers={"X-Forwarded-For": one}).status_code
        for one in forwarded
    ]


@pytest.mark.parametrize(
    "chosen", ["6.6.6.{0}, 10.1.1.1", "10.1.1.1:{0}", "2001:db8::{0:x}", "::ffff:10.1.1.1"], ids=str
)
def test_nobody_chooses_who_they_are_counted_as(make_app: Callable[..., Flask], chosen: str) -> None:
    browser = Browser(make_app(proxy_hops=1))
    statuses = many(browser, (chosen.format(number + 1) for number in range(32)))
    assert statuses == [422] * 30 + [429] * 2
    assert many(browser, iter(["10.1.1.2", "2001:db8:0:1::1"])) == [422, 422], "the next line is somebody else"


def test_an_upload_link_has_one_spelling(app: Flask, program: Program) -> None:
    """Check that base64 with junk in it is refused: each spelling would be another client to the limit."""
    sender = Sender(app, program, max_uses=5)
    words, _, signature = sender.path.rpartition(".")
    spellings = [
        *(f"{words}.{signature}{more}" for more in ("=", "==", "!", "~", "%20", "%0a", "*" * 40)),
        *(f"{words}.{signature[:at]}****{signature[at:]}" for at in (0, 5, 20)),
        *(
            f"{words}.{signature[:-1]}{letter}"
            for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij"
            if letter != signature[-1]
        ),
        *(f"{words}{between}{signature}" for between in ("..", ".=.", "%2e.")),
        words.upper() + "." + signature,
    ]
    for path in spellings:
        assert sender.client.get(path).status_code == 404, path
        assert sender.client.post(path, data={"text": "x"}).status_code == 404, path
    assert sender.form().status_code == 200


def test_looking_is_not_counted(ada: Person, bench: WebHarness) -> None:
    """Check that a page that polls, in ten tabs, does not lock its reader out."""
    address = poll_address(ada.get(f"/jobs/{bench.job()}").text)
    assert {ada.get(address).status_code for _ in range(65)} == {204}
