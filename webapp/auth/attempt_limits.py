"""Limits how often public forms can be sent, so that nobody guesses passwords, and no stranger locks an owner out.

Attempts are counted for one client, for one client with one e-mail address, and for one address regardless of the
client. None of these applies to a browser in which the account has been signed in to; that browser has its own count.
So what strangers do never stops it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from flask import Response, request
from limits import parse

from webapp.auth.email_addresses import email_of_sign_in
from webapp.auth.known_devices import known_device
from webapp.extensions import client_address, limiter

OF_ONE_CLIENT, OF_ONE_PAIR, OF_ONE_ADDRESS = "100 per 10 minutes", "10 per 10 minutes", "100 per hour"
"""Limits for sign-ins: all of a client; wrong ones of a client at an address; wrong ones at an address from anywhere.

The last is more than one client can use up, so it takes several to close an account to unknown browsers.
"""
MAILS_OF_ONE_CLIENT, MAILS_OF_ONE_PAIR = "30 per hour", "5 per hour"
MAILS_TO_ONE_ADDRESS = parse("10 per hour")
"""Requests beyond this get the usual response, but no mail: the links of the first ten still work."""
GUESSED_AT = "guessed at from several places"
"""Marks the limit that a page explains in more detail."""


def address_key() -> str:
    """Return the key that counts attempts at one e-mail address. It is a hash: Redis receives no addresses."""
    return "account:" + _hash(email_of_sign_in(request.form))


def pair_key() -> str:
    """Return the key that counts attempts of one client at one e-mail address."""
    return "pair:" + _hash(f"{client_address()} {email_of_sign_in(request.form)}")


def device_key() -> str:
    """Return the key that counts attempts of a known browser at an account."""
    return f"device:{known_device()}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_known() -> bool:
    """Return True if the submitted account has been signed in to in this browser."""
    return known_device() is not None


def is_unknown() -> bool:
    """Return True if it has not, as far as the cookie shows."""
    return known_device() is None


def was_wrong(response: Response) -> bool:
    """Return True if a sign-in was refused."""
    return response.status_code != 303


def limit_sign_ins(view: Callable[..., Any]) -> Callable[..., Any]:
    """Limit how often a form that signs in can be sent."""
    for limit in (
        limiter.limit(OF_ONE_PAIR, key_func=device_key, exempt_when=is_unknown, deduct_when=was_wrong),
        limiter.limit(
            OF_ONE_ADDRESS,
            key_func=address_key,
            exempt_when=is_known,
            deduct_when=was_wrong,
            error_message=GUESSED_AT,
        ),
        limiter.limit(OF_ONE_PAIR, key_func=pair_key, exempt_when=is_known, deduct_when=was_wrong),
        limiter.limit(OF_ONE_CLIENT, exempt_when=is_known),
    ):
        view = limit(view)
    return view


def limit_mails(when: Callable[[], bool]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Limit how often one client can send a form that triggers a mail; `when` tells if the site sends any."""

    def limited(view: Callable[..., Any]) -> Callable[..., Any]:
        for limit in (
            limiter.limit(MAILS_OF_ONE_PAIR, key_func=device_key, exempt_when=is_unknown),
            limiter.limit(MAILS_OF_ONE_PAIR, key_func=pair_key, exempt_when=lambda: not when() or is_known()),
            limiter.limit(MAILS_OF_ONE_CLIENT, exempt_when=is_known),
        ):
            view = limit(view)
        return view

    return limited


def may_be_mailed() -> bool:
    """Count a mail to the submitted address. Returns False if enough were sent, so that this one is not needed.

    A known browser always gets its mail. So does everybody while Redis is unreachable.
    """
    if is_known():
        return True
    try:
        return limiter.limiter.hit(MAILS_TO_ONE_ADDRESS, "mail", request.endpoint or "", address_key())
    except limiter.storage.base_exceptions:
        return True
