"""The words for one sort of work: a summary is saved, but action items are not "the summary"."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.ledger.queries import JobView
from tasks.workflows import WORKFLOWS, Choice


@dataclass(frozen=True)
class WorkWords:
    """What a page says of a workflow. `title` heads the result; the two stops are while it is made, and after."""

    title: str
    making: str = "Your document is being worked on"
    stop_making: str = "Working"
    stop_made: str = "Done"
    afresh: str = "Make it afresh"
    after_all: str = "Do it after all"
    cut_off: str = "What the document says last may be missing."


SUMMARY = WorkWords(
    title="Summary",
    making="The summary is being made",
    stop_making="Summarising",
    stop_made="Summarised",
    afresh="Make a fresh summary",
    after_all="Summarise it after all",
    cut_off="A fresh summary in a shorter length may come out whole.",
)


def title_of(workflow: str) -> str:
    """What people call it; its name where an older job names a workflow that is gone."""
    known = WORKFLOWS.get(workflow)
    return workflow if known is None else known.title


def words_of(workflow: str) -> WorkWords:
    """The words for the work of a job."""
    return SUMMARY if workflow == "summary" else WorkWords(title_of(workflow))


def description_of(job: JobView) -> str:
    """What was wished for, in a few words: summary, medium, bullets."""
    workflow = WORKFLOWS.get(job.workflow)
    if workflow is None:
        return job.workflow
    words = [
        choice.words.get(str(job.options.get(choice.name)), "")
        for choice in workflow.choices
        if isinstance(choice, Choice)
    ]
    return ", ".join([workflow.title.lower(), *(word.lower() for word in words if word)])
