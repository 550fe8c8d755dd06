"""The process that reads documents: `python -m tasks.intake.sandbox.child`.

It loads all parsers once, then forks for each document that comes over its pipe. So every document has fresh memory
and its own hard limits, and cannot leave anything behind for the next document. The fork sends the response; if it ends
without a response, this process ends too, and its exit code says why (`protocol.Ending`). Forking is safe here, and
only here: there is a single thread, no connection and no lock.
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
    """Respond to every request until the pipe ends."""
    requests = os.fdopen(0, "rb")
    responses = os.dup(1)
    # Output that a library prints must not be taken for a response.
    os.dup2(2, 1)
    _warm_up()
    signal.signal(signal.SIGUSR1, _abort)
    responded = mmap.mmap(-1, 1)  # shared with the forks
    _send(responses, pack({"ready": True}))
    while request := receive(requests):
        limits = Limits(**request[0]["limits"])
        before = memory_in_use().get("VmRSS", 0)
        responded[0] = 0
        if (pid := os.fork()) == 0:
            _read(request[0]["filename"], request[1], limits, responses, responded)
        _forked.append(pid)
        _, status, usage = os.wait4(pid, 0)
        _forked.clear()
        # The end of a fork after its response says nothing about the next document, which may be on its way already.
        if status and not responded[0]:
            os._exit(_ending(status, resident_bytes(usage) - before, limits))


def _read(filename: str | None, data: bytes, limits: Limits, responses: int, responded: mmap.mmap) -> NoReturn:
    """Read one document in the fork, respond, and end."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    end_with_parent()
    confine_for_document(limits)
    try:
        header, body = _respond(filename, data, limits)
        message = pack(header, body)
        _send(responses, message[:-1])
        # Before the last byte: if this fork is killed right after its response, the next document must not be blamed.
        responded[0] = 1
        _send(responses, message[-1:])
        os._exit(0)
    finally:
        os._exit(Ending.TOO_MUCH_MEMORY)  # there was no memory even for the response


def _respond(filename: str | None, data: bytes, limits: Limits) -> tuple[dict[str, Any], bytes]:
    try:
        reading = extract(data, filename, limits)
        body = reading.text.encode("utf-8")
    except DocumentRefused as refused:
        return {"refused": refused.refusal.value}, b""
    except MemoryError:
        return {"refused": Refusal.TOO_MUCH_MEMORY.value}, b""
    except Exception:  # a case that the parser does not handle; its message may quote the document
        return {"refused": Refusal.DAMAGED.value}, b""
    return {"kind": reading.kind.value, "facts": reading.facts}, body


def _ending(status: int, grown_bytes: int, limits: Limits) -> int:
    """Return the exit code that says why the fork ended without a response."""
    code = os.waitstatus_to_exitcode(status)
    if code > 0:
        return code
    if -code == signal.SIGXCPU:
        return Ending.TOO_SLOW
    # A library that gets no more memory usually ends the process itself; the memory used by then shows that this was
    # the reason. After an abort less memory is enough proof: a single huge allocation can be the first to fail.
    if grown_bytes > (0.1 if -code == signal.SIGABRT else 0.4) * limits.memory_bytes:
        return Ending.TOO_MUCH_MEMORY
    return Ending.KILLED if -code == signal.SIGKILL else Ending.DAMAGED


def _abort(signal_number: int, frame: object) -> NoReturn:
    """End at once, because the pool needs no response any more.

    Ending the fork here, and not with the process group, leaves no zombie to PID 1.
    """
    for pid in _forked:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    os._exit(Ending.KILLED)


def _warm_up() -> None:
    """Load everything that is loaded on first use, since no file can be opened while a document is read."""
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
