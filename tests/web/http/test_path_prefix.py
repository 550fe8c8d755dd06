"""Tests a site under a path: every URL of every page contains it, whether the proxy strips it or not.

Otherwise links would lead to another application of the same host, or nowhere.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from pydantic import SecretStr
from structlog.testing import capture_logs

from tasks.database import Database
from tasks.notifications.signed_links import Links
from tasks.settings import Settings, SettingsWrong
from tasks.startup.loading import load
from tests.support.openapi_check import CheckedClient
from tests.web.accounts.test_sign_in import registered, sign_in  # noqa: F401 (a fixture)
from tests.web.conftest import Browser, Person, Program, WebHarness, poll_address
from tests.web.http.test_hosts_and_redirects import addresses
from webapp.http.path_prefix import prefix_of

PREFIX = "/of/waybill"
BASE = f"https://example.org{PREFIX}"
ADDRESSES = re.compile(r"^(href|src|srcset|action|formaction|hx-(get|post|put|delete)|data-(icon|after-several))$")


class UnderAPath(CheckedClient):
    """A browser that follows the URLs of pages; its requests arrive with the path, or without."""

    strips = False

    def open(self, *given: Any, **more: Any) -> Any:
        path, *rest = given
        if isinstance(path, str) and not path.startswith(f"{PREFIX}/"):
            path = PREFIX + path
        if isinstance(path, str) and self.strips:
            path = path.removeprefix(PREFIX)
        return FlaskClient.open(self, path, *rest, **more)


class Stripped(UnderAPath):
    """The same browser behind a proxy that strips the path."""

    strips = True


@pytest.fixture(params=[UnderAPath, Stripped], ids=["passed on", "taken away"])
def prefixed(make_app: Callable[..., Flask], request: pytest.FixtureRequest) -> Flask:
    app = make_app(app_base_url=f"{BASE}/", registration="invite")
    app.test_client_class = request.param
    return app


class Found(HTMLParser):
    """Collects every URL of a page that leads to this host."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.addresses += [value for name, value in attributes if ADDRESSES.match(name) and value and value[0] == "/"]


def addresses_in(page: str) -> list[str]:
    found = Found()
    found.feed(page)
    return found.addresses


def crawl(app: Flask, people: list[Browser], job_id: uuid.UUID) -> Iterator[tuple[str, str]]:
    """Return each URL that any page, redirect or header of the site contains, with the page it is on."""
    for person in people:
        for path in addresses(app, job_id):
            if path.startswith("//") or "rq" in path:
                continue
            answer = person.client.get(path)
            if answer.location:
                yield path, answer.location
            if answer.mimetype == "text/html":
                yield from ((path, found) for found in addresses_in(answer.text))


@pytest.mark.thorough
def test_every_address_of_every_page_has_the_path(
    prefixed: Flask, app: Flask, ada: Person, olga: Person, bench: WebHarness
) -> None:
    job_id = bench.succeeded()
    bench.job()
    people: list[Browser] = [Person(prefixed, ada.id), Person(prefixed, olga.id), Browser(prefixed)]
    found = list(crawl(prefixed, people, job_id))
    assert len(found) > 500
    assert [one for one in found if not one[1].startswith(f"{PREFIX}/") or one[1].startswith(f"{PREFIX}{PREFIX}")] == []
    control = list(crawl(app, [Person(app, ada.id)], job_id))
    assert len(control) > 100 and not [one for one in control if one[1].startswith(PREFIX)]


def test_what_a_page_names_can_be_opened(prefixed: Flask, ada: Person, bench: WebHarness) -> None:
    bench.job()
    person = Person(prefixed, ada.id)
    home = person.get("/").text
    for address in set(addresses_in(home)):
        with person.get(address) as answer:
            assert address.startswith(f"{PREFIX}/") and answer.status_code in (200, 204, 405), address
    [job] = {address for address in addresses_in(home) if re.search(r"/jobs/[0-9a-f-]{36}$", address)}
    assert person.get(poll_address(person.get(job).text)).status_code in (200, 204)
    assert person.paste("Handed in under a path.").location.startswith(f"{PREFIX}/jobs/")


@pytest.mark.parametrize("asked", ["/account", f"{PREFIX}/account", "/other-program", "//evil.example", None])
def test_signing_in_leads_back_under_the_path(prefixed: Flask, registered: str, asked: str | None) -> None:  # noqa: F811
    answer = sign_in(Browser(prefixed), registered, **({"next": asked} if asked else {}))
    expected = f"{PREFIX}/account" if asked == f"{PREFIX}/account" else f"{PREFIX}/"
    assert (answer.status_code, answer.location) == (303, expected)


def test_who_is_not_signed_in_comes_back_to_where_they_were(prefixed: Flask, bench: WebHarness) -> None:
    job_id, browser = bench.job(), Browser(prefixed)
    sent = browser.get(f"/jobs/{job_id}").location
    assert sent == f"{PREFIX}/login?next={PREFIX}/jobs/{job_id}"
    headers = {"HX-Request": "true", "HX-Current-URL": f"{BASE}/jobs/{job_id}"}
    assert browser.get(f"/jobs/{job_id}/status", headers=headers).headers["HX-Redirect"] == sent
    assert browser.get("/").location == f"{PREFIX}/login"


def test_the_cookie_is_for_the_whole_host_as_its_name_demands(make_app: Callable[..., Flask]) -> None:
    app = make_app(app_base_url=BASE, waybill_demo=False, secret_key=SecretStr("a long random text of our own"))
    given = app.test_client().get(f"{PREFIX}/login", base_url="https://example.org").headers["Set-Cookie"]
    assert given.startswith("__Host-session=") and "Path=/;" in f"{given};" and "Domain" not in given


def test_addresses_outside_a_page_have_the_path_once(
    prefixed: Flask, program: Program, olga: Person, settings: Settings
) -> None:
    made = Program(prefixed, program.token).ask("POST", "/upload-links", json={}).get_json()
    assert made["upload_url"].startswith(f"{BASE}/embed/")
    assert prefixed.test_client().get("/api/openapi.json").get_json()["servers"] == [{"url": BASE}]
    assert f"{BASE}/api/v1/jobs" in prefixed.test_client().get("/api/docs").text
    invited = Person(prefixed, olga.id).post("/ops/invitations", {"days": "3"}, page="/ops/invitations")
    assert f"{BASE}/invitation/" in invited.text and f"{PREFIX}{PREFIX}" not in invited.text
    assert Links(settings.model_copy(update={"app_base_url": BASE})).page("/jobs/1") == f"{BASE}/jobs/1"


@pytest.mark.parametrize("hops", [0, 1])
def test_no_header_sets_the_path_and_another_one_is_told_once(make_app: Callable[..., Flask], hops: int) -> None:
    client = make_app(proxy_hops=hops).test_client()
    with capture_logs() as logged:
        for said in ("//evil.example", "/other", "/other"):
            page = client.get("/login", headers={"X-Forwarded-Prefix": said}, environ_overrides={"SCRIPT_NAME": said})
            assert "evil" not in page.text and "/other" not in page.text and page.status_code == 200
    assert [line["event"] for line in logged if "look_at" in line] == ["request.prefix_differs"]


def test_the_path_itself_may_be_said_by_the_proxy(make_app: Callable[..., Flask]) -> None:
    client = make_app(app_base_url=BASE).test_client()
    with capture_logs() as logged:
        assert f'action="{PREFIX}/login"' in client.get("/login", headers={"X-Forwarded-Prefix": f"{PREFIX}/"}).text
    assert not [line for line in logged if "look_at" in line]


@pytest.mark.parametrize("path", ["/ops", "/account/x", "/static", "/api", "/healthz"])
def test_a_path_that_is_a_page_of_the_site_is_refused(make_app: Callable[..., Flask], path: str) -> None:
    with pytest.raises(SettingsWrong, match=rf"^APP_BASE_URL: its path begins with {re.escape(path[:4])}"):
        make_app(app_base_url=f"https://example.org{path}")
    make_app(app_base_url=f"https://example.org/of{path}")


@pytest.mark.parametrize("path", ["/..", "/a//b", "/a b", "/%2e", "/a;b", "//x"])
def test_a_path_that_is_no_plain_one_is_refused(
    addresses: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    for name, value in {**addresses, "AI_PROVIDER": "local", "APP_BASE_URL": f"https://example.org{path}"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsWrong, match=r"^APP_BASE_URL must be an address"):
        load()


@pytest.mark.parametrize(
    ("address", "prefix"),
    [(None, ""), ("https://x.example", ""), ("https://x.example/", ""), ("https://x.example/a/", "/a"), (BASE, PREFIX)],
)
def test_the_path_of_an_address(address: str | None, prefix: str) -> None:
    assert prefix_of(address) == prefix


def test_an_api_program_works_under_the_path(prefixed: Flask, program: Program, database: Database) -> None:
    made = Program(prefixed, program.token).submit("Under a path.")
    assert made.status_code == 202 and made.location.startswith(f"{PREFIX}/api/v1/jobs/")
