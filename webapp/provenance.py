"""What made a result: which document, which wish, which version of the work, which model, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.intake.kinds import Kind
from tasks.ledger.identity import reference_of
from tasks.ledger.queries import JobView
from webapp.work_words import description_of

BY_AI = "Made by an AI service. It can be wrong: check what matters"
OF_THE_DOCUMENT = "Addresses in it come from the document."


def kind_label(kind: str) -> str:
    """What sort of document it was, as people say it."""
    return Kind(kind).label if kind in set(Kind) else kind


def provenance_of(job: JobView, facts: Mapping[str, Any]) -> list[str]:
    """The small print below a result, a sentence or two a line; `facts` are the result's."""
    label = str(facts.get("label") or BY_AI)  # names the model that was asked; another one may have answered
    model = facts.get("model") if facts.get("provider") != "local" else None
    answered = f" · {model}" if model and not label.endswith(f" {model}") else ""
    made = f"{label}{answered}. {OF_THE_DOCUMENT}"
    parts = facts.get("parts")
    wish = f"{description_of(job)[:1].upper()}{description_of(job)[1:]}, version {job.workflow_version}"
    joined = f", joined from {parts} parts" if isinstance(parts, int) and parts > 1 else ""
    at = f", saved {job.finished_at:%Y-%m-%d %H:%M} UTC" if job.finished_at else ""
    return [made, f"{wish}{joined}{at}. Reference {reference_of(job.id)}."]
