"""What people read who hand in a document by a link. They have no account here, so they are told what concerns them."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.i18n import _, lazy
from tasks.ledger.errors import Category
from tasks.ledger.states import State
from webapp.jobs.messages import Failure
from webapp.jobs.status import StatusPage
from webapp.text.numbers import duration_in_words
from webapp.upload_links.links import LinkState

FORM_TOO_OLD = lazy("The form was open for too long. Press Hand in again; a file has to be chosen again first.")
NO_LONGER_OFFERED = lazy("What this form asks for is not done here any more. Tell whoever gave you this form.")
HANDED_IN_GONE = Failure(
    lazy("There is nothing here any more"), lazy("The document was deleted, or this form was closed.")
)
CLOSED: Mapping[LinkState, Failure] = {
    LinkState.EXPIRED: Failure(lazy("This form has expired"), lazy("Ask whoever gave it to you for a new one.")),
    LinkState.USED_UP: Failure(
        lazy("Nothing more can be handed in here"),
        lazy("This form took as many documents as it may. What was handed in is kept."),
    ),
    LinkState.REVOKED: Failure(lazy("This form was closed"), lazy("Whoever gave it to you has closed it.")),
}
_QUOTE = lazy("Nothing is lost. Quote the reference above to whoever gave you this form.")


def too_often(seconds: int) -> str:
    return _("That was too often. Try again in %(time)s.", time=duration_in_words(seconds))


def said_to_sender(page: StatusPage, *, result_shown: bool) -> Failure:
    """Where their document is. `result_shown`: they may read what was made of it."""
    state = page.job.state
    if state is State.QUEUED:
        if page.lane or page.no_worker or page.queue_away or page.overdue_seconds:
            return Failure(_("Accepted. It waits longer than usual."), _("It is kept, and the work starts by itself."))
        return Failure(_("Accepted. Waiting for its turn."), "")
    if state is State.RUNNING:
        return Failure(f"{page.words.making}.", "")
    if state is State.RETRY_WAIT:
        return Failure(page.failure.what, _("It is tried again by itself."))
    if state is State.SUCCEEDED:
        return Failure(_("Done."), "" if result_shown else _("Whoever gave you this form has the result."))
    if state is State.FAILED:
        about_document = page.job.error_category == Category.INVALID_DOCUMENT
        return Failure(page.failure.what, page.failure.so if about_document else _QUOTE)
    return Failure(_("Whoever gave you this form has withdrawn it."), _("Nothing more will be done with it."))
