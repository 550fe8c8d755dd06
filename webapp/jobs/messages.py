"""The words for what happened. No provider's or library's own message is ever shown; these are chosen instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tasks.i18n import _, lazy, ngettext
from tasks.intake.errors import Refusal
from tasks.ledger.errors import Category
from tasks.ledger.states import State
from tasks.worker.retry_policy import TRANSIENT
from tasks.workflows import Choice, Option
from webapp.text.numbers import number, size_in_words

BADGES: Mapping[State, str] = {
    State.QUEUED: lazy("Queued"),
    State.RUNNING: lazy("Working"),
    State.RETRY_WAIT: lazy("Waiting to retry"),
    State.SUCCEEDED: lazy("Saved"),
    State.FAILED: lazy("Failed"),
    State.CANCEL_REQUESTED: lazy("Cancelling"),
    State.CANCELLED: lazy("Cancelled"),
}

MOST_COUNTED = 100
"""Beyond so many jobs before one's own, the number says nothing more."""
OWNER_TRIES_AGAIN = "owner: try again"
"""The cause that is stored with a replay by the owner."""

NOTHING_HANDED_IN = lazy("Choose a file or paste some text first.")
BOTH_HANDED_IN = lazy("Choose a file or paste text, not both. To send the file, remove the text first.")
HANDED_IN_BEFORE = lazy("You already submitted this document with the same options. Here is that result.")
SEVERAL_HANDED_IN = lazy("Send one file per request.")
ORIGINAL_GONE = lazy("The document has been deleted. Submit it again to get a new result.")
NO_SUCH_WORKFLOW = lazy("This workflow does not exist.")
NO_SUCH_OPTION = lazy("This option does not exist.")
OPTION_WRONG = lazy("Choose one of the available options.")
NO_LONGER_OFFERED = lazy("This option is no longer available. Submit the document again with a current one.")
PAUSED_JOB = lazy("The operator has paused the work. Your document is safe and continues when the work resumes.")
PAUSED_SITE = lazy("The operator has paused the work. What you submit is safe and starts when the work resumes.")
ACCOUNT_DELETED = lazy("Your account and everything in it have been deleted. You are signed out.")
PASSWORD_WRONG = lazy("Wrong password. Nothing was deleted.")
HAND_IN_AGAIN = lazy("To get a result again, submit the document again.")
DOCUMENT_DELETED = lazy("The document and its results have been deleted.")
NOT_CONFIRMED = lazy("Tick the box to confirm. Nothing was deleted.")
KEY_REUSED = lazy(
    "You already sent this form with different content (see your list). Press Summarize again to send this version too."
)
FORM_TOO_OLD = lazy("The form was open for too long, or you have signed in again since. Press Summarize again.")
FORM_TOO_OLD_FILE = lazy("Your browser does not keep files: choose yours again.")
SIGNED_OUT = lazy(
    "You are signed out. Nothing has been sent, and your text is still here. Sign in in a new tab, then come back "
    "and press Summarize again."
)


@dataclass(frozen=True)
class Failure:
    """A failure as a page shows it: what happened, what it means, and what you can do."""

    what: str
    so: str


TRY_LATER = lazy("Your document is safe. Try again in a few minutes.")
ASK_OPERATOR = lazy("Contact the operator of this site, who can fix this and run it again. Quote the reference above.")
CANNOT_NOW = lazy("The service can’t work right now.")
COULD_NOT = lazy("The service could not do this.")
ONLY_THE_OPERATOR = frozenset({Category.AUTH, Category.PERMISSION, Category.QUOTA})
"""Causes that have nothing to do with the document, and that stay until the operator has done something."""

_BY_CATEGORY: Mapping[Category, Failure] = {
    Category.RATE_LIMITED: Failure(lazy("The AI service had too many requests."), TRY_LATER),
    Category.OVERLOADED: Failure(lazy("The AI service was busy."), TRY_LATER),
    Category.CONNECTION: Failure(lazy("The AI service could not be reached."), TRY_LATER),
    Category.TIMEOUT: Failure(lazy("The attempt took too long."), TRY_LATER),
    Category.UNCERTAIN: Failure(
        lazy("The AI service accepted the request, but no usable answer came back."),
        lazy("The call may have been billed. Trying again makes another call."),
    ),
    Category.AUTH: Failure(lazy("The AI service refused the credentials of this site."), ASK_OPERATOR),
    Category.PERMISSION: Failure(lazy("The AI service did not give this site permission."), ASK_OPERATOR),
    Category.INVALID_DOCUMENT: Failure(
        lazy("The document could not be read."), lazy("Check the file, or paste its text.")
    ),
    Category.INVALID_REQUEST: Failure(
        lazy("The AI service could not work with this document."), lazy("Try a shorter or simpler version.")
    ),
    Category.CONTENT_POLICY: Failure(
        lazy("The AI service declined to work on this document, because of its rules about content."),
        lazy("Trying again would end the same way."),
    ),
    Category.QUOTA: Failure(lazy("The budget of this site at the AI service was used up."), ASK_OPERATOR),
    Category.DEADLINE: Failure(lazy("Time ran out before the result was ready."), TRY_LATER),
    Category.CRASHED: Failure(lazy("The worker stopped unexpectedly."), TRY_LATER),
    Category.INTERNAL: Failure(
        lazy("Something went wrong on our side."),
        lazy(
            "Your document is safe. Try again. If it keeps failing, contact the operator and quote the reference above."
        ),
    ),
}

_BY_CODE: Mapping[tuple[Category, str], Failure] = {
    (Category.INVALID_DOCUMENT, Refusal.EMPTY): Failure(
        lazy("The document is empty."), lazy("Choose a document that contains text.")
    ),
    (Category.INVALID_DOCUMENT, Refusal.NO_TEXT): Failure(
        lazy("No text was found in the document."),
        lazy("Most likely it holds scanned pages. Run text recognition on it first, or paste the text."),
    ),
    (Category.INVALID_DOCUMENT, Refusal.LOCKED): Failure(
        lazy("The document is locked with a password."), lazy("Save a copy without the password, and submit that.")
    ),
    (Category.INVALID_DOCUMENT, Refusal.DAMAGED): Failure(
        lazy("The file is damaged or incomplete."),
        lazy("Save it again in the program that made it, or paste its text."),
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_LARGE_UNPACKED): Failure(
        lazy("The document becomes too large when it is unpacked."),
        lazy("Submit a smaller part of it, or paste the text."),
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_MANY_PAGES): Failure(
        lazy("The document has too many pages."), lazy("Submit a part of it.")
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_LONG): Failure(
        lazy("The document has too much text."), lazy("Submit a part of it.")
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_SLOW): Failure(
        lazy("Reading the document took too long."), lazy("Save it again in a simpler form, or paste its text.")
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_MUCH_MEMORY): Failure(
        lazy("The document needs too much memory to be read."),
        lazy("Save it again in a simpler form, or paste its text."),
    ),
    (Category.INVALID_DOCUMENT, Refusal.LEGACY_WORD): Failure(
        lazy("This is an old Word document (.doc)."), lazy("Save it as .docx or PDF, and submit that.")
    ),
    (Category.INVALID_DOCUMENT, Refusal.IMAGE): Failure(
        lazy("This is a picture. We can’t read pictures."),
        lazy("Run text recognition on it first, or paste the text."),
    ),
    (Category.INVALID_DOCUMENT, Refusal.UNSUPPORTED): Failure(
        lazy("This file type is not supported."),
        lazy("Use PDF, Word (.docx), OpenDocument, RTF, HTML, Markdown, CSV or plain text."),
    ),
    (Category.INVALID_DOCUMENT, "deleted"): Failure(
        lazy("The document was deleted before it was read."), lazy("Submit it again.")
    ),
    (Category.INVALID_REQUEST, "too_long"): Failure(
        lazy("The document is too long for the AI model."), lazy("Submit a part of it.")
    ),
    (Category.INVALID_REQUEST, "too_large"): Failure(
        lazy("The document is too long for the AI service."), lazy("Submit a part of it.")
    ),
    (Category.INVALID_REQUEST, "output_limit"): Failure(
        lazy("The AI service reached its length limit before it produced a result."), lazy("Choose a shorter length.")
    ),
    (Category.INVALID_REQUEST, "nothing_to_extract"): Failure(
        lazy("No whole sentence was found that could be extracted."), lazy("Submit a text with whole sentences.")
    ),
    (Category.PERMISSION, "local_not_installed"): Failure(
        lazy("The component that creates extracts was not installed on this server."), ASK_OPERATOR
    ),
    (Category.PERMISSION, "model_not_found"): Failure(
        lazy("The AI service did not know the configured AI model."), ASK_OPERATOR
    ),
    (Category.PERMISSION, "not_found"): Failure(
        lazy("The AI service did not know the configured AI model or address."), ASK_OPERATOR
    ),
    (Category.PERMISSION, "tls"): Failure(lazy("The AI service could not be reached safely."), ASK_OPERATOR),
    (Category.AUTH, "base_url"): Failure(
        lazy("The address of the AI service was configured incorrectly."), ASK_OPERATOR
    ),
    (Category.TIMEOUT, "call_budget"): Failure(lazy("The AI service did not accept the request in time."), TRY_LATER),
    (Category.UNCERTAIN, "call_budget"): Failure(
        lazy("The AI service did not answer in time."),
        lazy("The call may have been billed. Trying again makes another call."),
    ),
    (Category.DEADLINE, "asked_to_wait_too_long"): Failure(
        lazy("The AI service asked to wait longer than the time that was left."), TRY_LATER
    ),
    (Category.DEADLINE, "paused"): Failure(
        lazy("Time ran out while the operator of this site had paused the work."), TRY_LATER
    ),
    (Category.CRASHED, "interrupted_too_often"): Failure(
        lazy("The work was interrupted too often."),
        lazy("If it happens again, the document may be the cause: try a part of it."),
    ),
}


def failure_of(category: str | None, code: str | None) -> Failure:
    """Return the text for a cause. The code selects it where it is known, else the category."""
    known = Category(category) if category in set(Category) else Category.INTERNAL
    found = _BY_CODE.get((known, code or ""), _BY_CATEGORY[known])
    return Failure(str(found.what), str(found.so))


def lane_words(category: str, code: str | None, *, stopped: bool, filename: str | None) -> Failure:
    """Return why a job waits behind a closed lane, and for what. `filename` None: its text was pasted."""
    cause = failure_of(category, code).what
    if not stopped:
        return Failure(cause, "")
    return Failure(f"{CANNOT_NOW} {_blameless(filename)}", cause)


def ending_of(category: str | None, code: str | None, filename: str | None) -> Failure:
    """Return the text for a job that failed."""
    cause = failure_of(category, code)
    if category not in ONLY_THE_OPERATOR:
        return cause
    return Failure(f"{COULD_NOT} {_blameless(filename)}", f"{cause.what} {cause.so}")


def _blameless(filename: str | None) -> str:
    return _("Nothing is wrong with your text.") if filename is None else _("Nothing is wrong with your file.")


def is_passing(category: str | None) -> bool:
    """Return True if the same job may succeed later with nothing repaired, so that the owner may try again."""
    return category in TRANSIENT or category in (Category.UNCERTAIN, Category.DEADLINE)


def counted(number: int, thing: str) -> str:
    """Return a number of things, in English: 1 job, 2 jobs, 2 days, 2 saved summaries."""
    many = f"{thing.removesuffix('y')}ies" if thing.endswith("y") and thing[-2:-1] not in "aeiou" else f"{thing}s"
    return f"{number:,} {thing if number == 1 else many}"


def jobs_before(count: int | None) -> str:
    """Return how many jobs come before the user's; empty for none, and for None, which means that it is unknown."""
    if not count:
        return ""
    if count > MOST_COUNTED:
        return _("More than %(most)s jobs before yours.", most=MOST_COUNTED)
    return ngettext("%(num)s job before yours.", "%(num)s jobs before yours.", count)


def handed_in(documents: int) -> str:
    """Return how many documents were accepted of several that were sent together."""
    return ngettext("%(num)s document submitted.", "%(num)s documents submitted.", documents)


def needs_ai(title: str) -> str:
    return _("“%(work)s” needs an AI service, and this server works without one.", work=title)


def option_wrong(option: Option | None) -> str:
    """Say what an option may be. Returns None if there is no option of that name."""
    if option is None:
        return str(NO_SUCH_OPTION)
    if isinstance(option, Choice):
        return str(OPTION_WRONG)
    longest = number(option.max_length)
    if option.max_lines == 1:
        return _("Write one line of up to %(longest)s characters.", longest=longest)
    return _(
        "Write one to %(most)s lines of up to %(longest)s characters each.",
        most=option.max_lines,
        longest=longest,
    )


def file_too_large(limit: int) -> str:
    return _("The file is too large. The limit is %(most)s.", most=size_in_words(limit))


def request_too_large(limit: int) -> str:
    return _(
        "What you sent is too large. The limit is %(most)s, for one file or for several together.",
        most=size_in_words(limit),
    )


def too_many_files(most: int) -> str:
    return _("You can send up to %(most)s files at a time. Send the rest afterwards.", most=most)


def text_too_long(length: int, limit: int) -> str:
    return _(
        "The text is too long: it has %(length)s characters. The limit is %(most)s.",
        length=number(length),
        most=number(limit),
    )
