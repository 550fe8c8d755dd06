"""The URLs of the database, Redis and the site: the names that hosts give them, their checks, and TLS."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from tasks.settings import url_parameters

if TYPE_CHECKING:
    from tasks.settings import Settings

POSTGRES_SCHEMES = ("postgres", "postgresql", "postgresql+psycopg")
REDIS_SCHEMES = ("redis", "rediss", "unix")
A_PATH = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?")
"""Matches the path that APP_BASE_URL may have: plain segments, none of which is `..`."""


def _as_it_is(value: str) -> str:
    return value


def _first_of_list(value: str) -> str:
    return value.split(",")[0].strip()


Reading = Callable[[str], str]
HOST_NAMES: Mapping[str, tuple[tuple[str, Reading], ...]] = {
    "database_url": (("SCALINGO_POSTGRESQL_URL", _as_it_is), ("POSTGRESQL_ADDON_URI", _as_it_is)),
    "redis_url": (("REDIS_TLS_URL", _as_it_is), ("SCALINGO_REDIS_URL", _as_it_is)),
    "app_base_url": (
        ("RENDER_EXTERNAL_URL", _as_it_is),
        ("RAILWAY_PUBLIC_DOMAIN", "https://{}".format),
        ("APP_URL", _as_it_is),
        ("COOLIFY_URL", _first_of_list),
        ("FLY_APP_NAME", "https://{}.fly.dev".format),
    ),
}
"""Lists the names that hosts give our settings, in the order in which they are tried. Our own name, if set, wins."""


class HostNames(PydanticBaseSettingsSource):
    """Reads settings under the names that hosts give them. An empty variable counts as not set."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the value of the first of the host's names that is set, in our form; None if none is."""
        for name, reading in HOST_NAMES.get(field_name, ()):
            value = os.environ.get(name, "").strip()
            if value:
                return reading(value), field_name, False
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return all settings that the host has set under its own names."""
        values = {name: self.get_field_value(self.settings_cls.model_fields[name], name)[0] for name in HOST_NAMES}
        return {name: value for name, value in values.items() if value is not None}


def with_our_driver(address: str) -> str:
    """Return a database URL for SQLAlchemy, with the psycopg 3 driver. Hosts hand out `postgres://`."""
    _, _, rest = address.partition("://")
    return f"postgresql+psycopg://{rest}"


def redis_tls(settings: Settings) -> dict[str, Any]:
    """Return the client options that say how to check the server's certificate; empty for a URL without TLS.

    Every Redis client uses them, so that no process checks less, or more, than the others.
    """
    if scheme_of(settings.redis_url.get_secret_value()) != "rediss":
        return {}
    if not settings.redis_tls_verify:
        return {"ssl_cert_reqs": "none", "ssl_check_hostname": False}
    return {"ssl_ca_certs": None if settings.redis_ca_file is None else str(settings.redis_ca_file)}


def problems(settings: Settings) -> list[str]:
    """Return a line for each problem with the URLs, which names the setting and never its value."""
    given = (
        ("DATABASE_URL", settings.database_url, POSTGRES_SCHEMES),
        ("DIRECT_DATABASE_URL", settings.direct_database_url, POSTGRES_SCHEMES),
        ("REDIS_URL", settings.redis_url, REDIS_SCHEMES),
    )
    found = [
        f"{name} must start with {' or '.join(scheme + '://' for scheme in schemes)}."
        for name, value, schemes in given
        if value is not None and scheme_of(value.get_secret_value()) not in schemes
    ]
    for name, value, schemes in given:
        if schemes is POSTGRES_SCHEMES and value is not None and scheme_of(value.get_secret_value()) in schemes:
            found += url_parameters.problems(name, value.get_secret_value())
    if settings.app_base_url is not None:
        found += base_url_faults(settings.app_base_url)
    if settings.redis_ca_file is not None and not _holds_certificates(settings.redis_ca_file):
        found.append("REDIS_CA_FILE: there is no such file, or it holds no certificate in PEM form.")
    return found


def is_loopback(host: str) -> bool:
    """Return True if this host, with or without a port, is the machine itself. Browsers trust it without https."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def base_url_faults(address: str) -> list[str]:
    """Return what is wrong with APP_BASE_URL, for every process: it must be the start of addresses."""
    try:
        parts = urlsplit(address)
        extra = parts.query or parts.fragment or "@" in parts.netloc or not A_PATH.fullmatch(parts.path)
        is_valid = parts.scheme in ("http", "https") and parts.hostname and not extra
    except ValueError:
        is_valid = False
    if is_valid:
        return []
    return [f"{base_url_name()} must be an address like https://waybill.example.org, without a query or a password."]


def plain_http_fault(address: str) -> str | None:
    """Return why nobody could sign in at this APP_BASE_URL; None if they can. Plain http works on loopback only."""
    parts = urlsplit(address)
    if parts.scheme != "http" or is_loopback(parts.netloc):
        return None
    return (
        f"{base_url_name()} starts with http://, and browsers keep the session cookie over https only: nobody could "
        "sign in. Put TLS in front (docs/own-server.md), and write https://."
    )


def base_url_name() -> str:
    """Return the name under which APP_BASE_URL was given: ours, or the one of the host."""
    if os.environ.get("APP_BASE_URL", "").strip():
        return "APP_BASE_URL"
    given = (name for name, _ in HOST_NAMES["app_base_url"] if os.environ.get(name, "").strip())
    name = next(given, None)
    return "APP_BASE_URL" if name is None else f"APP_BASE_URL, which is not set, is taken from {name}, and"


def scheme_of(address: str) -> str:
    """Return the part before `://`; empty if the URL cannot be parsed."""
    try:
        return urlsplit(address).scheme
    except ValueError:
        return ""


def _holds_certificates(file: Path) -> bool:
    try:
        return bool(ssl.create_default_context(cafile=str(file)).get_ca_certs())
    except OSError:  # ssl.SSLError is a subclass
        return False
