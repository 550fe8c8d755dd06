"""How often a form that anybody may send can be sent, so that nobody guesses, and no stranger locks an owner out.

Counted are: one client, one client with one address, and one address whoever asks. None of them counts for a browser in
which the account has been signed in to; that one has a count of its own. So what strangers do never stops it.
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
"""Sign-ins: all of a client; wrong ones of a client at an address; wrong ones at an address from wherever.

The last is more than one client can use up, so it takes several to close an account to browsers that are not known.
"""
MAILS_OF_ONE_CLIENT, MAILS_OF_ONE_PAIR = "30 per hour", "5 per hour"
MAILS_TO_ONE_ADDRESS = parse("10 per hour")
"""What is asked for beyond that is answered like the rest, and not sent: the links of the first ten are good yet."""
GUESSED_AT = "guessed at from several places"
"""Marks the limit that a page has more to say about."""


def address_key() -> str:
    """Count what is asked about one address. A hash: Redis is told no addresses."""
    return "account:" + _hash(email_of_sign_in(request.form))


def pair_key() -> str:
    """Count what one client asks about one address."""
    return "pair:" + _hash(f"{client_address()} {email_of_sign_in(request.form)}")


def device_key() -> str:
    """Count what a known browser asks about an account."""
    return f"device:{known_device()}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_known() -> bool:
    """Whether the account whose address is typed has been signed in to in this browser."""
    return known_device() is not None


def is_unknown() -> bool:
    """Whether it has not, as far as the cookie shows."""
    return known_device() is None


def was_wrong(response: Response) -> bool:
    """Whether a sign-in was refused."""
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
    """Limit how often a form that has a mail sent can be sent by one client, `when` the site sends any."""

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
    """Count a mail to the address that is typed; False: it was sent as many already, so this one need not be.

    A known browser is always sent its mail. So is everybody where nobody can count.
    """
    if is_known():
        return True
    try:
        return limiter.limiter.hit(MAILS_TO_ONE_ADDRESS, "mail", request.endpoint or "", address_key())
    except limiter.storage.base_exceptions:
        return True
