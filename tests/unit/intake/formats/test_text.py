from __future__ import annotations

import pytest

from tasks.intake.formats.text import csv_facts, declared_in_html, decode

RUSSIAN = "Комитет порта собрался третьего марта, чтобы обсудить ремонт северного пирса."


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Café owner’s report — price €12, “naïve” plan.", "cp1252"),
        ("café très à Paris", "cp1252"),
        ("Straße, Größe, Übung", "cp1252"),
        ("¿Qué pasó? Mañana, 12½ m³ £5", "cp1252"),
        ("Wszyscy członkowie wzięli udział w posiedzeniu; każdy miał głos.", "cp1250"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"),
        (RUSSIAN, "cp866"),
        ("Η επιτροπή του λιμανιού συνεδρίασε στις τρεις Μαρτίου", "cp1253"),
        ("הועדה החליטה לתקן את המזח הצפוני של הנמל עד סוף חודש אוגוסט", "cp1255"),
        ("قررت اللجنة إصلاح الرصيف في شهر مايو", "cp1256"),
        ("คณะกรรมการท่าเรือประชุมเมื่อวันที่สามมีนาคม", "cp874"),
        ("港口委员会于三月三日开会，审议北码头的维修工作。", "gb18030"),
        ("港口委員會於三月三日開會，審議北碼頭的維修工作。", "big5"),
        ("항만 위원회는 삼월 삼일에 회의를 열었다.", "cp949"),
        ("会議室予約のお知らせ。来週の月曜日は休みです。", "cp932"),
        ("会議室予約のお知らせ。来週の月曜日は休みです。", "euc_jp"),
        ("会議室予約のお知らせ。", "iso2022_jp"),
        ("wide words, Привет", "utf-16-le"),
        ("wide words, but big", "utf-16-be"),
        ("😀 é Привет", "utf-8"),
    ],
)
def test_text_comes_out_exact_and_names_its_encoding(text: str, encoding: str) -> None:
    decoded = decode(text.encode(encoding))
    assert (decoded.text, decoded.encoding, decoded.replaced_bytes) == (text, encoding, 0)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_decides_and_is_gone(encoding: str) -> None:
    assert decode("# Title é".encode(encoding)).text == "# Title é"


def test_stray_bytes_in_utf8_are_replaced_and_counted() -> None:
    decoded = decode("Привет, café. ".encode() * 5 + b"\xff and \xfe")
    assert (decoded.encoding, decoded.replaced_bytes) == ("utf-8", 2)
    assert decoded.text.endswith("café. \ufffd and \ufffd")


def test_bytes_without_meaning_in_windows_1252_are_replaced_and_counted() -> None:
    decoded = decode(b"caf\xe9 \x81")
    assert (decoded.text, decoded.encoding, decoded.replaced_bytes) == ("café \ufffd", "cp1252", 1)


@pytest.mark.parametrize(
    ("markup", "encoding"),
    [
        (b"<meta charset=windows-1251>", "cp1251"),
        (b'<meta http-equiv="content-type" content="text/html; charset=iso-8859-5">', "iso8859-5"),
        (b"<meta charset='latin1'>", "cp1252"),
        (b"<meta charset=hex>", None),
        (b"<meta charset=nonsense>", None),
        (b"<p>charset=utf-8", None),
    ],
)
def test_a_page_can_name_its_encoding(markup: bytes, encoding: str | None) -> None:
    assert declared_in_html(markup) == encoding


def test_rows_and_columns_of_a_table_are_counted() -> None:
    assert csv_facts('a;b;c\n"x\ny";2\n\n') == {"rows": 2, "columns": 3}
    assert csv_facts('"' + "x" * 200_000) == {}
