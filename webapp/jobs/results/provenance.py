"""The provenance of a result: its document, the request, the version of the workflow, the model, and the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.i18n import _, gettext, lazy
from tasks.intake.file_types import Kind
from tasks.ledger.keys import reference_of
from tasks.ledger.reports.job_views import JobView
from webapp.jobs.workflow_messages import description_of
from webapp.text.numbers import number

BY_AI = lazy("Made by an AI service. It can be wrong: check what matters")
OF_THE_DOCUMENT = lazy("Addresses in it come from the document.")
BY_MODEL = "Made by the AI model "
EXTRACT = lazy("Extract made on this server, without an AI service")
"""The label of the provider that needs no key. It is stored with each of its results."""
KINDS: Mapping[Kind, str] = {
    Kind.TXT: lazy("Plain text"),
    Kind.MARKDOWN: lazy("Markdown"),
    Kind.HTML: lazy("Web page"),
    Kind.CSV: lazy("CSV table"),
    Kind.PDF: lazy("PDF"),
    Kind.DOCX: lazy("Word document"),
    Kind.ODT: lazy("OpenDocument text"),
    Kind.RTF: lazy("Rich text"),
}


def kind_label(kind: str) -> str:
    """Return the common name of a document's kind."""
    return str(KINDS[Kind(kind)]) if kind in set(Kind) else kind


def label_in_words(label: str) -> str:
    """Return the label that a result got when it was made, in the active language."""
    if label.startswith(BY_MODEL):
        return _("Made by the AI model %(model)s", model=label.removeprefix(BY_MODEL))
    return gettext(label)


def provenance_of(job: JobView, facts: Mapping[str, Any]) -> list[str]:
    """Return the small print below a result, a sentence or two per line; `facts` are those of the result."""
    label = label_in_words(str(facts.get("label") or BY_AI))  # names the model that was asked
    model = facts.get("model") if facts.get("provider") != "local" else None
    answering_model = f" · {model}" if model and not label.endswith(f" {model}") else ""
    made = f"{label}{answering_model}. {OF_THE_DOCUMENT}"
    parts = facts.get("parts")
    request = f"{description_of(job)[:1].upper()}{description_of(job)[1:]}"
    details = [_("%(wish)s, version %(version)s", wish=request, version=job.workflow_version)]
    if isinstance(parts, int) and parts > 1:
        details.append(_("joined from %(num)s parts", num=number(parts)))
    if job.finished_at:
        saved_at = f"{job.finished_at:%Y-%m-%d %H:%M}"
        details.append(_("saved %(moment)s UTC", moment=saved_at))
    reference = _("Reference %(reference)s.", reference=reference_of(job.id))
    return [made, f"{', '.join(details)}. {reference}"]
