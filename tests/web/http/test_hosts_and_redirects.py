"""Tests that no link of this site leads to another one, by `next`, by a Host header or by a proxy's.

A sign-in page there could look like ours. Every redirect is a path, and no response uses the host that a request names.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from tests.web.accounts.test_sign_in import PASSWORD, registered, sign_in  # noqa: F401 (a fixture)
from tests.web.conftest import Browser, Person, Program, WebHarness
from webapp.http.security import safe_next

EVIL = "evil.example"
ELSEWHERE = [
    *(
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\\/evil.example",
        "\\/evil.example",
    ),
    *(
        "https://evil.example",
        "https:evil.example",
        "http:\\\\evil.example",
        "HTTPS://evil.example",
        "//evil.example\\@x",
    ),
    *(
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "blob:x",
        "mailto:a@evil.example",
    ),
    *(
        "/\t/evil.example",
        "/\n/evil.example",
        "\t//evil.example",
        " //evil.example",
        "\x00//evil.example",
        "/\r/evil.example",
    ),
    *("evil.example", "@evil.example", ".evil.example", "?next=//evil.example", "#//evil.example", "/" + "x" * 3000),
]
STRANGE_HOSTS = [
    "",
    "]",
    "[",
    "[::1",
    "a..b",
    "." * 3,
    "x" * 300,
    "a b",
    "<script>",
    "evil.example:abc",
    "a/b",
    "x@y",
    "é.example",
]


def test_next_leads_nowhere_else_on_any_way(ada: Person, browser: Browser) -> None:
    for address in ELSEWHERE:
        assert safe_next(address) is None, address
        assert ada.get("/login", query_string={"next": address}).location == "/", address
        page = browser.get("/login", query_string={"next": address}).text
        assert 'name="next"' not in page and EVIL not in page, address


@pytest.mark.parametrize(
    "address", ["/account", "/jobs/x?a=b&c=//evil.example", "/%2f%2fevil.example", "/a//b", "/@x", "/..//x"]
)
def test_a_path_of_this_site_is_kept(address: str) -> None:
    assert safe_next(address) == address


def test_after_signing_in_nobody_is_sent_away(browser: Browser, registered: str) -> None:  # noqa: F811
    for address in ELSEWHERE[:6]:
        browser.client.delete_cookie("session")
        browser.forget_token()
        answer = sign_in(browser, registered, next=address)
        assert (answer.status_code, answer.location) == (303, "/")
    assert PASSWORD


def test_what_htmx_says_of_its_page_leads_nowhere_else(browser: Browser) -> None:
    for address in ("http://[x", "//[", "http://[::1", "http://\u2100.example/", "javascript:x", f"http://x//{EVIL}/"):
        headers = {"HX-Request": "true", "HX-Current-URL": address.encode().decode("latin-1")}
        answer = browser.get(f"/jobs/{uuid.uuid4()}/status", headers=headers)
        assert (answer.status_code, answer.headers["HX-Redirect"].partition("?")[0]) == (401, "/login"), address
        assert EVIL not in answer.headers["HX-Redirect"]


def addresses(app: Flask, job_id: uuid.UUID) -> list[str]:
    found = [
        "/nothing",
        "//evil.example",
        "//evil.example/login",
        "/static//app.css",
        "/account//",
        "/ops/rq",
        "/embed//x",
    ]
    for rule in app.url_map.iter_rules():
        path = rule.rule.replace("<uuid:job_id>", str(job_id))
        found.append(re.sub(r"<(uuid:)?[^>]+>", lambda gap: str(uuid.uuid4()) if gap[1] else "x", path))
    return found


@pytest.mark.parametrize("hops", [0, 1])
def test_nothing_of_an_answer_is_made_of_the_host_that_a_request_names(
    make_app: Callable[..., Flask], ada: Person, olga: Person, bench: WebHarness, hops: int
) -> None:
    app = make_app(proxy_hops=hops, app_base_url="https://waybill.example")
    named = {"X-Forwarded-Host": f"{EVIL}, {EVIL}", "X-Forwarded-Server": EVIL, "Forwarded": f"host={EVIL}"}
    named |= {
        "X-Host": EVIL,
        "X-Original-URL": f"//{EVIL}/",
        "X-Rewrite-URL": f"//{EVIL}/",
        "X-Forwarded-Prefix": f"//{EVIL}",
    }
    job_id, moved = bench.succeeded(), 0
    for person in (Person(app, ada.id), Person(app, olga.id), Browser(app)):
        for path in addresses(app, job_id):
            answer = person.client.get(path, base_url=f"http://{EVIL}", headers=named)
            body = b"" if path == "/static/x" else answer.data
            assert EVIL not in body.decode("utf-8", "replace").replace(path, ""), path
            if answer.location is not None:
                moved += 1
                assert re.match(r"/(?![/\\])", answer.location), (path, answer.location)
    assert moved > 20


def test_an_upload_link_has_the_address_that_the_settings_name(
    make_app: Callable[..., Flask], program: Program
) -> None:
    asking = Program(make_app(app_base_url="https://waybill.example"), program.token)
    made = asking.ask("POST", "/upload-links", {"X-Forwarded-Host": EVIL}, json={}, base_url=f"http://{EVIL}")
    assert made.get_json()["upload_url"].startswith("https://waybill.example/embed/") and EVIL not in made.text


def test_a_host_that_is_none_is_no_fault_of_ours(app: Flask) -> None:
    client = app.test_client()
    for host, path in itertools.product(STRANGE_HOSTS, ("/login", "/nothing", "/", "/static//x")):
        answer = client.get(path, headers={"Host": host.encode().decode("latin-1")})
        assert answer.status_code in (200, 302, 308, 400, 404), (host, path)
        assert "<script>" not in answer.text and (answer.location or "/").startswith("/"), (host, path)
        assert answer.headers["Content-Security-Policy"] and answer.headers["Cache-Control"] == "private, no-store"


def test_a_proxy_that_says_https_is_believed_only_where_there_is_one(make_app: Callable[..., Flask]) -> None:
    headers: dict[str, Any] = {"X-Forwarded-Proto": "https"}
    for hops, host, kept in ((0, "waybill.example", False), (1, "waybill.example", True), (1, "localhost", False)):
        answer = make_app(proxy_hops=hops).test_client().get("/login", headers=headers, base_url=f"http://{host}")
        assert ("Strict-Transport-Security" in answer.headers) is kept
