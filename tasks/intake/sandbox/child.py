"""The process that reads documents: `python -m tasks.intake.sandbox.child`.

It loads all parsers once, then forks for each document that comes over its pipe. So every document meets fresh memory
and hard limits of its own, and cannot leave anything behind for the next one. The fork answers; when it ends without
an answer, this process ends too, and its exit code is the answer (`wire.Ending`). Forking is safe here, and only here:
there is one thread, no connection and no lock.
"""

from __future__ import annotations

import codecs
import contextlib
import mmap
import os
import signal
from encodings.aliases import aliases
from typing import Any, NoReturn

from tasks.intake.errors import DocumentRefused, Refusal
from tasks.intake.extract import extract
from tasks.intake.sandbox.limits import (
    confine_for_document,
    confine_for_life,
    end_with_parent,
    memory_in_use,
    resident_bytes,
)
from tasks.intake.sandbox.protocol import Ending, pack, receive
from tasks.intake.types import Limits

_forked: list[int] = []


def serve() -> None:
    """Have every request answered until the pipe ends."""
    requests = os.fdopen(0, "rb")
    answers = os.dup(1)
    # Whatever a library prints must not be taken for an answer.
    os.dup2(2, 1)
    _warm_up()
    signal.signal(signal.SIGUSR1, _give_up)
    answered = mmap.mmap(-1, 1)  # shared with the forks
    _send(answers, pack({"ready": True}))
    while request := receive(requests):
        limits = Limits(**request[0]["limits"])
        before = memory_in_use().get("VmRSS", 0)
        answered[0] = 0
        if (pid := os.fork()) == 0:
            _read(request[0]["filename"], request[1], limits, answers, answered)
        _forked.append(pid)
        _, status, usage = os.wait4(pid, 0)
        _forked.clear()
        # How a fork ends after its answer says nothing about the next document, which may be on its way already.
        if status and not answered[0]:
            os._exit(_ending(status, resident_bytes(usage) - before, limits))


def _read(filename: str | None, data: bytes, limits: Limits, answers: int, answered: mmap.mmap) -> NoReturn:
    """In the fork: read one document, answer, end."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    end_with_parent()
    confine_for_document(limits)
    try:
        answer, body = _answer(filename, data, limits)
        message = pack(answer, body)
        _send(answers, message[:-1])
        answered[0] = 1  # before the last byte: a fork killed right after its answer must not be held against the next
        _send(answers, message[-1:])
        os._exit(0)
    finally:
        os._exit(Ending.TOO_MUCH_MEMORY)  # not even the answer found room


def _answer(filename: str | None, data: bytes, limits: Limits) -> tuple[dict[str, Any], bytes]:
    try:
        reading = extract(data, filename, limits)
        body = reading.text.encode("utf-8")
    except DocumentRefused as refused:
        return {"refused": refused.refusal.value}, b""
    except MemoryError:
        return {"refused": Refusal.TOO_MUCH_MEMORY.value}, b""
    except Exception:  # a parser met something its authors did not think of; its words may hold the document's
        return {"refused": Refusal.DAMAGED.value}, b""
    return {"kind": reading.kind.value, "facts": reading.facts}, body


def _ending(status: int, grown_bytes: int, limits: Limits) -> int:
    """What the end of a fork without an answer says about its document."""
    code = os.waitstatus_to_exitcode(status)
    if code > 0:
        return code
    if -code == signal.SIGXCPU:
        return Ending.TOO_SLOW
    # A library that is refused memory mostly ends the process by itself; how much it held by then tells. Less is
    # enough where it aborted in so many words: one huge request can be the first that is refused.
    if grown_bytes > (0.1 if -code == signal.SIGABRT else 0.4) * limits.memory_bytes:
        return Ending.TOO_MUCH_MEMORY
    return Ending.KILLED if -code == signal.SIGKILL else Ending.DAMAGED


def _give_up(signal_number: int, frame: object) -> NoReturn:
    """The pool wants no answer any more. Ending the fork here, not with the group, leaves no zombie to PID 1."""
    for pid in _forked:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    os._exit(Ending.KILLED)


def _warm_up() -> None:
    """Load what is loaded on first use, since no file can be opened while a document is read."""
    for encoding in set(aliases.values()):
        with contextlib.suppress(LookupError):
            codecs.lookup(encoding)
    limits = Limits()
    for data in (_WARM_PDF, _WARM_PAGE, _WARM_TEXT, rb"{\rtf1\ansi x}", b"\xff\xfea\0"):
        extract(data, "x.txt", limits)


def _send(descriptor: int, message: bytes) -> None:
    view = memoryview(message)
    while view:
        view = view[os.write(descriptor, view) :]


_WARM_PDF = (
    b"%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n<</Type/Pages/Count 1/Kids[3 0 R]>>\nendobj\n"
    b"3 0 obj\n<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>\nendobj\n"
    b"4 0 obj\n<</Length 26>>\nstream\nBT /F 1 Tf 1 1 Td (x) Tj ET\nendstream\nendobj\n"
    b"5 0 obj\n<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>\nendobj\ntrailer\n<</Root 1 0 R>>\n%%EOF\n"
)

_WARM_PAGE = b"<html><style>p{display:none}</style><p>x</p>x"
_WARM_TEXT = "会議室予約のお知らせ。来週の月曜日は休みです。".encode("cp932")

if __name__ == "__main__":
    confine_for_life()
    with contextlib.suppress(BrokenPipeError):
        serve()
