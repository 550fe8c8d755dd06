"""Which code page a text from before Unicode is written in. The same bytes always give the same answer.

First: is it written in Latin letters? There bytes above 0x7F stand alone or in pairs beside ASCII letters; elsewhere
they make up whole words. Among the Latin code pages the first is taken under which words hold no sign and no capital in
their middle. Among the Cyrillic ones frequent letters decide; between all others charset-normalizer, which is good at
them and bad at these. A few words may not be enough to tell: the name of the encoding is a fact of the reading, so that
a person can see why letters are wrong, and save as UTF-8.
"""

from __future__ import annotations

import re

import charset_normalizer

_SAMPLE = 256 * 1024
_TWO_BYTES = ("cp932", "euc_jp", "gb18030", "big5", "cp949")
_OTHERS = [*_TWO_BYTES, "cp1253", "cp1255", "cp1256", "cp874"]
_LATIN = ("cp1252", "cp1250", "iso8859_2", "mac_roman", "cp850")
_CYRILLIC = ("cp1251", "koi8_r", "cp866", "mac_cyrillic", "iso8859_5")
_ALL_HIGH = bytes(range(0x80, 0x100))
_RUN = re.compile(rb"[\x80-\xff]+")
# What Windows-1252 has above 0x7F besides letters. In other code pages these are letters as well.
_SIGNS = bytes({*range(0x80, 0xC0), 0xD7, 0xF7} - {0x83, 0x8A, 0x8C, 0x8E, 0x9A, 0x9C, 0x9E, 0x9F})
_HEBREW = bytes({*range(0xE0, 0xFB), 0x85, *range(0x91, 0x98), 0xA0, 0xA4, 0xAB, 0xB7, 0xBB})
_FREQUENT_HEBREW = "ויהלארתבש".encode("cp1255")
_FREQUENT_CYRILLIC = "оеаинтсрв".encode("cp1251")
_FREQUENT_SMALL = frozenset("оеаинтсрвлкмдпуіо")
_BETWEEN_WORDS = frozenset("«»“”„‘’—–…№§°\xa0\xad")
_WITHIN_WORDS = frozenset("'‘’·–—…\xa0\xad")
_SLIPS = frozenset("¿¡«»")
_TURKISH, _ICELANDIC = frozenset(b"\xdd\xde\xd0\xfd\xfe\xf0"), frozenset("áíóúæ".encode("cp1252"))
_KANA = re.compile("[\u3041-\u30fe]")


def legacy_encoding(data: bytes) -> str:
    """The code page of `data`, which is not UTF-8. Windows-1252 where nothing speaks for another."""
    data = data[:_SAMPLE]
    if _is_katakana(data):
        return "cp932"
    latin = _latin(data)
    if latin:
        return latin
    # Both have all of their small letters there; which of them are frequent tells.
    if data.translate(None, _HEBREW).isascii() and _count(data, _FREQUENT_HEBREW) > _count(data, _FREQUENT_CYRILLIC):
        return "cp1255"
    cyrillic = {encoding: _cyrillic_share(data, encoding) for encoding in _CYRILLIC}
    best = max(_CYRILLIC, key=lambda encoding: cyrillic[encoding])
    if cyrillic[best] > 0.6:
        return best
    guess = charset_normalizer.from_bytes(data, cp_isolation=_OTHERS, enable_fallback=False).best()
    return guess.encoding if guess else "cp1252"


def _is_katakana(data: bytes) -> bool:
    """In Shift JIS each is a high byte before an ASCII letter, as if it were a Latin word with strange accents."""
    try:
        high = [character for character in data.decode("cp932") if character > "\x7f"]
    except UnicodeDecodeError:
        return False
    return sum(1 for character in high if _KANA.match(character)) > 0.8 * len(high)


def _latin(data: bytes) -> str | None:
    """The Latin code page; None where the text is not written in Latin letters."""
    latin = foreign = 0
    for run in _RUN.finditer(data):
        core = run[0].strip(_SIGNS)
        touches = data[max(0, run.start() - 1) : run.start()].isalpha() or data[run.end() : run.end() + 1].isalpha()
        if len(core) > 2 or (len(core) == 2 and not touches):
            foreign += len(core)
        else:
            latin += len(core)
    if foreign > latin:
        return None
    faults = {encoding: _faults(data.decode(encoding, "replace")) for encoding in _LATIN}
    best = min(_LATIN, key=lambda encoding: len(faults[encoding]))
    high = _count(data, _ALL_HIGH)
    is_dense = high > 0.4 * len(data) and len(faults["cp1252"]) > 0.1 * high
    if is_dense and any(is_strictly(data, encoding) for encoding in _TWO_BYTES):
        return None
    usual = set(faults["cp1252"]) - _SLIPS
    if (len(usual) > 1 or (usual and len(faults["cp1252"]) > 2)) and 4 * len(faults[best]) <= len(faults["cp1252"]):
        return best
    return _central_european(data) or ("cp1254" if _is_turkish(data) else "cp1252")


def _faults(text: str) -> list[str]:
    """The characters that no word has where they stand: signs in its middle, and capitals after small letters."""
    return [
        here
        for before, here, after in zip(text, text[1:], text[2:] + " ", strict=False)
        if here > "\x7f"
        and before.isalpha()
        and here not in _WITHIN_WORDS
        and ((here.isupper() and before.islower()) or (not here.isalpha() and after.isalpha()))
    ]


def _central_european(data: bytes) -> str | None:
    """Czech and Hungarian have letters that are letters in Windows-1252 too, but of no language together."""
    seen = set(data)
    czech = 0xF8 in seen and seen & {0xE8, 0xEC, 0xF9, 0xEF} and not seen & {0xE5, 0xE6}
    hungarian = seen & {0xF5, 0xFB} and seen & {0xE1, 0xF3} and seen & {0xF6, 0xFC} and not seen & {0xE3, 0xE7}
    if not (czech or hungarian):
        return None
    return "cp1250" if seen & set(range(0x80, 0xA0)) or not seen & {0xA9, 0xAB, 0xAE, 0xB9, 0xBB, 0xBE} else "iso8859_2"


def _is_turkish(data: bytes) -> bool:
    """Its six letters stand where Icelandic has others, which never come without accented vowels."""
    seen = set(data)
    return bool(seen & _TURKISH) and not seen & _ICELANDIC


def _cyrillic_share(data: bytes, encoding: str) -> float:
    """How many of the letters are frequent ones; 0 where the text is no Cyrillic under this encoding."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return 0
    letters = [character for character in text if character > "\x7f" and character not in _BETWEEN_WORDS]
    if not letters or _faults(text) or not all("\u0400" <= letter <= "\u04ff" for letter in letters):
        return 0
    return sum(1 for letter in letters if letter.lower() in _FREQUENT_SMALL) / len(letters)


def is_strictly(data: bytes, encoding: str) -> bool:
    """Whether every byte has a meaning in this encoding."""
    try:
        data.decode(encoding)
    except UnicodeError:
        return False
    return True


def _count(data: bytes, wanted: bytes) -> int:
    return len(data) - len(data.translate(None, wanted))
