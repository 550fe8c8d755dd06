"""Serves static files under URLs that contain their hash, so that browsers may cache them forever."""

from __future__ import annotations

import hashlib
from pathlib import Path

from flask import Flask, url_for
from whitenoise import WhiteNoise  # type: ignore[import-untyped]

from webapp.http.security import HEADERS, ONE_YEAR

STATIC = Path(__file__).parents[2] / "static"


def init_app(app: Flask) -> None:
    """Serve `static/`, and let templates refer to its files by `asset('app.css')`."""
    versions = {
        str(path.relative_to(STATIC)): hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        for path in STATIC.rglob("*")
        if path.is_file()
    }

    def asset(name: str) -> str:
        return url_for("static", filename=name, v=versions[name])

    app.jinja_env.globals["asset"] = asset
    app.wsgi_app = WhiteNoise(  # type: ignore[method-assign]
        app.wsgi_app,
        root=str(STATIC),
        prefix="static/",
        max_age=ONE_YEAR,
        allow_all_origins=False,
        add_headers_function=_add_headers,
    )


def _add_headers(headers: dict[str, str], path: str, url: str) -> None:
    for name, value in HEADERS.items():
        headers[name] = value
