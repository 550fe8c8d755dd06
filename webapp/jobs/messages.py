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
    State.RUNNING: lazy("Being worked on"),
    State.RETRY_WAIT: lazy("Waiting to retry"),
    State.SUCCEEDED: lazy("Saved"),
    State.FAILED: lazy("Stopped"),
    State.CANCEL_REQUESTED: lazy("Cancelling"),
    State.CANCELLED: lazy("Cancelled"),
}

MOST_COUNTED = 100
"""Beyond so many jobs before one's own, the number says nothing more."""
OWNER_TRIES_AGAIN = "owner: try again"
"""The cause that is stored with a replay by the owner."""

NOTHING_HANDED_IN = lazy("Choose a file or paste some text. Nothing can be made of an empty document.")
BOTH_HANDED_IN = lazy(
    "Choose a file or paste text, not both. Your text is still here; to send the file, remove the text first."
)
HANDED_IN_BEFORE = lazy(
    "You handed this in before, with the same options. This is what came of it; nothing was made twice."
)
SEVERAL_HANDED_IN = lazy("Send one file a request. Each document is worked on by itself.")
ORIGINAL_GONE = lazy("The document has been deleted, so nothing more can be made of it. Hand it in again.")
NO_SUCH_WORKFLOW = lazy("There is no such workflow.")
NO_SUCH_OPTION = lazy("There is no such option here.")
OPTION_WRONG = lazy("Choose one of the offered values.")
NO_LONGER_OFFERED = lazy(
    "Work of this sort is not done here any more. Hand the document in again, with today's options."
)
PAUSED_JOB = lazy("The operator has paused the work. Your document is kept and goes on when work is resumed.")
PAUSED_SITE = lazy("The operator has paused the work. What you hand in is kept and goes on when work is resumed.")
ACCOUNT_DELETED = lazy("Your account and everything in it have been deleted. You are signed out.")
PASSWORD_WRONG = lazy("This is not the password of your account. Nothing was deleted.")
HAND_IN_AGAIN = lazy("To have it made again, hand the document in again.")
DOCUMENT_DELETED = lazy("The document has been deleted, with everything that was made of it.")
NOT_CONFIRMED = lazy("Tick the box to confirm. Nothing was deleted.")
KEY_REUSED = lazy(
    "This form was already sent, with other content. What came of it is in your list. "
    "To send what is in the form now, press Hand in again."
)
FORM_TOO_OLD = lazy("The form was open for too long, or you signed in again meanwhile. Press Hand in again.")
FORM_TOO_OLD_FILE = lazy("Files cannot be kept: choose yours again.")
SIGNED_OUT = lazy(
    "You are signed out. Nothing was sent yet, and your text is still here. "
    "Sign in in a new tab, then come back and press Hand in again."
)


@dataclass(frozen=True)
class Failure:
    """What happened, and what that means and what can be done."""

    what: str
    so: str


TRY_LATER = lazy("Your document is kept. Try again in a few minutes.")
ASK_OPERATOR = lazy("The operator of this site can put that right and start this again. Quote the reference above.")
CANNOT_NOW = lazy("The service cannot do its work now.")
COULD_NOT = lazy("The service could not do this.")
ONLY_THE_OPERATOR = frozenset({Category.AUTH, Category.PERMISSION, Category.QUOTA})
"""Causes that have nothing to do with the document, and that stay until the operator has done something."""

_BY_CATEGORY: Mapping[Category, Failure] = {
    Category.RATE_LIMITED: Failure(lazy("The AI service had too many requests."), TRY_LATER),
    Category.OVERLOADED: Failure(lazy("The AI service was busy."), TRY_LATER),
    Category.CONNECTION: Failure(lazy("The AI service could not be reached."), TRY_LATER),
    Category.TIMEOUT: Failure(lazy("The attempt took longer than it may."), TRY_LATER),
    Category.UNCERTAIN: Failure(
        lazy("The AI service took the request, but no usable answer came back."),
        lazy("It may have billed the call. Trying again makes another call."),
    ),
    Category.AUTH: Failure(lazy("The AI service refused the credentials of this site."), ASK_OPERATOR),
    Category.PERMISSION: Failure(lazy("The AI service did not let this site do that."), ASK_OPERATOR),
    Category.INVALID_DOCUMENT: Failure(
        lazy("The document could not be read."), lazy("Check the file, or paste its text.")
    ),
    Category.INVALID_REQUEST: Failure(
        lazy("The AI service could not work with this document."), lazy("A shorter or simpler version may go through.")
    ),
    Category.CONTENT_POLICY: Failure(
        lazy("The AI service declined to work on this document, because of its rules about content."),
        lazy("Trying again would end the same way."),
    ),
    Category.QUOTA: Failure(lazy("The budget of this site at the AI service was used up."), ASK_OPERATOR),
    Category.DEADLINE: Failure(lazy("The time for this ran out before it was ready."), TRY_LATER),
    Category.CRASHED: Failure(lazy("The worker stopped in the middle of the work."), TRY_LATER),
    Category.INTERNAL: Failure(
        lazy("Something went wrong on our side."),
        lazy("Your document is kept. Try again; if it stays, quote the reference above."),
    ),
}

_BY_CODE: Mapping[tuple[Category, str], Failure] = {
    (Category.INVALID_DOCUMENT, Refusal.EMPTY): Failure(
        lazy("The document is empty."), lazy("Choose one with text in it.")
    ),
    (Category.INVALID_DOCUMENT, Refusal.NO_TEXT): Failure(
        lazy("No text was found in the document."),
        lazy("Most likely it holds scanned pages. Run text recognition on it first, or paste the text."),
    ),
    (Category.INVALID_DOCUMENT, Refusal.LOCKED): Failure(
        lazy("The document is locked with a password."), lazy("Save a copy without the password, and hand that in.")
    ),
    (Category.INVALID_DOCUMENT, Refusal.DAMAGED): Failure(
        lazy("The file is damaged or incomplete."),
        lazy("Save it again in the program that made it, or paste its text."),
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_LARGE_UNPACKED): Failure(
        lazy("The document grows too large when it is unpacked."),
        lazy("Hand in a smaller part of it, or paste the text."),
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_MANY_PAGES): Failure(
        lazy("The document has too many pages."), lazy("Hand in a part of it.")
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_LONG): Failure(
        lazy("The document has more text than can be taken in one go."), lazy("Hand in a part of it.")
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_SLOW): Failure(
        lazy("Reading the document took too long."), lazy("Save it again in a simpler form, or paste its text.")
    ),
    (Category.INVALID_DOCUMENT, Refusal.TOO_MUCH_MEMORY): Failure(
        lazy("The document grows too large while it is read."),
        lazy("Save it again in a simpler form, or paste its text."),
    ),
    (Category.INVALID_DOCUMENT, Refusal.LEGACY_WORD): Failure(
        lazy("This is a Word document of the old kind (.doc)."), lazy("Save it as .docx or PDF, and hand that in.")
    ),
    (Category.INVALID_DOCUMENT, Refusal.IMAGE): Failure(
        lazy("This is a picture, and pictures are not read."),
        lazy("Run text recognition on it first, or paste the text."),
    ),
    (Category.INVALID_DOCUMENT, Refusal.UNSUPPORTED): Failure(
        lazy("This kind of file cannot be read."),
        lazy("PDF, Word (.docx), OpenDocument, RTF, HTML, Markdown, CSV and plain text can."),
    ),
    (Category.INVALID_DOCUMENT, "deleted"): Failure(
        lazy("The document was deleted before it was read."), lazy("Hand it in again.")
    ),
    (Category.INVALID_REQUEST, "too_long"): Failure(
        lazy("The document is longer than the AI model can take."), lazy("Hand in a part of it.")
    ),
    (Category.INVALID_REQUEST, "too_large"): Failure(
        lazy("The document is longer than the AI service can take."), lazy("Hand in a part of it.")
    ),
    (Category.INVALID_REQUEST, "output_limit"): Failure(
        lazy("The AI service reached its length limit before it said anything."), lazy("Choose a shorter length.")
    ),
    (Category.INVALID_REQUEST, "nothing_to_extract"): Failure(
        lazy("No whole sentence was found that could be extracted."), lazy("Hand in running text.")
    ),
    (Category.PERMISSION, "local_not_installed"): Failure(
        lazy("The part that makes extracts was not installed on this server."), ASK_OPERATOR
    ),
    (Category.PERMISSION, "model_not_found"): Failure(
        lazy("The AI service did not know the AI model that was set."), ASK_OPERATOR
    ),
    (Category.PERMISSION, "not_found"): Failure(
        lazy("The AI service did not know the AI model or the address that was set."), ASK_OPERATOR
    ),
    (Category.PERMISSION, "tls"): Failure(lazy("The AI service could not be reached safely."), ASK_OPERATOR),
    (Category.AUTH, "base_url"): Failure(lazy("The address of the AI service was set wrong."), ASK_OPERATOR),
    (Category.TIMEOUT, "call_budget"): Failure(lazy("The AI service did not take the request in time."), TRY_LATER),
    (Category.UNCERTAIN, "call_budget"): Failure(
        lazy("The AI service did not answer in time."),
        lazy("It may have billed the call. Trying again makes another call."),
    ),
    (Category.DEADLINE, "asked_to_wait_too_long"): Failure(
        lazy("The AI service asked to wait longer than the time that was left."), TRY_LATER
    ),
    (Category.DEADLINE, "paused"): Failure(
        lazy("The time for this ran out while the operator of this site had paused the work."), TRY_LATER
    ),
    (Category.CRASHED, "interrupted_too_often"): Failure(
        lazy("The work was interrupted too often."),
        lazy("If it happens again, the document may be the cause: try a part of it."),
    ),
}


def failure_of(category: str | None, code: str | None) -> Failure:
    """The words for a cause. The code picks them where it is known; else the category does."""
    known = Category(category) if category in set(Category) else Category.INTERNAL
    found = _BY_CODE.get((known, code or ""), _BY_CATEGORY[known])
    return Failure(str(found.what), str(found.so))


def lane_words(category: str, code: str | None, *, stopped: bool, filename: str | None) -> Failure:
    """Why a job waits behind a closed lane, and for what. `filename` None: its text was pasted."""
    cause = failure_of(category, code).what
    if not stopped:
        return Failure(cause, "")
    return Failure(f"{CANNOT_NOW} {_blameless(filename)}", cause)


def ending_of(category: str | None, code: str | None, filename: str | None) -> Failure:
    """The words for a job that failed."""
    cause = failure_of(category, code)
    if category not in ONLY_THE_OPERATOR:
        return cause
    return Failure(f"{COULD_NOT} {_blameless(filename)}", f"{cause.what} {cause.so}")


def _blameless(filename: str | None) -> str:
    return _("Nothing is wrong with your text.") if filename is None else _("Nothing is wrong with your file.")


def is_passing(category: str | None) -> bool:
    """Whether the same wish may go through later without anybody mending anything, so that the owner may try again."""
    return category in TRANSIENT or category in (Category.UNCERTAIN, Category.DEADLINE)


def counted(number: int, thing: str) -> str:
    """A number of things, in English: 1 job, 2 jobs, 2 days, 2 saved summaries."""
    many = f"{thing.removesuffix('y')}ies" if thing.endswith("y") and thing[-2:-1] not in "aeiou" else f"{thing}s"
    return f"{number:,} {thing if number == 1 else many}"


def jobs_before(count: int | None) -> str:
    """How many jobs come before somebody's; empty for none, and for None: nobody knows."""
    if not count:
        return ""
    if count > MOST_COUNTED:
        return _("More than %(most)s jobs before yours.", most=MOST_COUNTED)
    return ngettext("%(num)s job before yours.", "%(num)s jobs before yours.", count)


def handed_in(documents: int) -> str:
    """How many documents were taken of several that were sent together."""
    return ngettext("%(num)s document handed in.", "%(num)s documents handed in.", documents)


def needs_ai(title: str) -> str:
    return _("“%(work)s” needs an AI service, and this server works without one.", work=title)


def option_wrong(option: Option | None) -> str:
    """What would have been right for an option; None: there is no option of that name."""
    if option is None:
        return str(NO_SUCH_OPTION)
    if isinstance(option, Choice):
        return str(OPTION_WRONG)
    longest = number(option.longest)
    if option.most == 1:
        return _("Write one line, of at most %(longest)s characters each.", longest=longest)
    return _(
        "Write at least one line and at most %(most)s, of at most %(longest)s characters each.",
        most=option.most,
        longest=longest,
    )


def file_too_large(limit: int) -> str:
    return _("The file is larger than %(most)s, which is the most that can be handed in.", most=size_in_words(limit))


def request_too_large(limit: int) -> str:
    return _(
        "What was sent is larger than %(most)s, which is the most for one file, and for several sent together.",
        most=size_in_words(limit),
    )


def too_many_files(most: int) -> str:
    return _("These are more than %(most)s files. Hand in the others afterwards.", most=most)


def text_too_long(length: int, limit: int) -> str:
    return _(
        "The text has %(length)s characters; %(most)s is the most that can be taken in one go.",
        length=number(length),
        most=number(limit),
    )
