"""Detects UTF-16 and UTF-32 without a byte-order mark by byte patterns. Parses nothing: safe in the web process."""

from __future__ import annotations

import re

_SAMPLE = 64 * 1024
_MIN_BYTES = 8
_CONTROLS = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")
# The characters of common scripts. Bytes in the wrong order, or data that is not text, soon give other characters.
_COMMON_SCRIPTS = re.compile(
    "[\t\n\r -~\xa0-\u024f\u0370-\u077f\u0900-\u0dff\u0e00-\u0e7f\u1e00-\u206f\u20a0-\u22ff\u3000-\u30ff"
    "\u4e00-\u9fff\uac00-\ud7a3\uff00-\uffef\U0001f300-\U0001faff]"
)


def wide_encoding(data: bytes) -> str | None:
    """Return UTF-16 or UTF-32 if the bytes can hardly be anything else; None for all other data.

    Latin letters show it by their NULs. Text in other scripts must be readable in exactly one of the byte orders.
    """
    sample = data[:_SAMPLE]
    if len(sample) < _MIN_BYTES or not _CONTROLS.search(sample):
        return None
    quarters = [sample[at::4].count(0) * 4 / len(sample) for at in range(4)]
    if len(data) % 4 == 0 and (min(quarters[2:]) > 0.95 or min(quarters[:2]) > 0.95):
        return "utf-32-le" if quarters[3] > 0.95 else "utf-32-be"
    even, odd = sample[0::2].count(0) * 2 / len(sample), sample[1::2].count(0) * 2 / len(sample)
    if odd > 0.4 and even < 0.05:
        return "utf-16-le"
    if even > 0.4 and odd < 0.05:
        return "utf-16-be"
    if len(sample) < 2 * _MIN_BYTES:
        return None
    readable = [encoding for encoding in ("utf-16-le", "utf-16-be") if _is_readable(sample, encoding)]
    return readable[0] if len(readable) == 1 else None


def _is_readable(sample: bytes, encoding: str) -> bool:
    try:
        text = sample[: len(sample) - len(sample) % 2].decode(encoding)
    except UnicodeDecodeError:
        return False
    return len(_COMMON_SCRIPTS.findall(text)) > 0.97 * len(text)
