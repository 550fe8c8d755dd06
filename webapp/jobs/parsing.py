"""Parses what a form, an API request or an upload link submits: one set of checks for all three."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from werkzeug.datastructures import FileStorage, MultiDict

from tasks.settings import Settings
from tasks.workflows import WORKFLOWS, InvalidOptions, Options, Workflow
from tasks.workflows.base import check_options
from webapp.http.rejection import NotAccepted
from webapp.jobs import messages
from webapp.jobs.document_input import SubmittedDocument, read_file, read_text
from webapp.services import services

DEFAULT_WORKFLOW = "summary"


class OptionFields(Protocol):
    """Defines where the options of a workflow are found in a submission."""

    def values(self, workflow: Workflow) -> Mapping[str, object]:
        """Return the submitted options by name. May raise NotAccepted."""
        ...

    def field(self, workflow: Workflow, option: str) -> str:
        """Return the name of an option's field."""
        ...


@dataclass(frozen=True)
class StoredOptions:
    """Finds the options in a mapping by name."""

    stored: Mapping[str, object]

    def values(self, workflow: Workflow) -> Mapping[str, object]:
        """Return all of them."""
        return self.stored

    def field(self, workflow: Workflow, option: str) -> str:
        """Return the name of the option."""
        return option


@dataclass(frozen=True)
class FormOptions:
    """Finds the options in a form, which also has those of other workflows. The names of the fields tell them apart."""

    form: Mapping[str, str]

    def values(self, workflow: Workflow) -> Mapping[str, object]:
        """Return the options of this workflow."""
        fields = {option.name: self.field(workflow, option.name) for option in workflow.choices}
        return {name: self.form[field] for name, field in fields.items() if field in self.form}

    def field(self, workflow: Workflow, option: str) -> str:
        """Return the name that the form gives to an option's field."""
        return f"{workflow.name}-{option}"


@dataclass(frozen=True)
class Fields:
    """Holds the fields of a submission, unchecked."""

    workflow: str
    options: OptionFields
    text: str
    title: str
    files: Sequence[FileStorage]


@dataclass(frozen=True)
class Submission:
    """Represents a submission that passed the checks: one document, or several files, which are checked one by one."""

    workflow: Workflow
    options: Options
    document: SubmittedDocument | None
    files: Sequence[FileStorage] = ()


def parse_submission(fields: Fields, settings: Settings, *, max_files: int = 1) -> Submission:
    """Check the workflow, its options, and the document. Raises NotAccepted, whose field is that of the form or API."""
    workflow, options = parse_workflow(fields.workflow, fields.options)
    if fields.files and fields.text.strip():
        raise NotAccepted("both", messages.BOTH_HANDED_IN, field="file")
    if len(fields.files) > max_files:
        message = messages.SEVERAL_HANDED_IN if max_files == 1 else messages.too_many_files(max_files)
        raise NotAccepted("several", message, field="file")
    if len(fields.files) > 1:
        return Submission(workflow, options, None, fields.files)
    if fields.files:
        file = fields.files[0]
        document = read_file(file.filename or "", file.stream, fields.title, settings)
    else:
        document = read_text(fields.text, fields.title, settings)
    return Submission(workflow, options, document)


def parse_workflow(name: str, fields: OptionFields) -> tuple[Workflow, dict[str, Any]]:
    """Return the workflow of this name with its options, checked. Raises NotAccepted if this site does not offer it."""
    workflow = WORKFLOWS.get(name)
    if workflow is None:
        raise NotAccepted("workflow_unknown", messages.NO_SUCH_WORKFLOW, field="workflow")
    if not supports(workflow):
        raise NotAccepted("needs_ai", messages.needs_ai(workflow.title), field="workflow")
    try:
        return workflow, check_options(workflow, fields.values(workflow))
    except InvalidOptions as wrong:
        option = next((choice for choice in workflow.choices if choice.name == wrong.option), None)
        field = fields.field(workflow, wrong.option) if wrong.option else "options"
        raise NotAccepted("options_wrong", messages.option_wrong(option), field=field) from None


def fields_of_form(form: Mapping[str, str], files: MultiDict[str, FileStorage]) -> Fields:
    """Return the fields of a form."""
    return Fields(
        workflow=form.get("workflow", DEFAULT_WORKFLOW),
        options=FormOptions(form),
        text=form.get("text", ""),
        title=form.get("title", ""),
        files=_chosen_files(files),
    )


def _chosen_files(files: MultiDict[str, FileStorage]) -> list[FileStorage]:
    chosen = []
    for file in files.getlist("file"):
        empty = not file.stream.read(1)
        file.stream.seek(0)
        if file.filename or not empty:  # a browser sends a nameless empty part when no file was chosen
            chosen.append(file)
    return chosen


def offered() -> list[Workflow]:
    """Return the workflows of this site: without an AI service, only those that can do with an extract."""
    return [workflow for workflow in WORKFLOWS.values() if supports(workflow)]


def supports(workflow: Workflow) -> bool:
    """Return True if this site can run the workflow."""
    return not workflow.needs_ai or services().settings.ai_provider != "local"
