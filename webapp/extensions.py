"""The Flask extensions, created once and initialized by `create_app`."""

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
    """Declares the ledger's tables under Flask-SQLAlchemy, which insists on creating its own base class."""

    metadata = Base.metadata


ONE_SUBSCRIBER = 64
"""Bits of an IPv6 address that a provider assigns to one line. The user can choose the others for each request."""


def client_address() -> str:
    """Return the client by which anonymous requests are counted: the address that the last trusted proxy saw.

    Without a proxy, it is the address of the connection.
    """
    return subscriber(request.remote_addr or "")


def subscriber(given: str) -> str:
    """Return the line that an IP address belongs to: all addresses that its user can choose from are equal."""
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
    """Return the address without a port. Some proxies append the port, which changes with each request."""
    if given.startswith("[") or given.count(":") == 1:
        return urlsplit(f"//{given}").hostname or ""
    return given


db = SQLAlchemy(model_class=WebBase, session_options={"expire_on_commit": False})
migrate = Migrate(db=db)
csrf = CSRFProtect()
login = LoginManager()
# Used for sign-in, registration, rejected API tokens and test notifications. Without Redis each process counts for
# itself.
limiter = Limiter(key_func=client_address, in_memory_fallback_enabled=True, swallow_errors=True)
htmx = Htmx()
