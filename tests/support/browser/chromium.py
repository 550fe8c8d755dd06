"""Finds and starts the Chromium of this machine."""

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
    # Features that no test sees: each costs the whole Chromium a process, or a part of every page.
    "--in-process-gpu",
    "--disable-software-rasterizer",
    "--disable-extensions",
    "--disable-component-extensions-with-background-pages",
    "--disable-default-apps",
    "--disable-features=Translate,OptimizationHints,MediaRouter,AutofillServerCommunication",
]


WHOLE = ("chromium", "chromium-browser", "google-chrome")
LIGHT = "chromium-headless-shell"
"""The same engine without screen output: less than half the work. It has no notifications."""


def program(*, whole: bool = False) -> str | None:
    """Return its path; None if there is none. `whole` excludes the light one."""
    names = WHOLE if whole else (LIGHT, *WHOLE)
    return next((found for name in names if (found := shutil.which(name))), None)


def description() -> str:
    """Return one line that says which browser the tests drive, and what that means for their time."""
    found = program()
    if found is None:
        return "browser: none, so the tests that need one are skipped (Debian and Ubuntu: chromium-headless-shell)"
    if found.endswith(LIGHT):
        return f"browser: {found}"
    return f"browser: {found}, the whole one. {LIGHT} does the same in less than half the processor time."
