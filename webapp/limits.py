"""The limits of an account as text: what is left, which limit is reached, and when the next document is possible."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from flask import get_template_attribute
from markupsafe import Markup

from tasks.i18n import _, gettext, lazy
from tasks.ledger.accounts import limits
from tasks.ledger.accounts.limits import Allowance, Limit, LimitReached, LimitUsage
from webapp.auth.sessions import current_account
from webapp.database import reading
from webapp.http.form_fields import whole_number
from webapp.http.rejection import NotAccepted
from webapp.services import services
from webapp.text.dates import clock_in_words, day_in_words
from webapp.text.numbers import number

NAMES = {
    Limit.JOBS_PER_DAY: lazy("Documents submitted in the last 24 hours"),
    Limit.JOBS_AT_ONCE: lazy("Documents in progress"),
    Limit.TOKENS_PER_MONTH: lazy("Tokens used this month"),
}
HIGHEST_VALUES = {Limit.JOBS_PER_DAY: 2**31 - 1, Limit.JOBS_AT_ONCE: 2**31 - 1, Limit.TOKENS_PER_MONTH: 2**63 - 1}
"""The highest values that can be stored."""


@dataclass(frozen=True)
class TimedMessage:
    """Text about a point in time, inserted at `%(moment)s` of `about`.

    As plain text it is in UTC; in a page, app.js can show it in the reader's own zone. It is rounded up to a minute, so
    that nobody comes back a few seconds too early.
    """

    before: str
    about: str
    until: datetime
    now: datetime

    @property
    def moment(self) -> datetime:
        """Return the point in time that is named."""
        return self.until + timedelta(seconds=-self.until.timestamp() % 60)

    @property
    def moment_in_words(self) -> str:
        """Return the point in time as text, with its day unless that is today."""
        day = "" if self.moment.date() == self.now.date() else f", {day_in_words(self.moment)}"
        return f"{clock_in_words(self.moment)}{day}"

    def __str__(self) -> str:
        return self.before + self.about % {"moment": self.moment_in_words}

    def __html__(self) -> str:
        moment = get_template_attribute("_macros.html", "moment")(self.moment, self.now)
        about = Markup.escape(self.about) % {"moment": Markup(moment)}
        # It must be one element, even where the parts of a notice are laid out below each other.
        return Markup("<span>{}{}</span>").format(self.before, about)


class OverLimit(NotAccepted):
    """Raised if a limit of the account is reached."""

    def __init__(self, allowance: Allowance) -> None:
        assert allowance.until is not None, "a limit that is reached ends some time"
        self.allowance = allowance
        self.timed_message = limit_message(allowance, allowance.until)
        super().__init__(str(allowance.limit), str(self.timed_message), field="limit", status=429)
        seconds = max(1, math.ceil((allowance.until - allowance.now).total_seconds()))
        self.headers = {"Retry-After": str(seconds)}
        self.facts = {"until": self.timed_message.moment.isoformat(), "at": self.timed_message.moment_in_words}

    @property
    def shown_message(self) -> object:
        """Return the message as a page shows it."""
        return self.timed_message

    @property
    def message_for_sender(self) -> object:
        """Return the message for people who use an upload link of the account.

        It reveals nothing about the account's limits.
        """
        if self.allowance.limit is Limit.JOBS_AT_ONCE:
            about = gettext(
                "The person who gave you this form has reached a limit of this site. You can submit documents again "
                "by %(moment)s at the latest."
            )
        else:
            about = gettext(
                "The person who gave you this form has reached a limit of this site. You can submit documents again "
                "at %(moment)s."
            )
        return TimedMessage("", about, self.timed_message.until, self.timed_message.now)


def limit_message(allowance: Allowance, until: datetime) -> TimedMessage:
    """Return which limit is reached, and when it ends."""
    name, used = NAMES[allowance.limit], _used_of(allowance.used, allowance.maximum or 0)
    about = {
        Limit.JOBS_AT_ONCE: gettext(
            "You can submit the next one when one of these is done, by %(moment)s at the latest."
        ),
        Limit.TOKENS_PER_MONTH: gettext("You can submit the next document at %(moment)s."),
        Limit.JOBS_PER_DAY: gettext("You can submit the next one at %(moment)s."),
    }
    return TimedMessage(f"{name}: {used}. ", about[allowance.limit], until, allowance.now)


def _used_of(used: int, limit: int) -> str:
    return _("%(used)s of %(most)s", used=number(used), most=number(limit))


def limit_in(text: str, limit: Limit) -> int | None:
    """Return the limit that an operator submitted, 0 for none; None if it is invalid."""
    number = whole_number(text)
    return number if number is not None and number <= HIGHEST_VALUES[limit] else None


@contextmanager
def within_limits() -> Iterator[None]:
    """Translate LimitReached inside the block into OverLimit, which has a message for the user."""
    try:
        yield
    except LimitReached as reached:
        raise OverLimit(reached.allowance) from None


def usage_of_account(account_id: uuid.UUID) -> LimitUsage:
    """Return how far the account has used up its limits."""
    with reading() as connection:
        return limits.usage_of(connection, account_id, services().settings.limits)


@dataclass(frozen=True)
class AccountLimits:
    """Holds the limits of an account for its pages. `with_tokens` shows token usage even without a limit."""

    usage: LimitUsage
    with_tokens: bool

    @property
    def reached(self) -> TimedMessage | None:
        """Return the limit that blocks new documents now; of several, the one that ends last. None if there is none."""
        reached = [(usage.until, usage) for usage in self.usage.values() if usage.until is not None]
        if not reached:
            return None
        until, last = max(reached, key=lambda pair: pair[0])
        return limit_message(last, until)

    @property
    def left_today(self) -> str | None:
        """Return how many documents may still be submitted today; None if there is no limit."""
        of_day = self.usage[Limit.JOBS_PER_DAY]
        if of_day.maximum is None:
            return None
        return _("%(left)s of %(most)s left today", left=number(of_day.left or 0), most=number(of_day.maximum))

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Return each limit with its usage; empty if there is none."""
        facts = []
        for limit, usage in self.usage.items():
            if usage.maximum is not None:
                facts.append((str(NAMES[limit]), _used_of(usage.used, usage.maximum)))
            elif limit is Limit.TOKENS_PER_MONTH and self.with_tokens:
                facts.append((str(NAMES[limit]), number(usage.used)))
        return facts


def my_limits() -> AccountLimits:
    """Return the limits for this user's pages. Unlimited tokens are shown to users who may see costs."""
    return AccountLimits(
        usage_of_account(current_account().id), services().settings.show_cost_to_owner or current_account().is_operator
    )
