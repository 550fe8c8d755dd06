"""A scripted stand-in for an OpenAI-compatible provider: real sockets, loopback only, standard library only.

In a test:    with FakeProvider() as fake: fake.script([{"mode": "rate", "retry_after": 2}, {"mode": "ok"}])
As a process: python -m tasks.fake_provider --port 8099      prints its base URL, ends on SIGTERM or SIGINT
  POST /_script    a list of steps, or {"marker": "…", "steps": […]}   POST /_release {"gate": "…"}    POST /_reset
  GET  /_log       every request seen so far, as JSON

Each model request takes the next step of its script; the last step repeats. A script with a marker serves the requests
whose body contains that marker, so that concurrent jobs can each have their own. A step is {"mode": …, …}:

  ok raw {"text", "delay", "model"}  echo {"characters"}: the prompt's end   gate {"name", …}: ok when released
  hang: never answers, until the client goes     drop {"seconds"}: reads, then closes     rst {"seconds"}: reads, resets
  drip {"every", "count"}: white space a byte at a time, then ok (without a count: for ever)     drip_headers: likewise
  cut_headers  cut_body  garbage: a response that ends early, or is not HTTP     flood: white space without end
  status {"code", "type", "err", "message", "headers", "body", "ctype"}   redirect {"to", "code"}
  quota  rate {"retry_after", "retry_after_ms"}  overloaded  context  auth
  html200 text200 empty200 badjson badutf8 badgzip null200 list200 string200 obj200 error200 {"err", "type"}
  length length_empty refusal filter nochoices nullmessage blank failed {"err"} status200 {"status"}
The extra modes of requests in background mode are in `tasks.fake_provider.background`.
"""

from __future__ import annotations

import argparse
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from tasks.fake_provider.background import Generation
from tasks.fake_provider.http_server import Gate, Handler, Seen, Server, Step, shut


class FakeProvider:
    """Runs the scripted provider inside a `with`. All methods may be called from any thread."""

    def __init__(self, port: int = 0) -> None:
        self.changed = threading.Condition(threading.RLock())
        self._gates: dict[str, Gate] = {}
        self.stopped = Gate()
        self.connections: set[socket.socket] = set()
        self._server = Server(("127.0.0.1", port), Handler)
        self._server.fake = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="fake-provider")
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self.reset()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.open()
        self._server.shutdown()
        self._thread.join()
        with self.changed:
            for connection in self.connections:
                shut(connection)
        self.wait_for(lambda: not self.connections, timeout=10)
        self._server.server_close()
        for gate in (self.stopped, *self._gates.values()):
            gate.close()

    def reset(self) -> None:
        """Delete scripts and requests; gates that are open stay open."""
        with self.changed:
            self._scripts: dict[str, list[Step]] = {"": [{"mode": "ok"}]}
            self.requests: list[Seen] = []
            self.generations: list[Generation] = []
            self.most_in_flight = 0

    def script(self, steps: Sequence[Step], *, marker: str = "") -> None:
        """Set the steps for the next requests, or for those whose body contains the marker."""
        with self.changed:
            self._scripts[marker] = list(steps)

    def release(self, gate: str = "default") -> None:
        """Open the gate for the requests that wait at it, and for later requests."""
        self.gate(gate).open()

    def gate(self, name: str) -> Gate:
        with self.changed:
            if name not in self._gates:
                self._gates[name] = Gate()
            return self._gates[name]

    @property
    def in_flight(self) -> int:
        """Return how many requests were read and are not finished."""
        with self.changed:
            return sum(not seen.done for seen in self.requests)

    def wait_for(self, fact: Callable[[], bool], timeout: float = 10) -> None:
        """Wait until the fact is true, which is evaluated after each change. Raises TimeoutError."""
        with self.changed:
            if not self.changed.wait_for(fact, timeout):
                raise TimeoutError(f"not within {timeout} s; seen: {self.requests[-5:]}")

    def wait_for_requests(self, count: int, timeout: float = 10) -> list[Seen]:
        self.wait_for(lambda: len(self.requests) >= count, timeout)
        return self.requests

    def wait_for_client_gone(self, count: int = 1, timeout: float = 10) -> None:
        self.wait_for(lambda: sum(seen.client_gone for seen in self.requests) >= count, timeout)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[Seen, Step]:
        with self.changed:
            marked = (marker for marker in self._scripts if marker and marker.encode() in body)
            steps = self._scripts[next(marked, "")]
            step = steps.pop(0) if len(steps) > 1 else steps[0]
            seen = Seen(len(self.requests) + 1, time.time(), path, headers, body, step["mode"])
            self.requests.append(seen)
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            self.changed.notify_all()
            return seen, step

    def note(self, seen: Seen, *, gone: bool = False, done: bool = False) -> None:
        with self.changed:
            seen.client_gone = seen.client_gone or gone
            seen.done = seen.done or done
            self.changed.notify_all()


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted stand-in for an OpenAI-compatible provider.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with FakeProvider(parser.parse_args().port) as fake:
        print(fake.base_url, flush=True)
        ended.wait()
