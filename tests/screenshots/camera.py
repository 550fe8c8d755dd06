"""Defines and takes the pictures: one browser with a fixed size, colour scheme and time zone."""

from __future__ import annotations

import io
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page

from tests.screenshots.clock import NOW, before
from tests.screenshots.site import MARA, OPERATOR, PASSWORD

Scheme = Literal["light", "dark"]
WIDTH, PHONE, PHONE_HEIGHT = 1000, 390, 844
COLOURS = 256
LARGEST_BYTES, LARGEST_SUM = 120_000, 1_500_000


@dataclass(frozen=True)
class Picture:
    """A page as one user sees it. `height` None is the whole page. `who` None is an anonymous visitor."""

    name: str
    address: str
    who: str | None = MARA
    scheme: Scheme = "light"
    width: int = WIDTH
    height: int | None = None
    scale: float = 1


def pictures(jobs: Mapping[str, uuid.UUID], replay_id: uuid.UUID) -> list[Picture]:
    """Return all pictures, with these jobs of the scenario."""
    result, running = f"/jobs/{jobs['result']}", f"/jobs/{jobs['running']}"
    return [
        Picture("home-light", "/"),
        Picture("home-dark", "/", scheme="dark"),
        Picture("home-phone", "/", width=PHONE, height=PHONE_HEIGHT, scale=2),
        Picture("running", running),
        Picture("running-phone", running, width=PHONE, height=PHONE_HEIGHT, scale=2),
        Picture("retry", f"/jobs/{jobs['retrying']}"),
        Picture("result-light", result),
        Picture("result-dark", result, scheme="dark"),
        Picture("action-items", f"/jobs/{jobs['actions']}"),
        Picture("failed", f"/jobs/{jobs['failed']}"),
        Picture("account", "/account"),
        Picture("sign-in", "/login", who=None, height=480),
        Picture("ops-now", "/ops", who=OPERATOR, width=1200),
        Picture("ops-day", "/ops/day", who=OPERATOR, width=1200),
        Picture("ops-jobs", "/ops/jobs", who=OPERATOR, width=1200, height=1000),
        Picture("ops-replay", f"/ops/replays/{replay_id}", who=OPERATOR, width=1200),
    ]


class Camera:
    """Takes pictures of the site at an address. A user signs in once per size."""

    def __init__(self, browser: Browser, address: str) -> None:
        self._browser = browser
        self._address = address
        self._cookies: dict[str, list[object]] = {}

    def take(self, picture: Picture) -> bytes:
        """Return the picture as a small PNG. Raises AssertionError if the page shows an error."""
        context = self._browser.new_context(
            base_url=self._address,
            viewport={"width": picture.width, "height": picture.height or 700},
            device_scale_factor=picture.scale,
            color_scheme=picture.scheme,
            reduced_motion="reduce",
            locale="en-GB",
            timezone_id="UTC",
        )
        try:
            self._sign_in(context, picture.who)
            page = context.new_page()
            page.clock.install(time=before(minutes=1))
            page.clock.pause_at(NOW)
            answer = page.goto(picture.address, wait_until="load")
            assert answer is not None and answer.ok, (picture.name, answer)
            _fit(page, picture.width)
            return small(page.screenshot(full_page=picture.height is None, animations="disabled", caret="hide"))
        finally:
            context.close()

    def _sign_in(self, context: BrowserContext, who: str | None) -> None:
        if who is None:
            return
        if who not in self._cookies:
            page = context.new_page()
            page.goto("/login")
            page.get_by_label("E-mail").fill(who)
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("**/")
            page.close()
            self._cookies[who] = list(context.cookies())
        context.add_cookies(self._cookies[who])  # type: ignore[arg-type]


def _fit(page: Page, width: int) -> None:
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width, f"{page.url} is {wide} pixels wide, in a window of {width}"


def small(png: bytes) -> bytes:
    """Return the same picture with a palette: pages have few colours, and a repository keeps every file forever."""
    out = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        few = image.convert("RGB").quantize(COLOURS, kmeans=1, dither=Image.Dither.NONE)
        few.save(out, "PNG", optimize=True)
    return out.getvalue()


def keep(directory: Path, taken: Mapping[str, bytes]) -> None:
    """Write the pictures, and nothing else, into the directory. Raises AssertionError if they are too large."""
    large = {name: len(png) for name, png in taken.items() if len(png) > LARGEST_BYTES}
    assert not large, f"larger than {LARGEST_BYTES} bytes: {large}"
    assert sum(map(len, taken.values())) <= LARGEST_SUM
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.png"):
        old.unlink()
    for name, png in taken.items():
        (directory / f"{name}.png").write_bytes(png)
