"""The two lines of docs/embed.md on a page of another site, under a strict policy of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Complaints, LiveSite
from tests.support import factories
from webapp.auth import api_tokens


class OtherSite:
    """A site with one page. `localhost` is another site than `127.0.0.1` to a browser."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://localhost:{port}"
        self.body = ""


@contextmanager
def other_site() -> Iterator[OtherSite]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Security-Policy", "default-src 'none'; frame-src http://127.0.0.1:*")
            self.end_headers()
            self.wfile.write(f"<!doctype html><title>Ours</title><h1>Our page</h1>{site.body}".encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    site = OtherSite(server.server_port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def make_link(page: Page, live_site: LiveSite, **wanted: Any) -> dict[str, Any]:
    with live_site.database.transaction() as session:
        token = api_tokens.make_token(session, factories.make_account(session), "our site")
    answer = page.request.post(
        f"{live_site.address}/api/v1/upload-links", headers={"Authorization": f"Bearer {token}"}, data=wanted
    )
    assert answer.status == 201, answer.text()
    return answer.json()  # type: ignore[no-any-return]


def login_frame(live_site: LiveSite) -> str:
    return f'<iframe src="{live_site.address}/login" height="300"></iframe>'


def in_a_frame_of_the_named_site_and_of_no_other(
    chromium: Browser, live_site: LiveSite, complaints: Complaints
) -> None:
    context = chromium.new_context()
    page = context.new_page()
    with other_site() as ours, other_site() as theirs:
        link = make_link(
            page,
            live_site,
            frame_origins=[ours.origin],
            show_result=True,
            max_uses=2,
            return_url=f"{ours.origin}/thanks",
        )
        ours.body = theirs.body = link["html"]

        page.goto(ours.origin)
        form = page.frame_locator("iframe")
        form.get_by_label("paste the text").fill("The north pier is closed until August, said the committee.")
        form.get_by_role("button", name="Summarize").click()
        status = form.locator("#job-status")
        expect(status).to_have_attribute("data-state", "running")
        live_site.fake.wait_for_requests(1)
        live_site.fake.release()
        expect(status).to_have_attribute("data-state", "succeeded")
        expect(form.locator("#result strong")).to_have_text("north pier")
        form.get_by_role("link", name="Submit another document").click()
        expect(form.get_by_role("button", name="Summarize")).to_be_visible()
        assert page.url == f"{ours.origin}/" and context.cookies() == []
        complaints.expect("frame-ancestors", "ERR_BLOCKED_BY_RESPONSE", "chrome-error:", "sandboxed")
        form.get_by_role("link", name="Back to localhost").click()
        page.wait_for_url(f"{ours.origin}/thanks")

        for origin, shown in ((theirs.origin, link["html"]), (ours.origin, login_frame(live_site))):
            ours.body = shown
            with page.expect_console_message(lambda said: "frame-ancestors" in said.text):
                page.goto(origin)
            assert page.frame_locator("iframe").locator("form").count() == 0
    context.close()


def without_scripts_in_the_strictest_frame(chromium: Browser, live_site: LiveSite) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    with other_site() as ours:
        link = make_link(page, live_site, frame_origins=[ours.origin])
        ours.body = f'<iframe src="{link["upload_url"]}" sandbox="allow-forms" height="700"></iframe>'
        page.goto(ours.origin)
        form = page.frame_locator("iframe")
        form.locator("input[type=file]").set_input_files(
            {"name": "harbour.txt", "mimeType": "text/plain", "buffer": factories.TEXT}
        )
        form.get_by_role("button", name="Summarize").click()

        def saved() -> bool:
            if form.get_by_role("link", name="Refresh status").count():
                form.get_by_role("link", name="Refresh status").click()
            return form.locator('#job-status[data-state="succeeded"]').count() == 1

        factories.wait_until(saved, every=0.3)
        expect(form.get_by_text("The person who gave you this form has the result.")).to_be_visible()
    context.close()


def test_two_lines_put_the_form_on_another_site(chromium: Browser, live_site: LiveSite, complaints: Complaints) -> None:
    in_a_frame_of_the_named_site_and_of_no_other(chromium, live_site, complaints)
    without_scripts_in_the_strictest_frame(chromium, live_site)
