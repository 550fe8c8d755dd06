"""Gives access to the settings of the current app, for modules below `webapp.services`."""

from __future__ import annotations

from typing import cast

from flask import current_app

from tasks.settings import Settings


def site_settings() -> Settings:
    """Return the settings that the app was created with."""
    return cast(Settings, current_app.config["WAYBILL"])
