"""Documents for tests: the case files, and small ones generated here."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

FILES = Path(__file__).parents[1] / "files"

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_ODF = "urn:oasis:names:tc:opendocument:xmlns:"
_ODT = (
    f'xmlns:office="{_ODF}office:1.0" xmlns:text="{_ODF}text:1.0" xmlns:table="{_ODF}table:1.0" '
    f'xmlns:style="{_ODF}style:1.0" xmlns:svg="{_ODF}svg-compatible:1.0"'
)


def case_file(name: str) -> bytes:
    """Return the bytes of the one case file whose name begins with `name`."""
    (path,) = FILES.glob(f"{name}*")
    return path.read_bytes()


def zipped(*members: tuple[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def docx(body: str, *more: tuple[str, str | bytes], head: str = "") -> bytes:
    """Build a Word document with this body; `more` are further parts, `{w}` in them stands for the namespace."""
    document = f'<?xml version="1.0"?>{head}<w:document {_W}><w:body>{body}</w:body></w:document>'
    parts = [(name, part.replace("{w}", _W) if isinstance(part, str) else part) for name, part in more]
    return zipped(("[Content_Types].xml", "<Types/>"), ("word/document.xml", document), *parts)


def paragraph(text: str, properties: str = "") -> str:
    return f'<w:p><w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def odt(body: str, *more: tuple[str, str], styles: str = "") -> bytes:
    """Build an OpenDocument text with this body and these automatic styles."""
    content = (
        f'<?xml version="1.0"?><office:document-content {_ODT}><office:automatic-styles>{styles}'
        f"</office:automatic-styles><office:body><office:text>{body}</office:text></office:body></office:document-content>"
    )
    mimetype = ("mimetype", "application/vnd.oasis.opendocument.text")
    return zipped(mimetype, ("META-INF/manifest.xml", "<m/>"), ("content.xml", content), *more)


def pdf(*pages: str, size: int = 600) -> bytes:
    """Build a PDF with one line of text on each page, by hand: no library between the test and the bytes."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {count}/Kids[{kids}]>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for number, text in enumerate(pages):
        content = f"BT /F 12 Tf 50 400 Td ({text}) Tj ET"
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {size} {size}]/Contents {5 + 2 * number} 0 R"
            "/Resources<</Font<</F 3 0 R>>>>>>"
        )
        objects.append(f"<</Length {len(content)}>>\nstream\n{content}\nendstream")
    body = "".join(f"{number} 0 obj\n{text}\nendobj\n" for number, text in enumerate(objects, 1))
    return f"%PDF-1.4\n{body}trailer\n<</Root 1 0 R>>\nstartxref\n0\n%%EOF\n".encode("latin-1")
