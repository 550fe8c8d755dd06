"""python -m benchmarks.slow_sockets ATTACK PORT --sockets N --seconds N [--path PATH] [--cookie COOKIE]

Keeps this many slow connections open to a site on this machine, each opened again when the site has ended it, and
prints as JSON how they ended. Only loopback is ever attacked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

HOST = "127.0.0.1"
SECONDS_BETWEEN_BYTES = 1.0
SECONDS_BEFORE_NEXT = 0.2
READ_BYTES = 1_000
RECEIVE_BUFFER = 4_096
HEAD = "{method} {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n"
FORM = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n"


class Attack(StrEnum):
    """The behaviour of a slow connection."""

    HALF_HEAD = "half a head, then nothing"
    HALF_BODY = "half a body, then nothing"
    DRIPPING_HEAD = "a head byte a second"
    DRIPPING_BODY = "a body byte a second"
    SLOW_READING = "reading 2 MB at 1 kB/s"
    SILENT = "nothing at all"


@dataclass
class Attackers:
    """Connections of one kind, and a count of how the site ended them."""

    attack: Attack
    port: int
    path: str = "/login"
    cookie: str = ""
    endings: Counter[str] = field(default_factory=Counter)

    async def run(self, sockets: int, seconds: float) -> None:
        """Keep them open for this many seconds."""
        until = time.monotonic() + seconds
        await asyncio.gather(*(self._keep_one_open(until) for _ in range(sockets)))

    async def _keep_one_open(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while (left := until - time.monotonic()) > 0:
            with socket.socket() as sock:
                sock.setblocking(False)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
                try:
                    async with asyncio.timeout(left):
                        await loop.sock_connect(sock, (HOST, self.port))
                        self.endings[await self._one(loop, sock)] += 1
                except TimeoutError:
                    self.endings["open at the end"] += 1
                except OSError:
                    self.endings["reset"] += 1
            await asyncio.sleep(min(SECONDS_BEFORE_NEXT, max(0.0, until - time.monotonic())))

    async def _one(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> str:
        """Attack over one connection until the site ends it. Returns how it ended."""
        head = HEAD.format(method="POST", path=self.path, cookie=self.cookie)
        if self.attack is Attack.SLOW_READING:
            get = HEAD.format(method="GET", path=self.path, cookie=self.cookie)
            await loop.sock_sendall(sock, f"{get}\r\n".encode())
            return await self._read_slowly(loop, sock)
        if self.attack is Attack.HALF_HEAD:
            await loop.sock_sendall(sock, head.encode())
        elif self.attack is Attack.HALF_BODY:
            await loop.sock_sendall(sock, (head + FORM.format(length=2_000)).encode() + b"x" * 1_000)
        elif self.attack is Attack.DRIPPING_HEAD:
            return await self._drip(loop, sock, b"", (head + "X-More: " + "x" * 10_000).encode())
        elif self.attack is Attack.DRIPPING_BODY:
            return await self._drip(loop, sock, (head + FORM.format(length=10_000)).encode(), b"x" * 10_000)
        return ending(await loop.sock_recv(sock, 65536))

    async def _drip(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, first: bytes, rest: bytes) -> str:
        answer = asyncio.ensure_future(loop.sock_recv(sock, 65536))
        try:
            await loop.sock_sendall(sock, first)
            for byte in rest:
                await loop.sock_sendall(sock, bytes([byte]))
                done, _ = await asyncio.wait([answer], timeout=SECONDS_BETWEEN_BYTES)
                if done:
                    break
            return ending(await answer)
        finally:
            answer.cancel()

    async def _read_slowly(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> str:
        first = b""
        while piece := await loop.sock_recv(sock, READ_BYTES):
            first = first or piece
            await asyncio.sleep(SECONDS_BETWEEN_BYTES)
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                return "reset"
        return ending(first) + ", cut off"


def ending(answer: bytes) -> str:
    """Return the status with which the site ended the connection, if it sent any."""
    return answer[9:12].decode(errors="replace") if answer.startswith(b"HTTP/") else "closed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attack", choices=[one.name for one in Attack])
    parser.add_argument("port", type=int)
    parser.add_argument("--sockets", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--path", default="/login")
    parser.add_argument("--cookie", default="")
    given = parser.parse_args()
    attackers = Attackers(Attack[given.attack], given.port, given.path, given.cookie)
    asyncio.run(attackers.run(given.sockets, given.seconds))
    print(json.dumps(attackers.endings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
