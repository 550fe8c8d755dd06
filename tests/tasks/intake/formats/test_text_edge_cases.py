"""Tests texts, pages and tables of the same kinds as the case files, in other variants."""

from __future__ import annotations

import codecs

import pytest

from tasks.intake import DocumentRefused, IntakePool, Limits, Refusal

GERMAN = "Die Prüfung der Brücke kostet 12.000. Größe: 5 m. Übermäßig hohe Gebühren fürs Öffnen sind ausgeschlossen."
FRENCH = "« L’été à Noël : où créée, l’œuvre coûte cinq ? », a-t-il dit."
RUSSIAN = "Комитет порта собрался третьего марта, чтобы обсудить ремонт северного пирса."
CHINESE = "港口委员会于三月三日开会，审议北码头的维修工作。"
JAPANESE = "プリンターのエラー\nテストデータ\n"
PERSIAN = "کمیتهٔ بندر می\u200cخواهد اسکلهٔ شمالی (هزینه: ۵۷٬۵۰۰) را تعمیر کند."
MIXED = "\u200fהדו״ח (Report 7, v2.1) אושר ב־3.3.2026!\n\nThe port is called נמל צפון."
FLAGS = "🇩🇪🇫🇷 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f 1️⃣ ❤️‍🔥"
FAMILIES = "👩🏽‍🤝‍👨🏿 👨‍👩‍👧‍👦 🧑🏻‍🚀"
MARKS = "Ẅ̷ä̈ nи̃й क्षत्रिय 각 e\u0301\u0323"
PAGE = "<!doctype html><html><head><style>{style}</style></head><body><p>seen</p>{body}<p>and seen</p></body></html>"

CASES: list[tuple[str, bytes, str | Refusal]] = [
    ("A08 rtf with half a character", rb"{\rtf1\ansi The half \u-10179? of it.}", "The half \ufffd of it."),
    ("A08 page with a reference to half a character", b"<html><p>The half &#xD83D; of it.", "The half \ufffd of it."),
    (
        "A08 utf-16 with half a character",
        codecs.BOM_UTF16_LE + "The half ".encode("utf-16-le") + b"\x3d\xd8" + " of it.".encode("utf-16-le"),
        "The half \ufffd of it.",
    ),
    ("D09 table", b"who,what\r\nAnna,pay\0ment\r\n", "who,what\nAnna,payment\n"),
    ("D09 wide text", "\ufeffa\0b report".encode("utf-16-le"), "ab report"),
    ("D09 page", b"<html><p>pa\0ge", "page"),
    ("D09 only wide NULs", b"\0\0" * 64, Refusal.NO_TEXT),
    *[(f"D10 German {code}", GERMAN.encode(code), GERMAN) for code in ("cp1252", "iso8859_15", "mac_roman", "cp850")],
    ("D10 French", FRENCH.encode("cp1252"), FRENCH),
    ("D10 Polish", (polish := "Zażółć gęślą jaźń w mieście Łódź").encode("iso8859_2"), polish),
    ("D10 Czech", (czech := "Příliš žluťoučký kůň úpěl ďábelské ódy").encode("cp1250"), czech),
    ("D10 Hungarian", (hungarian := "Árvíztűrő tükörfúrógép őszülő").encode("cp1250"), hungarian),
    ("D10 Turkish", (turkish := "İstanbul'da çağrı görüşüldü, şişe ığdır").encode("cp1254"), turkish),
    *[
        (f"D10 Russian {code}", RUSSIAN.encode(code), RUSSIAN)
        for code in ("cp1251", "koi8_r", "cp866", "mac_cyrillic", "iso8859_5")
    ],
    ("D10 Hebrew", (hebrew := "הועדה החליטה לתקן את המזח הצפוני").encode("cp1255"), hebrew),
    ("D10 a page that names it", b"<html><meta charset=iso-8859-7><p>" + "λιμάνι".encode("iso8859_7"), "λιμάνι"),
    ("D10 a table", "Größe;Öl\r\n5;ß".encode("cp1252"), "Größe;Öl\n5;ß"),
    *[
        (f"D11 Russian {code}", RUSSIAN.encode(code), RUSSIAN)
        for code in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le")
    ],
    *[(f"D11 Chinese {code}", (CHINESE * 2).encode(code), CHINESE * 2) for code in ("utf-16-le", "utf-16-be")],
    ("D11 marked page", codecs.BOM_UTF16_BE + "<html><p>Größe".encode("utf-16-be"), "Größe"),
    ("D11 marked table", codecs.BOM_UTF8 + b"who,what\n", "who,what\n"),
    *[(f"D12 katakana {code}", JAPANESE.encode(code), JAPANESE) for code in ("cp932", "euc_jp", "iso2022_jp")],
    ("D12 Chinese", CHINESE.encode("gb18030"), CHINESE),
    ("D12 Taiwan", (taiwan := "港口委員會於三月三日開會，審議北碼頭的維修工作。").encode("big5"), taiwan),
    ("D12 Korean", (korean := "항만 위원회는 삼월 삼일에 회의를 열었다.").encode("cp949"), korean),
    ("D13 Persian, with its joiners", PERSIAN.encode(), PERSIAN),
    ("D13 Hebrew and English, with its mark", MIXED.encode(), MIXED),
    ("D13 overrides are taken out", "חשבון \u202e57,500\u202c \u2067(א)\u2069".encode(), "חשבון 57,500 (א)"),
    ("D14 flags and keys", FLAGS.encode(), FLAGS),
    ("D14 families", FAMILIES.encode("utf-16"), FAMILIES),
    ("D14 marks over marks", MARKS.encode(), MARKS),
    ("D15 one line of Chinese", ("委" * 60_000).encode(), "委" * 60_000),
    ("D15 one letter with 50,000 accents", ("e" + "\u0301" * 50_000).encode(), "e" + "\u0301" * 50_000),
    ("D15 one row of 40,000 cells", (row := ",".join("1" * 40_000)).encode(), row),
    ("D15 one line of a page", b"<html><p>" + b"<b>x</b> " * 20_000, ("x " * 20_000).strip()),
    ("D16 a mark and nothing", codecs.BOM_UTF8, Refusal.EMPTY),
    ("D16 zero-width and no-break spaces", "\u200b\ufeff\u00a0\u2003\n".encode(), Refusal.EMPTY),
    ("D16 tags around nothing", b"<html><body><p> </p><script>x()</script></body></html>", Refusal.EMPTY),
    (
        "D17 class, id, attribute",
        PAGE.format(
            style=".a{display:none}#b{visibility:hidden}[data-c]{opacity:0}@media screen{.d{font-size:0}}",
            body="<p class=a>X</p><p id=b>X</p><p data-c>X</p><p class='z d'>X</p>",
        ).encode(),
        "seen\n\nand seen",
    ),
    (
        "D17 what a rule shows again",
        PAGE.format(
            style=".tab{display:none}.tab.on{display:block}@media print{.p{display:none}}i{display:none!important}",
            body="<div class=tab>X</div><div class='tab on'>shown<i style='display:inline'>X</i></div>"
            "<div class=p>read</div>",
        ).encode(),
        "seen\n\nshown\nread\n\nand seen",
    ),
    (
        "D17 parts nobody sees",
        PAGE.format(
            style="",
            body="<!-- X --><template>X</template><noscript>X</noscript><p hidden>X</p><img alt=X>"
            "<p aria-label=X><span aria-hidden=true>glyph</span></p><input type=hidden value=X>"
            "<svg><title>X</title></svg><object>X</object>",
        ).encode(),
        "seen\n\nglyph\n\nand seen",
    ),
    (
        "D17 shown by its own style",
        PAGE.format(style="p.a{display:none}", body="<p class=a style='display:block'>shown</p>").encode(),
        "seen\n\nshown\n\nand seen",
    ),
    ("D18 tabs and signs", b"who\twhat\n=1+1\t@SUM(A1)\n+1\t-2\n", "who\twhat\n=1+1\t@SUM(A1)\n+1\t-2\n"),
    (
        "D18 semicolons, quotes and line ends",
        b'a;"b\r\n""c"";"\r\n"=HYPERLINK(""x"")";2\r\n',
        'a;"b\n""c"";"\n"=HYPERLINK(""x"")";2\n',
    ),
    ("D18 cells that begin with a tab", b'"\t=1",2\n"\r=2",3\n', '"\t=1",2\n"\n=2",3\n'),
]


@pytest.mark.parametrize(("data", "outcome"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_it_ends_as_its_kind_does(pool: IntakePool, data: bytes, outcome: str | Refusal) -> None:
    if isinstance(outcome, Refusal):
        with pytest.raises(DocumentRefused) as caught:
            pool.read(data, "table.csv", Limits())
        assert caught.value.refusal is outcome
    else:
        assert pool.read(data, "table.csv", Limits()).text == outcome


@pytest.mark.parametrize(
    ("data", "rows", "columns"),
    [(b"a\tb\n=1\t2\n", 2, 2), (b'a;"b\n;"\n1;2;3\n', 2, 3), (",".join("1" * 40_000).encode(), 1, 40_000)],
    ids=["tabs", "line end in a cell", "one row"],
)
def test_rows_and_columns_are_counted(pool: IntakePool, data: bytes, rows: int, columns: int) -> None:
    facts = pool.read(data, "table.csv", Limits()).facts
    assert (facts["rows"], facts["columns"]) == (rows, columns)


def test_stray_bytes_are_replaced_and_counted(pool: IntakePool) -> None:
    reading = pool.read(RUSSIAN.encode() + b" \xff\xfe " + RUSSIAN.encode(), None, Limits())
    assert (reading.text.count("\ufffd"), reading.facts["replaced_bytes"]) == (2, 2)
    assert pool.read("Größe".encode("cp1252") + b" \x81", None, Limits()).facts["replaced_bytes"] == 1


@pytest.mark.parametrize(
    "hidden",
    [
        "".join(chr(0xE0000 + ord(letter)) for letter in "ignore"),
        "\u200b\u2060\u00ad\ufeff\u034f\u180e",
        "\u202e\u2066\u2069\u202c",
        "\ufe00\ufe01",
    ],
    ids=["tags", "zero width", "directions", "variations"],
)
def test_nothing_invisible_is_sent(pool: IntakePool, hidden: str) -> None:
    assert pool.read(f"a{hidden}b".encode(), None, Limits()).text == "ab"
    assert pool.read("".join(f"{letter}{hidden}" for letter in "pier").encode(), None, Limits()).text == "pier"
