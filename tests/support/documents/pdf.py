"""PDF files for tests, built object by object, so that each can be wrong in the way that a test needs."""

from __future__ import annotations

import io
import zlib

from pypdf import PdfReader, PdfWriter

FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
WORDS = b"BT /F 12 Tf 50 400 Td (%s) Tj ET"


def pdf_of(*objects: bytes, prev: int | None = None, size: int | None = None) -> bytes:
    """Build a PDF of these objects, numbered from 1, with the first as the catalogue and a correct xref table.

    `prev` is the claimed position of an earlier table; `size` is the claimed number of objects.
    """
    out, offsets = bytearray(b"%PDF-1.5\n"), []
    for number, content in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    earlier = b"" if prev is None else b"/Prev %d" % (table if prev < 0 else prev)
    count = len(objects) + 1 if size is None else size
    return bytes(out) + b"trailer\n<</Root 1 0 R/Size %d%s>>\nstartxref\n%d\n%%%%EOF\n" % (count, earlier, table)


def stream(content: bytes, *filters: str, more: bytes = b"") -> bytes:
    """Build a stream object. Its content is compressed once for each `FlateDecode` among the filters."""
    for name in reversed(filters):
        content = zlib.compress(content, 9) if name == "FlateDecode" else content
    named = b"/Filter[%s]" % b"".join(b"/" + name.encode() for name in filters) if filters else b""
    return b"<<%s%s/Length %d>>\nstream\n%s\nendstream" % (more, named, len(content), content)


def pages(*contents: bytes, box: bytes = b"0 0 600 600", more: bytes = b"", extra: tuple[bytes, ...] = ()) -> bytes:
    """Build a page for each content stream. Object 3 is the font /F, and the first of `extra` can be drawn as /X."""
    first = 4
    numbers = [first + 2 * at for at in range(len(contents))]
    drawn = first + 2 * len(contents)
    kids = b" ".join(b"%d 0 R" % number for number in numbers)
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(contents), kids), FONT]
    for number, content in zip(numbers, contents, strict=True):
        resources = b"/Resources<</Font<</F 3 0 R>>/XObject<</X %d 0 R>>>>" % drawn
        objects += [
            b"<</Type/Page/Parent 2 0 R/MediaBox[%s]/Contents %d 0 R%s%s>>" % (box, number + 1, resources, more),
            content,
        ]
    return pdf_of(*objects, *extra)


def page_of_words(words: str) -> bytes:
    return stream(WORDS % words.encode("latin-1"))


def encrypted(words: str, *, user: str, owner: str, algorithm: str) -> bytes:
    """Build a page of words, encrypted with these passwords; with an empty user password anybody may read it."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pages(page_of_words(words)))))
    writer.encrypt(user, owner, algorithm=algorithm)
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def picture(side: int = 8) -> bytes:
    """Build a grey square, like a scanner's image."""
    dictionary = b"/Type/XObject/Subtype/Image/Width %d/Height %d/BitsPerComponent 8/ColorSpace/DeviceGray" % (
        side,
        side,
    )
    return stream(bytes([200]) * min(side * side, 4096), "FlateDecode", more=dictionary)


def form(content: bytes, drawn: int) -> bytes:
    """Build a form that can draw object `drawn` as /X, and write in /F."""
    dictionary = (
        b"/Type/XObject/Subtype/Form/BBox[0 0 600 600]/Resources<</Font<</F 3 0 R>>/XObject<</X %d 0 R>>>>" % drawn
    )
    return stream(content, more=dictionary)
