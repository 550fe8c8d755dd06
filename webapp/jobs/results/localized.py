"""Shows a saved result to its reader: the texts in it that Waybill wrote are in the active language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.ledger.models import Result
from tasks.workflows import WORKFLOWS, OwnTexts
from tasks.workflows.sanitize import removed_in_words
from webapp.jobs.results.provenance import label_in_words


@dataclass(frozen=True)
class ShownResult:
    """Represents the Markdown of a result, and the facts about it."""

    text: str
    facts: Mapping[str, Any]


def shown(workflow: str, saved: Result) -> ShownResult:
    """Return the result of a job of this workflow in the active language.

    The saved result stays as it is, because the next reader may use another language.
    """
    known = WORKFLOWS.get(workflow)
    text = known.localize(saved.text) if isinstance(known, OwnTexts) else saved.text
    label = saved.facts.get("label")
    return ShownResult(removed_in_words(text), {**saved.facts, **({"label": label_in_words(label)} if label else {})})
