"""The words about notices: what became of the last one, and why an address will not do."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.i18n import _, lazy

EMAIL_ON = lazy("You get an e-mail when a document is done.")
EMAIL_OFF = lazy("You won’t get any more e-mails.")
LINK_TOO_OLD = lazy("This link has expired or is incomplete. Turn e-mails on again to get a new one.")
TEST_SENT = lazy("The test is on its way. The outcome appears below in a moment.")
WEBHOOK_REMOVED = lazy("The webhook has been removed. We no longer send anything to it.")
TOO_MANY = lazy("Too many requests. Try again in a few minutes.")

TARGETS: Mapping[str, str] = {
    "not_https": lazy("Use a URL that starts with https://."),
    "has_password": lazy("Don’t put a user name or password in the URL; verify our signature instead."),
    "not_an_address": lazy("This is not a complete URL."),
    "not_public": lazy("This URL is not on the public internet, so we can’t send anything there."),
    "host_unknown": lazy("There is no host with this name."),
}

_OUTCOMES: Mapping[str, str] = {
    **TARGETS,
    "not_wanted": lazy("the webhook had been removed"),
    "not_public": lazy("its address is not on the public internet"),
    "host_unknown": lazy("its host name could not be found"),
    "timeout": lazy("no answer came in time"),
    "connect": lazy("no connection could be made"),
    "connection_broken": lazy("the connection broke"),
    "tls": lazy("its certificate was not valid"),
    "redirect": lazy("it redirected us, and we don’t follow redirects"),
    "gone": lazy("it answered that it is gone"),
    "expired": lazy("it could not be sent in time"),
    "recipient_refused": lazy("the mail server rejected this address"),
}


def confirm_first(address: str) -> str:
    return _("We have sent an e-mail to %(address)s. Open the link in it to turn e-mails on.", address=address)


def why_not_sent(code: str | None) -> str:
    """Return how a try ended, as the end of a sentence."""
    if code is not None and code.startswith("http_"):
        return _("it answered with status %(status)s", status=code.removeprefix("http_"))
    return str(_OUTCOMES.get(code or "") or _("something went wrong on our side"))
