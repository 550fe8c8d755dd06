"""Checks where a webhook may go: by https, to a public address, and only to the address that was checked.

An attacker may have chosen the URL, to reach services that only this server can reach: its own ports, its neighbours,
the host's metadata service. So the name is resolved once, every answer must be public, and the connection is made to
the same address that was checked.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

MAX_URL_LENGTH = 500
# Networks that `is_global` accepts in some Python versions, and networks that map to internal addresses.
REFUSED = tuple(
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",  # protocol assignments; a metadata service lives in it
        "192.88.99.0/24",  # 6to4 relays
        "168.63.129.16/32",  # a host's own service under a public address
        "::/96",  # IPv4-compatible
        "::ffff:0:0/96",  # IPv4-mapped
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",  # NAT64, local
        "2001::/32",  # Teredo
        "2002::/16",  # 6to4
    )
)
PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")
Resolve = Callable[..., Sequence[Any]]


class TargetRefused(Exception):
    """Raised for a refused target. `code`: not_https, not_an_address, has_password, not_public or host_unknown."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Target:
    """Represents a parsed URL. `path` includes the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def netloc(self) -> str:
        """Return the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = {"https": 443, "http": 80}[self.scheme]
        return host if self.port == default else f"{host}:{self.port}"


def read_target(url: str, *, loopback: bool) -> Target:
    """Parse the URL of a target, without resolving its name. `loopback` allows http, for this machine.

    Raises TargetRefused.
    """
    if len(url) > MAX_URL_LENGTH or not url.isascii() or any(ord(character) < 33 for character in url):
        raise TargetRefused("not_an_address")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise TargetRefused("not_an_address") from None
    if parts.scheme not in (("https", "http") if loopback else ("https",)):
        raise TargetRefused("not_https")
    if not parts.hostname or "\\" in url or port == 0:
        raise TargetRefused("not_an_address")
    if parts.username is not None or parts.password is not None:
        raise TargetRefused("has_password")
    if _is_ip(parts.hostname) and not is_public(parts.hostname) and not (loopback and _is_loopback(parts.hostname)):
        raise TargetRefused("not_public")
    path = parts.path or "/"
    return Target(
        parts.scheme,
        parts.hostname,
        port or (443 if parts.scheme == "https" else 80),
        f"{path}?{parts.query}" if parts.query else path,
    )


def is_public(address: str) -> bool:
    """Return True if this IP address belongs to the public internet, and maps to nothing else."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if not found.is_global or found.is_multicast or found.is_reserved:
        return False
    if found.version == 6 and (found not in PUBLIC_IPV6 or found.scope_id is not None):
        return False
    return not any(found in network for network in REFUSED if network.version == found.version)


def addresses_of(target: Target, *, loopback: bool, resolve: Resolve = socket.getaddrinfo) -> list[str]:
    """Resolve the host and return the addresses to connect to.

    Raises TargetRefused if any of them is not public. `loopback` allows this machine, the only target for http.
    """
    try:
        answers = resolve(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise TargetRefused("host_unknown") from None
    found = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
    if not found:
        raise TargetRefused("host_unknown")
    for address in found:
        is_allowed_loopback = loopback and _is_loopback(address)
        if not is_allowed_loopback and (target.scheme != "https" or not is_public(address)):
            raise TargetRefused("not_public")
    return found


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
