"""The texts of the mails. Each kind of mail is a function from facts to a `Mail`, listed in `MAILS` by its event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.i18n import _, use_language
from tasks.notifications.signed_links import Links

MAX_SUBJECT_LENGTH = 120
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Mail:
    """Represents a mail in plain text. The subject is shortened to one line when the mail is sent."""

    subject: str
    text: str


Words = Callable[[Facts, Links], Mail]


def render_mail(what: str, facts: Facts, links: Links) -> Mail | None:
    """Return the mail about an event; None if this code does not know the event.

    It is written in the language that the user was using when the mail was requested. Mails to operators name no
    language, so they are in English.
    """
    words = MAILS.get(what)
    if words is None:
        return None
    with use_language(facts.get("language")):
        return words(facts, links)


def _why(links: Links) -> str:
    why = _("You get this e-mail because you asked for it. Change your settings here:")
    return f"{why}\n{links.page('/account/notices')}\n"


def saved(facts: Facts, links: Links) -> Mail:
    """Return the mail that says that a job succeeded."""
    page = links.page(f"/jobs/{facts['id']}")
    what = _("Your result is ready:")
    return Mail(
        _("Saved: %(title)s", title=facts["title"]),
        f"{what}\n\n  {facts['title']}\n  {page}\n\n{_why(links)}",
    )


def stopped(facts: Facts, links: Links) -> Mail:
    """Return the mail that says that a job failed. The page of the job says why."""
    page = links.page(f"/jobs/{facts['id']}")
    what = _("We could not finish your document. See what happened and what you can do:")
    return Mail(
        _("Failed: %(title)s", title=facts["title"]),
        f"{what}\n\n  {facts['title']}\n  {page}\n\n{_why(links)}",
    )


def confirm(facts: Facts, links: Links) -> Mail:
    """Return the mail that confirms an address. Contains no text of the sender, who may not own the address."""
    link = links.signed("/account/notices/confirm", "confirm mail address", [facts["account"], facts["address"]])
    return Mail(
        _("Confirm your e-mail address"),
        _(
            "You (or someone using your address) asked for an e-mail when a document is done at\n%(site)s\n\n"
            "If this was you, confirm it within a day:\n%(link)s\n\n"
            "If this was not you, ignore this e-mail; we send no more.\n",
            site=links.page("/"),
            link=link,
        ),
    )


def reset(facts: Facts, links: Links) -> Mail:
    """Return the mail for an account whose password was forgotten."""
    link = links.signed("/reset", "password reset", [facts["account"], facts["stamp"]])
    return Mail(
        _("Reset your password"),
        _(
            "You (or someone using your address) asked to reset your password at\n%(site)s\n\n"
            "Choose a new password within an hour. The link works once:\n%(link)s\n\n"
            "If this was not you, ignore this e-mail; nothing has changed.\n",
            site=links.page("/"),
            link=link,
        ),
    )


def password_changed(facts: Facts, links: Links) -> Mail:
    """Return the mail that says that the password of the account was changed."""
    return Mail(
        _("Your password was changed"),
        _(
            "Your password was changed, and you were signed out on all other devices, at\n%(site)s\n\n"
            "If this was not you, reset your password now:\n%(reset)s\n",
            site=links.page("/"),
            reset=links.page("/reset"),
        ),
    )


def register(facts: Facts, links: Links) -> Mail:
    """Return the mail for a registration. Contains no text of the sender, who may not own the address."""
    link = links.signed("/register", "registration", [facts["address"], facts["invitation"]])
    return Mail(
        _("Create your account"),
        _(
            "You (or someone using your address) asked to create an account at\n%(site)s\n\n"
            "To create it, choose a password within a day:\n%(link)s\n\n"
            "If this was not you, ignore this e-mail; no account is created.\n",
            site=links.page("/"),
            link=link,
        ),
    )


def registered_before(facts: Facts, links: Links) -> Mail:
    """Return the mail for a registration with an address that already has an account."""
    return Mail(
        _("You already have an account"),
        _(
            "You (or someone using your address) asked to create an account at\n%(site)s\n\n"
            "You already have one. Sign in:\n%(sign_in)s\n\n"
            "If you have forgotten your password, reset it:\n%(reset)s\n\n"
            "If this was not you, ignore this e-mail; nothing has changed.\n",
            site=links.page("/"),
            sign_in=links.page("/login"),
            reset=links.page("/reset"),
        ),
    )


def test(facts: Facts, links: Links) -> Mail:
    """Return the test mail that the user asked for."""
    said = _("This is the test you asked for. E-mail from this site reaches you.")
    return Mail(_("Test e-mail"), f"{said}\n\n{_why(links)}")


_ALERTS: Mapping[str, tuple[str, str]] = {
    "queue_age": ("Work waits for too long", "Is a worker running, and has it free slots?"),
    "failures": ("Many jobs fail", "The list of failed jobs says why: python -m tasks jobs list --state failed"),
    "orphans": ("Jobs are owed nothing", "This should never be. The log of the worker says more."),
    "lane_stopped": (
        "The AI service refuses this site",
        "Put right what the cause names, then: python -m tasks ops resume",
    ),
    "lane_cooling": (
        "The AI service asked for a long wait",
        "Jobs wait until then, or fail at their deadlines. If the service is wrong, open the lane now: "
        "python -m tasks ops resume",
    ),
}


def alert(facts: Facts, links: Links) -> Mail:
    """Return the alert that a limit of the site was exceeded, still is, or is met again."""
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
    """Return the subject as one short line, without line breaks and control characters."""
    flat = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return flat if len(flat) <= MAX_SUBJECT_LENGTH else f"{flat[: MAX_SUBJECT_LENGTH - 1].rstrip()}…"
