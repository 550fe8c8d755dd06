"""The words for one sort of work: a summary is saved, but action items are not "the summary"."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.i18n import ENGLISH, _, language
from tasks.ledger.reports.job_views import JobView
from tasks.workflows import WORKFLOWS, Choice


@dataclass(frozen=True)
class WorkWords:
    """The texts of a workflow. `title` heads the result; the two steps are for while it is made, and after."""

    title: str
    making: str
    stop_making: str
    stop_made: str
    afresh: str
    after_all: str
    cut_off: str


def title_of(workflow: str) -> str:
    """Return the title of a workflow; its name where an older job names a workflow that is gone."""
    known = WORKFLOWS.get(workflow)
    return workflow if known is None else str(known.title)


def words_of(workflow: str) -> WorkWords:
    """Return the texts for the work of a job."""
    if workflow == "summary":
        return WorkWords(
            title=title_of(workflow),
            making=_("Summarizing your document"),
            stop_making=_("Summarizing"),
            stop_made=_("Summarized"),
            afresh=_("Summarize again"),
            after_all=_("Summarize anyway"),
            cut_off=_("A shorter summary may come out complete."),
        )
    return WorkWords(
        title=title_of(workflow),
        making=_("Working on your document"),
        stop_making=_("Working"),
        stop_made=_("Done"),
        afresh=_("Run again"),
        after_all=_("Run anyway"),
        cut_off=_("The last parts of the document may be missing from it."),
    )


def mid_sentence(title: str) -> str:
    """Return a title for use inside a sentence. Only in English is it sure that nothing in it needs its capital."""
    return str(title).lower() if language() == ENGLISH else str(title)


def description_of(job: JobView) -> str:
    """Describe what was requested in a few words: summary, medium, bullets."""
    workflow = WORKFLOWS.get(job.workflow)
    if workflow is None:
        return job.workflow
    words = [
        choice.words.get(str(job.options.get(choice.name)), "")
        for choice in workflow.choices
        if isinstance(choice, Choice)
    ]
    return ", ".join(mid_sentence(word) for word in (workflow.title, *words) if word)
