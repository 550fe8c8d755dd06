"""Signs in to Waybill and reads its pages as a browser does: cookies, forms, and the address of the next poll."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from benchmarks.beside_peers.http_client import Client, Request, Response
from benchmarks.beside_peers.waybill import EMAIL, PASSWORD

COOKIE = re.compile(rb"(?im)^set-cookie: ([^=]+)=([^;\r]*)")
TOKEN = re.compile(rb'name="csrf_token"[^>]*value="([^"]+)"')
POLL = re.compile(rb'hx-get="([^"]+/status[^"]*)"')
LIST_POLL = re.compile(rb'hx-get="([^"]*jobs/mine[^"]*)"')
FORM = "application/x-www-form-urlencoded"


class Browser:
    """A browser that is signed in as the account of the measurement."""

    def __init__(self, port: int) -> None:
        self._client = Client(port)
        self._cookies: dict[str, str] = {}
        token = self.token(self.get("/login"))
        response = self.send("POST", "/login", {"csrf_token": token, "email": EMAIL, "password": PASSWORD})
        if response.status not in (302, 303):
            raise RuntimeError(f"the sign-in was refused: {response.status} {response.body[:300]!r}")

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of a request that htmx sends."""
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items()), "HX-Request": "true"}

    def get(self, path: str) -> Response:
        return self.send("GET", path)

    def send(self, method: str, path: str, form: Mapping[str, Any] | None = None) -> Response:
        """Send a request, and keep the cookies of its response."""
        headers = {"Cookie": self.headers["Cookie"]} if self._cookies else {}
        body = None if form is None else urlencode(form).encode()
        response = self._client.send(Request(method, path, body, {**headers, "Content-Type": FORM}))
        self._cookies |= {name.decode(): value.decode() for name, value in COOKIE.findall(response.head)}
        return response

    @staticmethod
    def token(page: Response) -> str:
        """Return the token of a page's form."""
        found = TOKEN.search(page.body)
        if found is None:
            raise RuntimeError(f"no form on a page with status {page.status}")
        return found[1].decode()


def next_poll(body: bytes, pattern: re.Pattern[bytes] = POLL) -> str | None:
    """Return the address that a page polls next; None if it does not poll."""
    found = pattern.search(body)
    return found[1].decode().replace("&amp;", "&") if found else None
