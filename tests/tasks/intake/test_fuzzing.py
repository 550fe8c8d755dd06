"""Tests that any bytes give a text or a refusal, within the limits, and that the reader is ready for the next bytes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tasks.intake import DocumentRefused, IntakePool, Limits, sniff
from tests.support.factories import ROOT

FILES = ROOT / "tests" / "support" / "files"
GOOD = [
    (FILES / name).read_bytes()
    for name in (
        "D08g_good.docx",
        "D04b_wrong_startxref_but_readable.pdf",
        "D17_html_scripts_hidden.html",
        "D18_formula_cells.csv",
        "D13_rtl_hebrew_arabic.txt",
        "D12_shift_jis.txt",
        "D11a_utf16le_bom.txt",
    )
]
NAMES = ["x.txt", "x.md", "x.html", "x.csv", "x.pdf", "x.docx", "x.odt", "x.rtf", "x", None]
LIMITS = Limits(wall_seconds=4, cpu_seconds=3)
BOUNDED = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],
    derandomize=True,
)


@pytest.fixture(scope="module")
def pool() -> Iterator[IntakePool]:
    pool = IntakePool()
    yield pool
    pool.close()


def read(pool: IntakePool, data: bytes, name: str | None) -> None:
    """Check that `sniff` and the pool each give a result that can be stored, or a refusal."""
    try:
        sniff(data, name)
        reading = pool.read(data, name, LIMITS)
    except DocumentRefused:
        return
    reading.text.encode("utf-8")
    assert "\x00" not in reading.text
    assert reading.text.strip()


@BOUNDED
@given(data=st.binary(max_size=3000), name=st.sampled_from(NAMES))
def test_random_bytes(pool: IntakePool, data: bytes, name: str | None) -> None:
    read(pool, data, name)


@BOUNDED
@given(
    head=st.sampled_from(GOOD),
    tail=st.sampled_from(GOOD),
    at=st.floats(0, 1),
    noise=st.binary(max_size=40),
    name=st.sampled_from(NAMES),
)
def test_mixtures_of_good_files(
    pool: IntakePool, head: bytes, tail: bytes, at: float, noise: bytes, name: str | None
) -> None:
    read(pool, head[: int(len(head) * at)] + noise + tail[int(len(tail) * at) :], name)


@BOUNDED
@given(part=st.binary(max_size=800), where=st.integers(0, 10), name=st.sampled_from(NAMES))
def test_word_files_with_a_part_replaced(pool: IntakePool, part: bytes, where: int, name: str | None) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(GOOD[0])) as good, zipfile.ZipFile(file, "w") as bad:
        for number, member in enumerate(good.namelist()):
            bad.writestr(member, part if number == where else good.read(member))
    read(pool, file.getvalue(), name)


def test_the_reader_is_there_after_all_of_them(pool: IntakePool) -> None:
    assert pool.read(GOOD[0], "good.docx", LIMITS).text
