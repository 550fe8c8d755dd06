"""Extracts the text of PDF files with PDFium, page by page. Only imported in the child process.

PDFium and not pypdf: it is ten times as fast, its memory is bounded, and it repairs the errors that PDF viewers usually
repair. Page by page, so that the page count is known before any page is read, a page of absurd size can be cut first,
and an error in one page (half of a character, say) affects that page only.
"""

from __future__ import annotations

import contextlib
import re

import pypdfium2
import pypdfium2.raw as pdfium

from tasks.intake.errors import DocumentRefused, Refusal

# The largest page that the PDF standard allows. PDFium reserves memory by the size of a page before it reads it.
_MAX_SIDE = 14_400
_LINE_END_HYPHEN = re.compile("\x02(?:\r?\n)?")


def pdf_to_text(data: bytes, max_pages: int, max_chars: int) -> tuple[str, dict[str, int | str]]:
    """Return the visible text, the pages separated by an empty line, and the page counts.

    Raises DocumentRefused: locked, damaged, too_many_pages, or too_long (as soon as the limit is reached).
    """
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        locked = error.err_code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY)
        raise DocumentRefused(Refusal.LOCKED if locked else Refusal.DAMAGED) from None
    with contextlib.closing(document):
        if len(document) > max_pages:
            raise DocumentRefused(Refusal.TOO_MANY_PAGES)
        return _read_pages(document, max_chars)


def _read_pages(document: pypdfium2.PdfDocument, max_chars: int) -> tuple[str, dict[str, int | str]]:
    pages, length, damaged = [], 0, 0
    for number in range(len(document)):
        try:
            text = _page_text(document, number)
        except pypdfium2.PdfiumError:
            damaged += 1
            continue
        if text.strip():
            pages.append(text.strip())
            length += len(pages[-1])
        # Twice the limit, because cleaning may still remove characters; the exact check comes after it.
        if length > 2 * max_chars:
            raise DocumentRefused(Refusal.TOO_LONG)
    if damaged == len(document):
        raise DocumentRefused(Refusal.DAMAGED)
    facts: dict[str, int | str] = {"pages": len(document), "pages_with_text": len(pages)}
    if damaged:
        facts["pages_damaged"] = damaged
    return "\n\n".join(pages), facts


def _page_text(document: pypdfium2.PdfDocument, number: int) -> str:
    page = document[number]
    try:
        if max(page.get_size()) > _MAX_SIDE:
            page = _cut_to_allowed_size(document, page, number)
        if pdfium.FPDFPage_GetAnnotCount(page) > 0:
            page = _with_filled_fields(document, page, number)
        with contextlib.closing(page.get_textpage()) as text_page:
            # Bounded by the page, because nobody sees text outside it. `clean` replaces a lone surrogate.
            text = text_page.get_text_bounded(errors="surrogatepass")
    finally:
        page.close()
    return _LINE_END_HYPHEN.sub("-\n", text)


def _cut_to_allowed_size(document: pypdfium2.PdfDocument, page: pypdfium2.PdfPage, number: int) -> pypdfium2.PdfPage:
    """Return the same page, cut to the largest allowed size. Reopens it: PDFium reads sizes only on opening a page."""
    left, bottom, _, _ = page.get_mediabox()
    box = (left, bottom, left + _MAX_SIDE, bottom + _MAX_SIDE)
    page.set_mediabox(*box)
    page.set_cropbox(*box)
    page.close()
    return document[number]


def _with_filled_fields(document: pypdfium2.PdfDocument, page: pypdfium2.PdfPage, number: int) -> pypdfium2.PdfPage:
    """Return the same page with the contents of its form fields made part of the page, as on a screen."""
    pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY)
    page.close()
    return document[number]
