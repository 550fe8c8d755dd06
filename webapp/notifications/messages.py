"""The words about notices: what became of the last one, and why an address will not do."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.i18n import _, lazy

EMAIL_ON = lazy("You get an e-mail when a document is done.")
EMAIL_OFF = lazy("You get no more e-mails.")
LINK_TOO_OLD = lazy("This link is too old or incomplete. Switch e-mails on again, and a new one is sent.")
TEST_SENT = lazy("The test is on its way. Its outcome appears below in a moment.")
WEBHOOK_REMOVED = lazy("The webhook has been removed. Nothing is sent to it any more.")
TOO_MANY = lazy("That was asked for too often. Try again in a few minutes.")

TARGETS: Mapping[str, str] = {
    "not_https": lazy("Use an address that starts with https://."),
    "has_password": lazy("Leave name and password out of the address. Check our signature instead."),
    "not_an_address": lazy("This is not a complete address."),
    "not_public": lazy("This address does not belong to the open internet, so nothing can be sent there."),
    "host_unknown": lazy("There is no host of this name."),
}

_OUTCOMES: Mapping[str, str] = {
    **TARGETS,
    "not_wanted": lazy("the webhook had been removed"),
    "not_public": lazy("its address is not one of the open internet"),
    "host_unknown": lazy("its host name could not be found"),
    "timeout": lazy("no answer came in time"),
    "connect": lazy("no connection could be made"),
    "connection_broken": lazy("the connection broke"),
    "tls": lazy("its certificate was not valid"),
    "redirect": lazy("it sent us elsewhere, which is not followed"),
    "gone": lazy("it said that it is gone"),
    "expired": lazy("it could not be sent in time"),
    "recipient_refused": lazy("the mail server did not take this address"),
}


def confirm_first(address: str) -> str:
    return _("We have sent a mail to %(address)s. Open the link in it, and mails are switched on.", address=address)


def why_not_sent(code: str | None) -> str:
    """How a try ended, as the end of a sentence."""
    if code is not None and code.startswith("http_"):
        return _("it answered with status %(status)s", status=code.removeprefix("http_"))
    return str(_OUTCOMES.get(code or "") or _("something went wrong on our side"))
