"""python -m tests.screenshots [--to DIRECTORY]      takes the pictures of the README and of docs/pictures.md

Starts its own site, plays a day of work on it, and photographs the pages. Needs Chromium; exits 2 without it.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

import structlog
from playwright.sync_api import sync_playwright

from tests.screenshots import scenario
from tests.screenshots.camera import Camera, keep, pictures
from tests.screenshots.clock import before
from tests.screenshots.sample_history import Past
from tests.screenshots.site import stage
from tests.support.browser import chromium
from tests.support.factories import ROOT


def main(arguments: list[str] | None = None) -> int:
    """Take all pictures. Returns 0 if that worked, 2 if there is no browser."""
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description="Takes the pictures of the pages.")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "img", metavar="DIRECTORY")
    directory: Path = parser.parse_args(arguments).to
    program = chromium.program()
    if program is None:
        print("There is no Chromium on this machine, so no pictures were taken. On Debian: apt-get install chromium")
        return 2
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print("Starting a site, and having a day's work done on it. This takes a minute.", flush=True)
    with stage() as site:
        replay_id = Past(site).play()
        scenario.change_her_mind(site)
        site.clock.set(before(days=3, hours=5))
        with site.working(), sync_playwright() as playwright:
            jobs = scenario.play(site)
            browser = playwright.chromium.launch(executable_path=program, args=chromium.FLAGS)
            camera = Camera(browser, site.address)
            taken = {picture.name: camera.take(picture) for picture in pictures(jobs, replay_id)}
            browser.close()
    keep(directory, taken)
    for name, png in taken.items():
        print(f"{len(png) / 1000:7.1f} kB  {name}.png")
    print(f"{sum(map(len, taken.values())) / 1000:7.1f} kB in {directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
