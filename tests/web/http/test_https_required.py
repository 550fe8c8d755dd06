"""Tests sites at http://a-real-name, where nobody could sign in, and the page blamed an expired form.

The session cookie is `__Host-` and Secure. So the web process refuses a URL that cannot work, preflight names it, and a
form that comes over plain http without its cookie gets a response that says what to do, and a line in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from structlog.testing import capture_logs

from tasks.preflight import site_address
from tasks.settings import Settings, SettingsWrong
from tasks.settings.connection_urls import is_loopback
from tasks.startup.loading import check_web, load
from tests.web.conftest import Browser, Program, proof_in
from webapp import WITHOUT_COOKIES
from webapp.extensions import csrf
from webapp.http import proxy_faults

HTTPS, TOO_OLD = "This site needs https", "open for too long"
FORMS = ["/login", "/register", "/jobs", "/account/password", "/logout"]


@pytest.fixture
def real_app(make_app: Callable[..., Flask]) -> Callable[..., Flask]:
    """Create an app as a real site has it: with the Secure cookie."""
    from pydantic import SecretStr

    def make(**changed: Any) -> Flask:
        return make_app(waybill_demo=False, secret_key=SecretStr("a long random text of our own"), **changed)

    return make


def sent(browser: Browser, path: str, base_url: str, **headers: str) -> str:
    """Return the text that a user sees after sending a form.

    Without https their browser keeps no cookie, as this does.
    """
    secure = base_url.startswith("https") or headers.get("X-Forwarded-Proto") == "https"
    client = browser.client.application.test_client(use_cookies=secure)
    token = proof_in(client.get("/login", base_url=base_url, headers=headers).text)
    answer = client.post(path, base_url=base_url, headers=headers, data={"csrf_token": token, "email": "a@b.c"})
    return f"{answer.status_code} {answer.text}"


@pytest.mark.parametrize("path", FORMS)
def test_every_form_over_plain_http_says_that_https_is_required(real_app: Callable[..., Flask], path: str) -> None:
    with capture_logs() as logged:
        page = sent(Browser(real_app(proxy_hops=1)), path, "http://waybill.example")
    assert page.startswith("400 ") and HTTPS in page and "https:// at the start" in page and TOO_OLD not in page
    [line] = [line for line in logged if line["event"] == "request.not_https"]
    assert line["look_at"] == proxy_faults.NO_TLS and line["log_level"] == "warning"


def test_without_the_check_the_form_is_called_too_old(
    real_app: Callable[..., Flask], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the test can fail: without the check, the form is called too old."""
    monkeypatch.setattr(proxy_faults, "_cookie_cannot_be_sent", lambda: False)
    page = sent(Browser(real_app()), "/login", "http://waybill.example")
    assert page.startswith("400 ") and TOO_OLD in page and HTTPS not in page


def test_the_address_is_the_one_that_was_set_and_never_the_one_of_the_request(real_app: Callable[..., Flask]) -> None:
    page = sent(Browser(real_app(app_base_url="https://waybill.example")), "/login", "http://evil.example")
    assert "Open https://waybill.example instead." in page and "evil" not in page


def test_over_https_nothing_of_it_is_said(real_app: Callable[..., Flask]) -> None:
    browser = Browser(real_app(proxy_hops=1))
    for base_url, headers in (
        ("https://waybill.example", {}),
        ("http://waybill.example", {"X-Forwarded-Proto": "https"}),
    ):
        assert HTTPS not in sent(browser, "/login", base_url, **headers)
        answer = browser.client.post("/login", base_url=base_url, headers=headers, data={"csrf_token": "old"})
        assert HTTPS not in browser.client.post("/nothing", base_url="http://waybill.example").text
        assert answer.status_code == 400 and TOO_OLD in answer.text


@pytest.mark.parametrize(
    ("hops", "forwarded", "message"),
    [
        (0, "https", proxy_faults.HOPS_TOO_FEW),
        (2, "https", proxy_faults.HOPS_DIFFER),
        (1, "https, http", proxy_faults.HOPS_DIFFER),
        (1, "http", proxy_faults.NO_TLS),
        (1, "x" * 5000, proxy_faults.NO_TLS),
        (1, None, proxy_faults.NO_TLS),
    ],
)
def test_the_log_names_the_setting_that_does_not_fit(
    real_app: Callable[..., Flask], hops: int, forwarded: str | None, message: str
) -> None:
    headers = {} if forwarded is None else {"X-Forwarded-Proto": forwarded}
    with capture_logs() as logged:
        Browser(real_app(proxy_hops=hops)).client.post("/login", base_url="http://waybill.example", headers=headers)
    assert [line["look_at"] for line in logged if line["event"] == "request.not_https"] == [message]


def test_this_machine_is_told_about_its_browsers(real_app: Callable[..., Flask]) -> None:
    answer = real_app().test_client().post("/login", base_url="http://localhost:8000")
    assert HTTPS in answer.text and "Firefox and Chrome keep one without https; Safari does not." in answer.text


def test_what_needs_no_cookie_works_without_https(real_app: Callable[..., Flask], program: Program) -> None:
    app = real_app()
    assert {blueprint.name for blueprint in csrf._exempt_blueprints} == WITHOUT_COOKIES
    asking = Program(app, program.token)
    assert asking.ask("POST", "/jobs", json={"text": "words"}, base_url="http://waybill.example").status_code == 202
    assert HTTPS not in app.test_client().post("/embed/no-link", base_url="http://waybill.example").text


def test_a_fragment_that_htmx_asks_for_reloads_the_page(real_app: Callable[..., Flask]) -> None:
    client = real_app().test_client()
    answer = client.post("/login", base_url="http://waybill.example", headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["HX-Refresh"]) == (400, "true")


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "waybill.example"])
def test_a_proxy_that_names_another_host_is_named(real_app: Callable[..., Flask], host: str) -> None:
    """Check a proxy that names another host, with which the CSRF check compares; and the right name as a control."""
    headers = {"Sec-Fetch-Site": "same-origin", "Referer": "https://waybill.example/login"}
    with capture_logs() as logged:
        answer = real_app().test_client().post("/login", base_url=f"https://{host}", headers=headers)
    wrong = host != "waybill.example"
    assert answer.status_code == 400 and ("not set up correctly" in answer.text) is wrong
    assert (TOO_OLD in answer.text) is not wrong
    assert [line["event"] for line in logged if "look_at" in line] == ["request.host_is_lost"] * wrong


HOSTS = [
    *(("localhost", True), ("localhost:8000", True), ("waybill.localhost", True), ("127.0.0.1:8000", True)),
    *(("127.9.9.9", True), ("[::1]:8000", True), ("LOCALHOST", True), ("waybill.example", False)),
    *(("localhost.example", False), ("192.168.1.5", False), ("[2001:db8::1]", False), ("", False), ("[", False)),
]


@pytest.mark.parametrize(("host", "here"), HOSTS)
def test_which_hosts_are_this_machine(host: str, here: bool) -> None:
    assert is_loopback(host) is here


def with_address(settings: Settings, address: str | None, **changed: Any) -> Settings:
    from pydantic import SecretStr

    secret = SecretStr("a long random text of our own")
    update = {"waybill_demo": False, "secret_key": secret, "app_base_url": address, "proxy_hops": 1, **changed}
    return settings.model_copy(update=update)


@pytest.mark.parametrize("address", ["http://waybill.example", "http://10.1.1.1:8000", "http://waybill/prefix"])
def test_an_address_at_which_nobody_can_sign_in_is_refused_at_the_start(settings: Settings, address: str) -> None:
    with pytest.raises(SettingsWrong, match=r"^APP_BASE_URL starts with http://.*nobody could sign in.*https://\.$"):
        check_web(with_address(settings, address))
    check_web(with_address(settings, address.replace("http:", "https:")))


@pytest.mark.parametrize("address", [None, "http://localhost:8000", "http://127.0.0.1", "https://waybill.example"])
def test_an_address_that_works_is_taken(settings: Settings, address: str | None) -> None:
    check_web(with_address(settings, address))


@pytest.mark.parametrize(
    ("address", "hops", "level", "message"),
    [
        ("https://waybill.example", 1, "ok", "PROXY_HOPS=1"),
        ("https://waybill.example", 0, "WARN", "Set PROXY_HOPS"),
        ("http://waybill.example", 1, "FAIL", "APP_BASE_URL starts with http://"),
        ("http://localhost:8000", 1, "WARN", "Safari keeps no cookie"),
        (None, 1, "WARN", "Set APP_BASE_URL"),
    ],
)
def test_preflight_names_the_setting(
    settings: Settings, address: str | None, hops: int, level: str, message: str
) -> None:
    found = site_address.finding(with_address(settings, address, proxy_hops=hops))
    assert str(found.level) == level and message in str(found).replace("https, ", "")


@pytest.mark.parametrize(
    "address",
    [
        "waybill.example",
        "ftp://waybill.example",
        "https://",
        "https://x.example/?a=b",
        "https://u:p@x.example",
        "http://[",
        "https://https://x.example",
    ],
)
def test_an_address_that_is_none_is_named_by_every_process(
    addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    for name, value in {**addresses, "AI_PROVIDER": "local", "APP_BASE_URL": address}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsWrong, match=r"^APP_BASE_URL must be an address like"):
        load()
    monkeypatch.setenv("APP_BASE_URL", "https://waybill.example")
    load()


def test_an_address_that_the_host_has_set_is_named_as_its_own(
    addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {**addresses, "AI_PROVIDER": "local", "SECRET_KEY": "a long random text of our own"}
    for name, value in {**ours, "COOLIFY_URL": "http://waybill.sslip.example"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsWrong, match="is taken from COOLIFY_URL, and starts with http://"):
        check_web(load())
