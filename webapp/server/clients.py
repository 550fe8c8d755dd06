"""Identifies the client of a request, for the download queue, as the app does behind its proxies."""

from __future__ import annotations

from collections.abc import Mapping

from webapp.extensions import subscriber


def client_of(headers: Mapping[str, str], peer: str, proxy_hops: int) -> str:
    """Return the address that the last trusted proxy saw, or the connection's. `headers` use waitress's names."""
    if proxy_hops:
        seen = headers.get("X_FORWARDED_FOR", "").split(",")
        if len(seen) >= proxy_hops:
            return subscriber(seen[-proxy_hops].strip())
    return subscriber(peer)
