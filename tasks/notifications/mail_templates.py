"""What the mails say. A sort of mail is a function from facts to words, entered in `MAILS` under its event's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.i18n import _, speaking
from tasks.notifications.signed_links import Links

LONGEST_SUBJECT = 120
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Mail:
    """A mail in plain text. The subject is made one short line when it is sent."""

    subject: str
    text: str


Words = Callable[[Facts, Links], Mail]


def in_words(what: str, facts: Facts, links: Links) -> Mail | None:
    """The mail about an event, in the language that its reader spoke when it was asked for; None: we have no words.

    Operators' mails name none, and so are English.
    """
    words = MAILS.get(what)
    if words is None:
        return None
    with speaking(facts.get("language")):
        return words(facts, links)


def _why(links: Links) -> str:
    why = _("You get this mail because you asked for it. Change that here:")
    return f"{why}\n{links.page('/account/notices')}\n"


def saved(facts: Facts, links: Links) -> Mail:
    """A job of the reader's succeeded."""
    page = links.page(f"/jobs/{facts['id']}")
    what = _("What you asked for is done and saved:")
    return Mail(
        _("Saved: %(title)s", title=facts["title"]),
        f"{what}\n\n  {facts['title']}\n  {page}\n\n{_why(links)}",
    )


def stopped(facts: Facts, links: Links) -> Mail:
    """A job of the reader's failed. Why stands on its page, in the words that are kept there."""
    page = links.page(f"/jobs/{facts['id']}")
    what = _("The work on your document has stopped. What happened, and what you can do, is on its page:")
    return Mail(
        _("Stopped: %(title)s", title=facts["title"]),
        f"{what}\n\n  {facts['title']}\n  {page}\n\n{_why(links)}",
    )


def confirm(facts: Facts, links: Links) -> Mail:
    """Whoever registered with this address wants mails. Holds nothing that they wrote."""
    link = links.signed("/account/notices/confirm", "confirm mail address", [facts["account"], facts["address"]])
    return Mail(
        _("Confirm your e-mail address"),
        _(
            "Somebody, most likely you, wants an e-mail at this address when a document is done at\n%(site)s\n\n"
            "If that was you, confirm it within a day:\n%(link)s\n\nIf it was not you, do nothing. No further mail "
            "comes.\n",
            site=links.page("/"),
            link=link,
        ),
    )


def reset(facts: Facts, links: Links) -> Mail:
    """Somebody has forgotten the password of the account with this address."""
    link = links.signed("/reset", "password reset", [facts["account"], facts["stamp"]])
    return Mail(
        _("A new password"),
        _(
            "Somebody, most likely you, wants a new password for your account at\n%(site)s\n\n"
            "Choose one within an hour. The link works once:\n%(link)s\n\n"
            "If it was not you, do nothing. Nothing was changed.\n",
            site=links.page("/"),
            link=link,
        ),
    )


def password_changed(facts: Facts, links: Links) -> Mail:
    """The password of the reader's account was changed."""
    return Mail(
        _("Your password was changed"),
        _(
            "The password of your account was changed, and all other sessions were ended, at\n%(site)s\n\n"
            "If it was not you, take your account back:\n%(reset)s\n",
            site=links.page("/"),
            reset=links.page("/reset"),
        ),
    )


def register(facts: Facts, links: Links) -> Mail:
    """Somebody wants an account with this address, which has none. Holds nothing that they wrote."""
    link = links.signed("/register", "registration", [facts["address"], facts["invitation"]])
    return Mail(
        _("Your account"),
        _(
            "Somebody, most likely you, wants an account with this address at\n%(site)s\n\n"
            "Choose a password within a day, and the account is there:\n%(link)s\n\n"
            "If it was not you, do nothing. No account is made.\n",
            site=links.page("/"),
            link=link,
        ),
    )


def registered_before(facts: Facts, links: Links) -> Mail:
    """Somebody wants an account with this address, which has one."""
    return Mail(
        _("You have an account already"),
        _(
            "Somebody, most likely you, wanted an account with this address at\n%(site)s\n\n"
            "You have one already. Sign in:\n%(sign_in)s\n\n"
            "If you have forgotten the password:\n%(reset)s\n\n"
            "If it was not you, do nothing. Nothing was changed.\n",
            site=links.page("/"),
            sign_in=links.page("/login"),
            reset=links.page("/reset"),
        ),
    )


def test(facts: Facts, links: Links) -> Mail:
    """The reader asked whether mail arrives."""
    said = _("You asked for this test. Mail from this site reaches you.")
    return Mail(_("A test"), f"{said}\n\n{_why(links)}")


_ALERTS: Mapping[str, tuple[str, str]] = {
    "queue_age": ("Work waits for too long", "Is a worker running, and has it free slots?"),
    "failures": ("Many jobs fail", "The list of failed jobs says why: python -m tasks jobs list --state failed"),
    "orphans": ("Jobs are owed nothing", "This should never be. The log of the worker says more."),
    "lane_stopped": (
        "The AI service refuses this site",
        "Put right what the cause names, then: python -m tasks ops resume",
    ),
}


def alert(facts: Facts, links: Links) -> Mail:
    """A limit of the site was passed, still is, or is kept again."""
    about, remedy = _ALERTS.get(str(facts["kind"]), (str(facts["kind"]), ""))
    since = f"Since: {facts['began_at']}"
    measured = "\n".join(f"{name}: {value}" for name, value in facts["measured"].items() if value is not None)
    if facts["phase"] == "over":
        return Mail(f"Over: {about}", f"{about}: this is over.\n\n{since}\n\n{links.page('/')}\n")
    first = "Still: " if facts["phase"] == "repeated" else "Alert: "
    return Mail(f"{first}{about}", f"{about}.\n\n{measured}\n{since}\n\n{remedy}\n\n{links.page('/')}\n")


MAILS: dict[str, Words] = {
    "job.succeeded": saved,
    "job.failed": stopped,
    "email.confirm": confirm,
    "password.reset": reset,
    "password.changed": password_changed,
    "registration.confirm": register,
    "registration.known": registered_before,
    "test": test,
    "alert.began": alert,
    "alert.repeated": alert,
    "alert.over": alert,
}


def one_line(text: str) -> str:
    """A subject: no line break, no control character, and not long."""
    flat = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return flat if len(flat) <= LONGEST_SUBJECT else f"{flat[: LONGEST_SUBJECT - 1].rstrip()}…"
