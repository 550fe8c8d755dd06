"""Extracts the text of RTF files. Only used in the child process.

Reads the bytes once, in linear time. Characters come as `\\'hh` bytes in the code page of the current font, or as
`\\uN` with a fallback that is skipped. Skips groups that are not text (fonts, pictures, field codes, …), and hidden and
deleted passages. A group left open means that the end is missing: refused, not passed off as complete.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tasks.intake.errors import DocumentRefused, Refusal

_TOKEN = re.compile(
    rb"\\(?P<word>[A-Za-z]{1,32})(?P<number>-?\d{1,10})? ?|\\'(?P<hex>[0-9A-Fa-f]{2})|\\(?P<symbol>[^A-Za-z])"
    rb"|(?P<brace>[{}])|[\r\n\0]+|(?P<text>[^\\{}\r\n\0]+)|\\",
    re.DOTALL,
)
_MAX_DEPTH = 2_000
_NO_TEXT = frozenset({
    b"fonttbl", b"colortbl", b"stylesheet", b"info", b"pict", b"object", b"objdata", b"themedata",
    b"colorschememapping", b"datastore", b"latentstyles", b"listtable", b"listoverridetable", b"rsidtbl",
    b"generator", b"filetbl", b"revtbl", b"xmlnstbl", b"fldinst", b"sp", b"shprslt", b"nonshppict", b"annotation",
    b"atnid", b"atnauthor", b"bkmkstart", b"bkmkend", b"xe", b"tc", b"tcn", b"private", b"mmathPr", b"docvar",
    b"template", b"operator", b"comment", b"falt", b"panose", b"fontemb", b"fontfile",
})  # fmt: skip
# Readers may skip a starred group that they do not know; these hold text.
_STARRED_TEXT = frozenset((b"shpinst", b"footnote", b"shppict"))
_WRITTEN = {
    b"par": "\n", b"line": "\n", b"sect": "\n", b"page": "\n", b"row": "\n", b"nestrow": "\n", b"cell": "\t",
    b"nestcell": "\t", b"tab": "\t", b"emdash": "—", b"endash": "–", b"lquote": "‘", b"rquote": "’",
    b"ldblquote": "“", b"rdblquote": "”", b"bullet": "•", b"emspace": " ", b"enspace": " ", b"qmspace": " ",
    b"zwj": "\u200d", b"zwnj": "\u200c", b"ltrmark": "\u200e", b"rtlmark": "\u200f",
}  # fmt: skip
_SYMBOLS = {b"~": "\xa0", b"_": "-", b"\n": "\n", b"\r": "\n", b"\\": "\\", b"{": "{", b"}": "}"}
_CODE_PAGES = {b"ansi": "cp1252", b"mac": "mac_roman", b"pc": "cp437", b"pca": "cp850"}
_CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gbk", 136: "big5", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip
_KNOWN_PAGES = frozenset((437, 708, 720, 737, 775, 850, 852, 855, 857, 860, 861, 862, 863, 864, 865, 866, 869, 874, 932,
                          936, 949, 950, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258, 65001))  # fmt: skip


@dataclass(frozen=True)
class _Group:
    """Holds the settings that a `{` saves and its `}` restores."""

    no_text: bool = False
    fonts: bool = False  # inside the font table, where `\\f` describes a font and does not choose it
    hidden: bool = False
    fallback: int = 1  # characters that follow each \\uN for readers that do not know it
    font: int = -1


def rtf_to_text(data: bytes, max_chars: int) -> str:
    """Return the text of an RTF file. Raises DocumentRefused: damaged, too_long."""
    reader = _Reader(max_chars)
    position = data.index(b"{")
    while position < len(data):
        match = _TOKEN.match(data, position)
        if match is None:
            raise DocumentRefused(Refusal.DAMAGED)
        position = match.end() + reader.take(match)
        if reader.done:
            return reader.text()
    raise DocumentRefused(Refusal.DAMAGED)


class _Reader:
    """Collects the text of a file, token by token. `done` is True after the end of the outermost group."""

    def __init__(self, max_chars: int) -> None:
        self.done = False
        self._group = _Group()
        self._outer: list[_Group] = []
        self._starred = False
        self._skip = 0
        self._page = "cp1252"
        self._fonts: dict[int, str] = {}
        self._default_font = -1
        self._bytes = bytearray()
        self._out: list[str] = []
        self._left = max_chars

    def text(self) -> str:
        return re.sub(r"[\t ]+\n", "\n", "".join(self._out)).strip()

    def take(self, match: re.Match[bytes]) -> int:
        """Handle one token. Returns the number of raw bytes after it that belong to it."""
        if match["brace"]:
            self._take_brace(match["brace"])
        elif match["word"]:
            return self._take_word(match["word"], int(match["number"]) if match["number"] else None)
        elif match["symbol"] == b"*":
            self._starred = True
        elif match["hex"]:
            self._add_bytes(bytes.fromhex(match["hex"].decode("ascii")))
        elif match["symbol"] and self._skip:
            self._skip -= 1
        elif match["symbol"]:
            self._write(_SYMBOLS.get(match["symbol"], ""))
        elif match["text"]:
            self._add_bytes(match["text"])
        return 0

    def _take_brace(self, brace: bytes) -> None:
        self._flush()
        self._skip, self._starred = 0, False
        if brace == b"{":
            self._outer.append(self._group)
            if len(self._outer) > _MAX_DEPTH:
                raise DocumentRefused(Refusal.DAMAGED)
            return
        self._group = self._outer.pop()
        self.done = not self._outer

    def _take_word(self, word: bytes, number: int | None) -> int:
        starred, self._starred = self._starred, False
        if word == b"bin":
            return max(0, number or 0)
        if word == b"u":
            self._take_unicode(number or 0)
        elif self._skip:
            self._skip -= 1
        elif word in _WRITTEN:
            self._write(_WRITTEN[word])
        elif word in _NO_TEXT or (starred and word not in _STARRED_TEXT):
            self._change(no_text=True, fonts=self._group.fonts or word == b"fonttbl")
        elif word in _STARRED_TEXT and word == b"footnote":
            self._write(" ")
        else:
            self._take_setting(word, number)
        return 0

    def _take_setting(self, word: bytes, number: int | None) -> None:
        if word in (b"v", b"deleted"):
            self._change(hidden=number != 0)
        elif word == b"plain":
            self._change(hidden=False, font=-1)
        elif word == b"uc":
            self._change(fallback=min(max(number or 0, 0), 100))
        elif word == b"f" and number is not None:
            self._change(font=number)
        elif word == b"deff" and number is not None:
            self._default_font = number
        elif word == b"fcharset" and self._group.fonts and number in _CHARSETS:
            self._fonts[self._group.font] = _CHARSETS[number]
        elif word == b"ansicpg" and number in _KNOWN_PAGES:
            self._page = "utf-8" if number == 65001 else f"cp{number}"
        elif word in _CODE_PAGES:
            self._page = _CODE_PAGES[word]

    def _take_unicode(self, number: int) -> None:
        code = number % 0x10000
        # Symbol fonts have their glyphs at U+F020 and up: the low byte is the character as typed, B7 is a bullet.
        self._write("•" if code == 0xF0B7 else chr(code - 0xF000) if 0xF020 <= code <= 0xF07E else chr(code))
        self._skip = self._group.fallback

    def _change(self, **settings: int | bool) -> None:
        self._flush()
        self._group = replace(self._group, **settings)  # type: ignore[arg-type]

    def _add_bytes(self, raw: bytes) -> None:
        skipped = min(self._skip, len(raw))
        self._skip -= skipped
        # A two-byte character comes as two \\'hh, or as one \\'hh and a plain letter, so bytes are decoded in runs.
        if not self._group.no_text and not self._group.hidden:
            self._bytes += raw[skipped:]

    def _flush(self) -> None:
        if self._bytes:
            font = self._group.font if self._group.font >= 0 else self._default_font
            encoding = self._fonts.get(font, self._page)
            self._append(self._bytes.decode(encoding, "replace"))
            self._bytes.clear()

    def _write(self, text: str) -> None:
        self._flush()
        if not self._group.no_text and not self._group.hidden:
            self._append(text)

    def _append(self, text: str) -> None:
        self._out.append(text)
        self._left -= len(text)
        if self._left < 0:
            raise DocumentRefused(Refusal.TOO_LONG)
