"""The extensions, made once and joined to an app in `create_app`."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address, ip_network
from urllib.parse import urlsplit

from flask import request
from flask_limiter import Limiter
from flask_login import LoginManager
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from flask_wtf.csrf import CSRFProtect  # type: ignore[import-untyped]
from htmx_flask import Htmx
from sqlalchemy.orm import DeclarativeBase

from tasks.ledger.models import Base


class WebBase(DeclarativeBase):
    """The ledger's tables under Flask-SQLAlchemy, which insists on making a base of its own."""

    metadata = Base.metadata


ONE_SUBSCRIBER = 64
"""Bits of an IPv6 address that a provider gives to one line. The others are its owner's to choose, for each request."""


def client_address() -> str:
    """Who is counted where nobody is signed in: the address that the last trusted proxy saw, or the connection's."""
    return subscriber(request.remote_addr or "")


def subscriber(given: str) -> str:
    """The line that an address belongs to: all addresses that its owner may choose from are one."""
    try:
        address = ip_address(_without_port(given))
    except ValueError:
        return given
    if isinstance(address, IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((int(address), ONE_SUBSCRIBER), strict=False))


def _without_port(given: str) -> str:
    """Some proxies write the port too, which differs from one request to the next."""
    if given.startswith("[") or given.count(":") == 1:
        return urlsplit(f"//{given}").hostname or ""
    return given


db = SQLAlchemy(model_class=WebBase, session_options={"expire_on_commit": False})
migrate = Migrate(db=db)
csrf = CSRFProtect()
login = LoginManager()
# Counted: sign-in, registration, refused API tokens, notices on demand. Without Redis each process counts for itself.
limiter = Limiter(key_func=client_address, in_memory_fallback_enabled=True, swallow_errors=True)
htmx = Htmx()
