"""Opens zipped documents safely: adds up the declared sizes before anything is unpacked, and never unpacks more than
the limit, whatever the file declares.

Pictures and other attachments are never unpacked, so they do not count.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterable

from tasks.intake.errors import DocumentRefused, Refusal

_MAX_MEMBERS = 10_000
_PIECE = 256 * 1024


def open_archive(data: bytes) -> zipfile.ZipFile:
    """Read only the table of contents. Raises DocumentRefused: damaged, locked, too_large_unpacked."""
    # Entries are counted before the parsing, because parsing costs about a thousand times more per entry.
    if data.count(b"PK\x01\x02") > _MAX_MEMBERS:
        raise DocumentRefused(Refusal.TOO_LARGE_UNPACKED)
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, struct.error, NotImplementedError, EOFError, OSError):
        raise DocumentRefused(Refusal.DAMAGED) from None
    if any(member.flag_bits & 0x1 for member in archive.infolist()):
        raise DocumentRefused(Refusal.LOCKED)
    return archive


def _is_read(name: str) -> bool:
    return name.endswith((".xml", ".rels")) or name == "mimetype"


def declared_unpacked_size(archive: zipfile.ZipFile) -> int:
    """Return the declared unpacked size of the text parts in bytes. `read_parts` catches an archive that lies."""
    return sum(member.file_size for member in archive.infolist() if _is_read(member.filename))


def check_declared_size(archive: zipfile.ZipFile, max_bytes: int) -> None:
    """Raise DocumentRefused(too_large_unpacked) if the declared sizes alone exceed `max_bytes`."""
    if declared_unpacked_size(archive) > max_bytes:
        raise DocumentRefused(Refusal.TOO_LARGE_UNPACKED)


def read_parts(archive: zipfile.ZipFile, names: Iterable[str], max_bytes: int) -> dict[str, bytes]:
    """Unpack the named parts that exist, in the given order, up to `max_bytes` for all of them together.

    Raises DocumentRefused: too_large_unpacked, or damaged (wrong checksum, truncated, unknown compression).
    """
    parts: dict[str, bytes] = {}
    left = max_bytes
    for name in names:
        if name in parts or name not in archive.NameToInfo:
            continue
        parts[name] = read_part(archive, name, left)
        left -= len(parts[name])
    return parts


def read_part(archive: zipfile.ZipFile, name: str, max_bytes: int) -> bytes:
    """Unpack one part. Never holds more than one piece beyond `max_bytes`. Raises as `read_parts` does."""
    member = archive.getinfo(name)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DocumentRefused(Refusal.DAMAGED)
    content = bytearray()
    try:
        with archive.open(member) as stream:
            while piece := stream.read(_PIECE):
                content += piece
                if len(content) > max_bytes:
                    raise DocumentRefused(Refusal.TOO_LARGE_UNPACKED)
    except DocumentRefused:
        raise
    except Exception:  # zipfile raises BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, …
        raise DocumentRefused(Refusal.DAMAGED) from None
    if len(content) != member.file_size:
        raise DocumentRefused(Refusal.DAMAGED)
    return bytes(content)
