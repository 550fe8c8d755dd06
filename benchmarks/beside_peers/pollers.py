"""Opens pages that poll, each over its own connection and at an even pace."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.beside_peers.browser import next_poll
from benchmarks.beside_peers.http_client import HOST, Request, Sent

LENGTH = re.compile(rb"(?i)content-length: *(\d+)")


class Page:
    """One page that polls. A response with a new fragment also has the address of the next poll."""

    def __init__(self, port: int, path: str, headers: Mapping[str, str], sent: Sent) -> None:
        self._port, self._path, self._headers, self._sent = port, path, headers, sent
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def poll(self, first_after: float, every: float, seconds: float) -> None:
        """Poll for a while. Like htmx, it starts no poll while the previous one waits for its response."""
        await asyncio.sleep(first_after)
        due, end = time.perf_counter(), time.perf_counter() + seconds
        while time.perf_counter() < end:
            began = time.perf_counter()
            if await self._exchange():
                self._sent.took.append(time.perf_counter() - began)
            else:
                self._sent.cut_off += 1
            due = max(due + every, time.perf_counter())
            await asyncio.sleep(due - time.perf_counter())
        self._close()

    async def _exchange(self) -> bool:
        """Send one poll. Like a browser, it tries once more if the server has closed a connection that was kept."""
        for is_kept in (True, False) if self._line else (False,):
            try:
                self._line = self._line or await asyncio.open_connection(HOST, self._port)
                reader, writer = self._line
                writer.write(Request("GET", self._path, headers=self._headers).encoded(f"{HOST}:{self._port}"))
                if await self._receive(reader):
                    self._close()
                return True
            except (OSError, asyncio.IncompleteReadError):
                self._close()
                if not is_kept:
                    return False
        return False

    def _close(self) -> None:
        if self._line is not None:
            self._line[1].close()
        self._line = None

    async def _receive(self, reader: asyncio.StreamReader) -> bool:
        """Read a response, and return True if the server closes the connection after it."""
        head = await reader.readuntil(b"\r\n\r\n")
        status, found = int(head[9:12]), LENGTH.search(head)
        self._sent.statuses[status] += 1
        if found and status != 204:
            self._path = next_poll(await reader.readexactly(int(found[1]))) or self._path
        return b"connection: close" in head.lower()


def poll_all(
    port: int, paths: Sequence[str], headers: Mapping[str, str], *, pages: int, every: float, seconds: float
) -> Sent:
    """Let so many pages poll, spread evenly over their pace."""
    sent = Sent(statuses=Counter())

    async def run() -> None:
        opened = [Page(port, paths[number % len(paths)], headers, sent) for number in range(pages)]
        await asyncio.gather(*(page.poll(every * number / pages, every, seconds) for number, page in enumerate(opened)))

    began = time.perf_counter()
    asyncio.run(run())
    sent.seconds = time.perf_counter() - began
    return sent
