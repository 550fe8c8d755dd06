"""The words about notices: what became of the last one, and why an address will not do."""

from __future__ import annotations

from collections.abc import Mapping

CONFIRM_FIRST = "We have sent a mail to {address}. Open the link in it, and mails are switched on."
EMAIL_ON = "You get an e-mail when a document is done."
EMAIL_OFF = "You get no more e-mails."
LINK_TOO_OLD = "This link is too old or incomplete. Switch e-mails on again, and a new one is sent."
TEST_SENT = "The test is on its way. Its outcome appears below in a moment."
WEBHOOK_REMOVED = "The webhook has been removed. Nothing is sent to it any more."
TOO_MANY = "That was asked for too often. Try again in a few minutes."

TARGETS: Mapping[str, str] = {
    "not_https": "Use an address that starts with https://.",
    "has_password": "Leave name and password out of the address. Check our signature instead.",
    "not_an_address": "This is not a complete address.",
    "not_public": "This address does not belong to the open internet, so nothing can be sent there.",
    "host_unknown": "There is no host of this name.",
}

_OUTCOMES: Mapping[str, str] = {
    **TARGETS,
    "not_wanted": "the webhook had been removed",
    "not_public": "its address is not one of the open internet",
    "host_unknown": "its host name could not be found",
    "timeout": "no answer came in time",
    "connect": "no connection could be made",
    "connection_broken": "the connection broke",
    "tls": "its certificate was not valid",
    "redirect": "it sent us elsewhere, which is not followed",
    "gone": "it said that it is gone",
    "expired": "it could not be sent in time",
    "recipient_refused": "the mail server did not take this address",
}


def why_not_sent(code: str | None) -> str:
    """How a try ended, as the end of a sentence."""
    if code is not None and code.startswith("http_"):
        return f"it answered with status {code.removeprefix('http_')}"
    return _OUTCOMES.get(code or "", "something went wrong on our side")
