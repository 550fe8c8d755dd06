"""Texts for people who submit a document through a link. They have no account, and read only what concerns them."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.i18n import _, lazy
from tasks.ledger.errors import Category
from tasks.ledger.states import State
from webapp.jobs.messages import Failure
from webapp.jobs.status import StatusPage
from webapp.text.numbers import duration_in_words
from webapp.upload_links.links import LinkState

FORM_TOO_OLD = lazy("The form was open for too long. Send it again; if you chose a file, choose it again first.")
NO_LONGER_OFFERED = lazy(
    "This form asks for something that is no longer available here. Tell the person who gave you the form."
)
HANDED_IN_GONE = Failure(
    lazy("There is nothing here any more"), lazy("The document was deleted, or this form was closed.")
)
CLOSED: Mapping[LinkState, Failure] = {
    LinkState.EXPIRED: Failure(lazy("This form has expired"), lazy("Ask the person who gave it to you for a new one.")),
    LinkState.USED_UP: Failure(
        lazy("No more documents can be submitted here"),
        lazy("This form has reached its limit. Documents already submitted are safe."),
    ),
    LinkState.REVOKED: Failure(lazy("This form was closed"), lazy("The person who gave it to you has closed it.")),
}
_QUOTE = lazy("Nothing is lost. Contact the person who gave you this form and quote the reference above.")


def too_often(seconds: int) -> str:
    return _("Too many requests. Try again in %(time)s.", time=duration_in_words(seconds))


def said_to_sender(page: StatusPage, *, result_shown: bool) -> Failure:
    """Return where the sender's document is. `result_shown` says that the sender may read the result."""
    state = page.job.state
    if state is State.QUEUED:
        if page.lane or page.no_worker or page.queue_away or page.overdue_seconds:
            return Failure(
                _("Accepted. This is taking longer than usual."),
                _("Your document is safe, and the work starts automatically."),
            )
        return Failure(_("Accepted. Waiting for its turn."), "")
    if state is State.RUNNING:
        return Failure(f"{page.words.making}.", "")
    if state is State.RETRY_WAIT:
        return Failure(page.failure.what, _("We’ll try again automatically."))
    if state is State.SUCCEEDED:
        return Failure(_("Done."), "" if result_shown else _("The person who gave you this form has the result."))
    if state is State.FAILED:
        about_document = page.job.error_category == Category.INVALID_DOCUMENT
        return Failure(page.failure.what, page.failure.so if about_document else _QUOTE)
    return Failure(
        _("This document was cancelled by the person who gave you the form."), _("It will not be processed.")
    )
