"""python -m benchmarks.beside_peers [PART …] [--peers NAME,…] [--details FILE]

Measures Waybill and its peers side by side, with the same PostgreSQL, Redis and scripted AI service, and prints a table
for each part. Each peer gets an environment of its own the first time, which needs the network. A part may be given a
number, such as `pickup:20` or `throughput:300`.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import signal
import sys
import time
from pathlib import Path

from benchmarks.beside_peers import results
from benchmarks.beside_peers.environments import KEPT
from benchmarks.beside_peers.peer import KINDS
from benchmarks.beside_peers.servers import running
from webapp.local.services import temporary_directory

PARTS = ("pickup", "throughput", "inflight", "idle", "web", "recovery", "growth")


OPEN_FILES = 8192
"""The AI service and the pages that poll have a connection for each of a thousand."""


def allow_open_files() -> None:
    """Raise the limit of open files for this process and those it starts, as far as the machine allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", default=PARTS, help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--peers", default=",".join(KINDS), help="the peers beside Waybill; empty: none")
    parser.add_argument("--details", type=Path, default=KEPT / "results.json", help="where all figures are kept")
    given = parser.parse_args()
    chosen = [part.partition(":") for part in given.parts]
    unknown = {name for name, _, _ in chosen} - set(PARTS) | {name for name in given.peers.split(",")} - {*KINDS, ""}
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stops the servers on the way out
    allow_open_files()
    KEPT.mkdir(exist_ok=True)
    peers = [name for name in given.peers.split(",") if name]
    print(f"{results.machine()}\n", flush=True)
    with temporary_directory() as directory, running(Path(directory)) as servers:
        for name, _, number in chosen:
            began = time.monotonic()
            print(f"{name}:", file=sys.stderr, flush=True)
            measure = importlib.import_module(f"benchmarks.beside_peers.{name}").measure
            parts = measure(servers, peers, int(number)) if number else measure(servers, peers)
            results.keep(parts, given.details)
            for part in parts.values():
                print(part.table(), end="\n\n", flush=True)
            print(f"{name} took {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(results.machine())
    return 0


if __name__ == "__main__":
    sys.exit(main())
