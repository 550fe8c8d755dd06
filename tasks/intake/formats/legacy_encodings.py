"""Guesses the code page of a text from before Unicode. The same bytes always give the same result.

First decides if the text is in Latin letters: there, bytes above 0x7F stand alone or in pairs next to ASCII letters; in
other scripts they make up whole words. Of the Latin code pages, takes the first under which no word has a sign or a
capital in its middle. Of the Cyrillic ones, takes the one that gives the most frequent letters. Leaves all others to
charset-normalizer, which is good at them and bad at Latin and Cyrillic. A few words may not be enough to tell: the
reading reports the encoding as a fact, so that the user can see why letters are wrong, and save as UTF-8.
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
# The bytes above 0x7F that are not letters in Windows-1252. In other code pages they are letters as well.
_SIGNS = bytes({*range(0x80, 0xC0), 0xD7, 0xF7} - {0x83, 0x8A, 0x8C, 0x8E, 0x9A, 0x9C, 0x9E, 0x9F})
_HEBREW = bytes({*range(0xE0, 0xFB), 0x85, *range(0x91, 0x98), 0xA0, 0xA4, 0xAB, 0xB7, 0xBB})
_FREQUENT_HEBREW = "ויהלארתבש".encode("cp1255")
_FREQUENT_CYRILLIC = "оеаинтсрв".encode("cp1251")
_FREQUENT_SMALL = frozenset("оеаинтсрвлкмдпуіо")
_BETWEEN_WORDS = frozenset("«»“”„‘’—–…№§°\xa0\xad")
_WITHIN_WORDS = frozenset("'‘’·–—…\xa0\xad")
_HARMLESS_SIGNS = frozenset("¿¡«»")
_TURKISH, _ICELANDIC = frozenset(b"\xdd\xde\xd0\xfd\xfe\xf0"), frozenset("áíóúæ".encode("cp1252"))
_KANA = re.compile("[\u3041-\u30fe]")


def legacy_encoding(data: bytes) -> str:
    """Return the code page of `data`, which is not UTF-8. Windows-1252 unless something points to another."""
    data = data[:_SAMPLE]
    if _is_katakana(data):
        return "cp932"
    latin = _latin_code_page(data)
    if latin:
        return latin
    # Hebrew and Cyrillic have their small letters at the same bytes; the frequent ones tell them apart.
    if data.translate(None, _HEBREW).isascii() and _count(data, _FREQUENT_HEBREW) > _count(data, _FREQUENT_CYRILLIC):
        return "cp1255"
    cyrillic = {encoding: _cyrillic_share(data, encoding) for encoding in _CYRILLIC}
    best = max(_CYRILLIC, key=lambda encoding: cyrillic[encoding])
    if cyrillic[best] > 0.6:
        return best
    guess = charset_normalizer.from_bytes(data, cp_isolation=_OTHERS, enable_fallback=False).best()
    return guess.encoding if guess else "cp1252"


def _is_katakana(data: bytes) -> bool:
    """Return True for Shift JIS text in katakana.

    Each katakana is a high byte before an ASCII letter, so the text looks like Latin words with strange accents.
    """
    try:
        high = [character for character in data.decode("cp932") if character > "\x7f"]
    except UnicodeDecodeError:
        return False
    return sum(1 for character in high if _KANA.match(character)) > 0.8 * len(high)


def _latin_code_page(data: bytes) -> str | None:
    """Return the Latin code page; None if the text is not written in Latin letters."""
    if not _has_latin_words(data):
        return None
    misfits = {encoding: _misfits(data.decode(encoding, "replace")) for encoding in _LATIN}
    if _is_two_byte_text(data, misfits["cp1252"]):
        return None
    best = min(_LATIN, key=lambda encoding: len(misfits[encoding]))
    if _speak_against_cp1252(misfits["cp1252"]) and 4 * len(misfits[best]) <= len(misfits["cp1252"]):
        return best
    return _central_european(data) or ("cp1254" if _is_turkish(data) else "cp1252")


def _has_latin_words(data: bytes) -> bool:
    """Return False if most bytes above 0x7F are in runs that no Latin word has: three, or two without a letter."""
    latin = foreign = 0
    for run in _RUN.finditer(data):
        core = run[0].strip(_SIGNS)
        touches = data[max(0, run.start() - 1) : run.start()].isalpha() or data[run.end() : run.end() + 1].isalpha()
        if len(core) > 2 or (len(core) == 2 and not touches):
            foreign += len(core)
        else:
            latin += len(core)
    return foreign <= latin


def _is_two_byte_text(data: bytes, misfits: list[str]) -> bool:
    """Return True if bytes above 0x7F and misfits are too frequent for Latin text, and a two-byte encoding is valid."""
    high = _count(data, _ALL_HIGH)
    is_dense = high > 0.4 * len(data) and len(misfits) > 0.1 * high
    return is_dense and any(is_strictly(data, encoding) for encoding in _TWO_BYTES)


def _speak_against_cp1252(misfits: list[str]) -> bool:
    """Return True if there are too many misfits, or too many different ones, for mere typing errors."""
    kinds = set(misfits) - _HARMLESS_SIGNS
    return len(kinds) > 1 or (bool(kinds) and len(misfits) > 2)


def _misfits(text: str) -> list[str]:
    """Return the characters that no word has at their position: signs in its middle, capitals after small letters."""
    return [
        here
        for before, here, after in zip(text, text[1:], text[2:] + " ", strict=False)
        if here > "\x7f"
        and before.isalpha()
        and here not in _WITHIN_WORDS
        and ((here.isupper() and before.islower()) or (not here.isalpha() and after.isalpha()))
    ]


def _central_european(data: bytes) -> str | None:
    """Return the code page of Czech or Hungarian text; None for other text.

    Their letters are letters in Windows-1252 too, but no language that uses it has them together.
    """
    seen = set(data)
    czech = 0xF8 in seen and seen & {0xE8, 0xEC, 0xF9, 0xEF} and not seen & {0xE5, 0xE6}
    hungarian = seen & {0xF5, 0xFB} and seen & {0xE1, 0xF3} and seen & {0xF6, 0xFC} and not seen & {0xE3, 0xE7}
    if not (czech or hungarian):
        return None
    return "cp1250" if seen & set(range(0x80, 0xA0)) or not seen & {0xA9, 0xAB, 0xAE, 0xB9, 0xBB, 0xBE} else "iso8859_2"


def _is_turkish(data: bytes) -> bool:
    """Return True if the text has one of the six Turkish letters.

    Icelandic has other letters at these bytes, and never without accented vowels.
    """
    seen = set(data)
    return bool(seen & _TURKISH) and not seen & _ICELANDIC


def _cyrillic_share(data: bytes, encoding: str) -> float:
    """Return the share of frequent letters among all letters; 0 if the text is not Cyrillic under this encoding."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return 0
    letters = [character for character in text if character > "\x7f" and character not in _BETWEEN_WORDS]
    if not letters or _misfits(text) or not all("\u0400" <= letter <= "\u04ff" for letter in letters):
        return 0
    return sum(1 for letter in letters if letter.lower() in _FREQUENT_SMALL) / len(letters)


def is_strictly(data: bytes, encoding: str) -> bool:
    """Return True if every byte has a meaning in this encoding."""
    try:
        data.decode(encoding)
    except UnicodeError:
        return False
    return True


def _count(data: bytes, counted: bytes) -> int:
    return len(data) - len(data.translate(None, counted))
