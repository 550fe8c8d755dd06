"""The documents that Mara hands in, and the AI service's responses.

Fictional; no real place, person or firm is meant.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate

from tests.support.documents.office import case_file, docx, paragraph

SHORT: dict[str, Any] = {"length": "medium", "form": "prose"}


@dataclass(frozen=True)
class Paper:
    """One document, the requested work, and the response; None if there is no response."""

    title: str
    filename: str | None
    kind: str
    content: bytes
    answer: str | None = None
    workflow: str = "summary"
    options: dict[str, Any] = field(default_factory=lambda: dict(SHORT))


def pdf_file(*paragraphs: str) -> bytes:
    """Build the PDF with the same bytes each time: it contains no date."""
    file, style = io.BytesIO(), getSampleStyleSheet()["Normal"]
    SimpleDocTemplate(file, invariant=1).build([Paragraph(text, style) for text in paragraphs])
    return file.getvalue()


def word_file(*paragraphs: str) -> bytes:
    return docx("".join(map(paragraph, paragraphs)))


GUIDELINES_TEXT = (
    "Grant guidelines of the coastal fund, 2026 to 2028. The fund supports associations that keep harbours, boats "
    "and sheds of the coast in use. It gives 2,000 to 40,000 a project, and never more than two thirds of the cost.",
    "An application needs a plan of the work, two quotations for every item above 1,500, and the consent of the owner. "
    "Own work of members counts as a share of the association, at 18 an hour and up to a quarter of the total.",
    "Applications are taken from 1 April to 15 June of each year. The committee decides by the end of September. Work "
    "that began before the decision is not supported, except for repairs that cannot wait.",
    "Half of the grant is paid at the start of the work, the rest after the report. The report is due three months "
    "after the end of the work, with all bills. What was bought must be kept in use for ten years.",
)
GUIDELINES = """The coastal fund supports **associations that keep harbours, boats and sheds in use**, with 2,000 to \
40,000 a project and at most two thirds of the cost.

**What an application needs**

- a plan of the work and the owner's consent
- two quotations for every item above 1,500
- own work may count as a share: 18 an hour, up to a quarter of the total

**When**

- applications from **1 April to 15 June**; the decision comes by the end of September
- work that began earlier is not supported, except for repairs that cannot wait

Half of the grant is paid at the start, the rest after the report, which is due three months after the end of the \
work. What was bought must be kept in use for ten years."""

MINUTES_TEXT = (
    "Minutes of the board, 5 March. Present: Ines, Jonas, Mara, Tomasz. The north pier stays closed until August.",
    "Jonas asks the harbour master for the dates of the diving inspection, by 20 March. Ines writes to the owners of "
    "the six berths and offers them places at the south pier, by 31 March. Tomasz gets two quotations for the lamps. "
    "Mara puts the new opening hours on the site.",
)
MINUTES = """| Who | What | By when |
|---|---|---|
| Jonas | Ask the harbour master for the dates of the diving inspection | 20 March |
| Ines | Write to the owners of the six berths and offer places at the south pier | 31 March |
| Tomasz | Get two quotations for the lamps | – |
| Mara | Put the new opening hours on the site | – |"""

RULES = tuple(
    f"Section {number}. {rule} The association states in its report how it was met, and keeps the proof for ten years."
    for number, rule in enumerate(
        (
            "Wood comes from the region and is not treated with oil of tar.",
            "Paint below the water line holds no copper.",
            "Slate and zinc are taken down so that they can be used again.",
            "Work on a listed building follows what its keepers have written.",
            "Cranes and barges may be hired; their purchase is not supported.",
            "Bills are in the name of the association and are paid from its account.",
            "A change of more than a tenth of the cost needs the consent of the committee.",
            "Visitors find a board that names the fund while the work goes on and for a year after it.",
        )
        * 6,
        1,
    )
)

LEASE_TEXT = ("Lease of the shed at Quay Street 14, for ten years from 1 May 2026. The rent is 310 a month.", *RULES)
LEASE = "The shed at Quay Street 14 is let for ten years from 1 May 2026, at 310 a month."
TENDER_TEXT = ("Tender for the roof of the boat hall: 420 square metres, zinc or slate. Offers by 2 April.", *RULES)
NEWSLETTER_TEXT = b"# Spring at the harbour\n\nThe slipway opens on 4 April. Volunteers meet at nine.\n"
SURVEY_TEXT = b"question,answer\nHow did you hear of us,a friend\nWould you come again,yes\n" * 40
WATER_TEXT = b"Dear members, the water board will renew the main in Quay Street between 7 and 18 April.\n"

_CHAPTERS = ("Harbour", "Boats", "Sheds", "Members", "Visitors", "School", "Money", "Outlook")
_SENTENCES = (
    "The year began with the storm of 9 January, which took the lamps of the north pier and two of the finger berths.",
    "Members gave 1,940 hours of work, a fifth more than the year before, most of them on the slipway and in the hall.",
    "The committee met eleven times; its minutes are with the secretary and can be read there by every member.",
    "Income and cost are compared with the plan in the table at the end of this chapter, item by item.",
    "What could not be done for want of time or money is listed below, with the year in which it is planned now.",
    "Thanks are due to the neighbours, who lent a crane for three weekends and would not hear of a bill.",
)


def annual_report() -> bytes:
    """Return a report of about 180,000 characters, which goes to the AI service in eight parts."""
    paragraphs = []
    for chapter, name in enumerate(_CHAPTERS, 1):
        paragraphs.append(f"{chapter}. {name}")
        for number in range(1, 34):
            turned = [*_SENTENCES[number % 6 :], *_SENTENCES[: number % 6]]
            paragraphs.append(f"{chapter}.{number} {' '.join(turned)}")
    return "\n\n".join(["Annual report of the harbour association, 2025.", *paragraphs]).encode()


LEASE_PAPER = Paper("Lease, Quay Street 14", "lease-quay-street-14.pdf", "pdf", pdf_file(*LEASE_TEXT), LEASE)
GUIDELINES_PAPER = Paper(
    "Grant guidelines 2026 to 2028", "grant-guidelines.pdf", "pdf", pdf_file(*GUIDELINES_TEXT, *RULES), GUIDELINES
)
MINUTES_PAPER = Paper(
    "Minutes of the board, 5 March",
    "minutes-5-march.docx",
    "docx",
    word_file(*MINUTES_TEXT),
    MINUTES,
    "action_items",
    {},
)
POLICY_PAPER = Paper(
    "Insurance of the boat hall", "policy-88-1204.pdf", "pdf", case_file("D01_encrypted_user_password_aes256")
)
NEWSLETTER_PAPER = Paper("Newsletter, spring", "newsletter.md", "markdown", NEWSLETTER_TEXT)
REPORT_PAPER = Paper("Annual report 2025", "annual-report-2025.txt", "txt", annual_report())
TENDER_PAPER = Paper("Tender: roof of the boat hall", "tender-roof.pdf", "pdf", pdf_file(*TENDER_TEXT))
SURVEY_PAPER = Paper("Survey among visitors", "survey.csv", "csv", SURVEY_TEXT)
WATER_PAPER = Paper("Letter from the water board", None, "txt", WATER_TEXT)
