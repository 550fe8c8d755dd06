"""The Chromium of this machine, and how it is started."""

from __future__ import annotations

import shutil

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


WHOLE = ("chromium", "chromium-browser", "google-chrome")
LIGHT = "chromium-headless-shell"
"""The same engine without what a screen needs: less than half the work. It has no notifications."""


def program(*, whole: bool = False) -> str | None:
    """Where it is; None: there is none. `whole`: not the light one."""
    names = WHOLE if whole else (LIGHT, *WHOLE)
    return next((found for name in names if (found := shutil.which(name))), None)
