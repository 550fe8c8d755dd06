from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tasks.intake import DocumentRefused, IntakePool, Limits, ReadCancelled, Reading, Refusal, read_document
from tasks.ledger.errors import JobError
from tests.support.documents.office import case_file, docx, paragraph, pdf

linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


def refusal(pool: IntakePool, data: bytes, limits: Limits) -> Refusal:
    with pytest.raises(DocumentRefused) as caught:
        pool.read(data, None, limits)
    return caught.value.refusal


def child_of(pool: IntakePool) -> int:
    (child,) = pool._children
    return child.pid


def test_facts_are_measured(pool: IntakePool) -> None:
    reading = pool.read(pdf("one two", "", "three"), None, Limits())
    assert reading.text == "one two\n\nthree"
    assert reading.facts == {"pages": 3, "pages_with_text": 2, "characters": 14, "words": 3}
    assert pool.read("café".encode("cp1252"), None, Limits()).facts == {
        "encoding": "cp1252", "replaced_bytes": 0, "characters": 4, "words": 1,
    }  # fmt: skip


def test_characters_pages_and_unpacked_bytes_are_bounded(pool: IntakePool) -> None:
    assert refusal(pool, b"x" * 101, Limits(max_chars=100)) == Refusal.TOO_LONG
    assert pool.read(b"x" * 100, None, Limits(max_chars=100)).text == "x" * 100
    assert refusal(pool, pdf("a", "b", "c"), Limits(max_pages=2)) == Refusal.TOO_MANY_PAGES
    assert refusal(pool, pdf(*["words words"] * 20), Limits(max_chars=100)) == Refusal.TOO_LONG
    assert refusal(pool, docx(paragraph("x" * 5_000)), Limits(max_unpacked_bytes=4_000)) == Refusal.TOO_LARGE_UNPACKED


def test_a_page_of_absurd_size_costs_no_memory(pool: IntakePool) -> None:
    limits = Limits(memory_bytes=32 * 1024 * 1024)
    assert pool.read(pdf("words", size=2_000_000_000), None, limits).text == "words"


@pytest.mark.thorough
def test_a_bomb_is_stopped_by_the_memory_limit_and_by_nothing_else(pool: IntakePool) -> None:
    bomb = case_file("D05")
    for mebibytes in (64, 128, 256):
        assert refusal(pool, bomb, Limits(memory_bytes=mebibytes * 1024 * 1024)) == Refusal.TOO_MUCH_MEMORY
    # Negative control: with enough memory, the same bytes are read.
    roomy = Limits(memory_bytes=4 * 1024**3, wall_seconds=50, cpu_seconds=50)
    assert pool.read(bomb, None, roomy).text.startswith("AAAA")


def test_cpu_time_is_bounded(pool: IntakePool) -> None:
    limits = Limits(cpu_seconds=0, memory_bytes=4 * 1024**3, wall_seconds=50)
    assert refusal(pool, case_file("D05"), limits) == Refusal.TOO_SLOW


def test_the_clock_is_bounded_whatever_the_child_waits_for(pool: IntakePool) -> None:
    limits = Limits(wall_seconds=0.05, memory_bytes=4 * 1024**3)
    assert refusal(pool, case_file("D05"), limits) == Refusal.TOO_SLOW
    assert pool.read(b"next", None, Limits()).text == "next"


def test_a_caller_who_withdraws_is_let_go_at_once(pool: IntakePool) -> None:
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(ReadCancelled):
        pool.read(b"words", None, Limits(), cancelled)
    timer = threading.Timer(0.1, cancelled.set)
    cancelled.clear()
    timer.start()
    with pytest.raises(ReadCancelled):
        pool.read(case_file("D05"), None, Limits(memory_bytes=4 * 1024**3), cancelled)
    timer.join()
    assert pool.read(b"next", None, Limits()).text == "next"


def test_many_threads_share_one_child_and_each_gets_its_own_document(pool: IntakePool) -> None:
    texts: dict[int, str] = {}

    def read(number: int) -> None:
        texts[number] = pool.read(pdf(f"document {number}"), None, Limits()).text

    threads = [threading.Thread(target=read, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {number: f"document {number}" for number in range(40)}


@linux
def test_one_child_serves_many_documents_and_keeps_nothing_of_them(request: pytest.FixtureRequest) -> None:
    pool = IntakePool(1)
    request.addfinalizer(pool.close)
    pool.read(b"words", None, Limits())
    first = child_of(pool)
    resident = int(Path(f"/proc/{first}/statm").read_text().split()[1])
    pool.read(case_file("D05"), None, Limits(memory_bytes=4 * 1024**3, wall_seconds=50, cpu_seconds=50))
    pool.read(pdf("words"), None, Limits())
    assert child_of(pool) == first
    assert int(Path(f"/proc/{first}/statm").read_text().split()[1]) < resident + 1_000


@linux
def test_nothing_of_the_document_or_the_worker_can_be_seen_from_outside(
    pool: IntakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "worker-secret")
    fresh = IntakePool()
    try:
        fresh.read(b"document-secret", "name-secret.txt", Limits())
        child = Path(f"/proc/{child_of(fresh)}")
        seen = (child / "environ").read_bytes() + (child / "cmdline").read_bytes()
        assert b"secret" not in seen and b"DATABASE_URL" not in seen and b"tasks.intake.sandbox.child" in seen
        assert os.readlink(child / "cwd") == "/"
        assert {os.readlink(descriptor).partition(":")[0] for descriptor in (child / "fd").iterdir()} <= {
            "pipe", "/dev/null",
        }  # fmt: skip
    finally:
        fresh.close()


@linux
def test_no_file_and_no_connection_can_be_opened_while_a_document_is_read() -> None:
    script = (
        "import socket; from tasks.intake.sandbox.limits import confine_for_document; from tasks.intake import Limits\n"
        "def tries(action):\n"
        "    try: action().close()\n"
        "    except OSError as error: return error.errno\n"
        "actions = [socket.socket, lambda: open('/etc/passwd')]\n"
        "before = [tries(action) for action in actions]\n"
        "confine_for_document(Limits())\n"
        "print(before, [tries(action) for action in actions])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[None, None] [24, 24]"


def test_a_closed_pool_reads_no_more() -> None:
    pool = IntakePool(2)
    assert pool.read(b"words", None, Limits()).text == "words"
    pool.close()
    with pytest.raises(ReadCancelled):
        pool.read(b"words", None, Limits())


def test_a_host_that_cannot_start_children_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    pool = IntakePool()
    with pytest.raises(JobError, match="intake_unavailable"):
        pool.read(b"words", None, Limits())
    pool.close()


def test_a_document_can_be_read_without_a_pool_of_ones_own() -> None:
    reading = read_document(b"words", None, Limits())
    assert isinstance(reading, Reading) and dataclasses.is_dataclass(reading)
