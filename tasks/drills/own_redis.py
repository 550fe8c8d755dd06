"""A Redis of a drill's own, on loopback: that of the site belongs to its owner, and is not to be filled."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic, sleep

from pydantic import SecretStr

from tasks.drills.facts import DrillFailed, NotPlayed
from tasks.queue.redis_client import QueueUnreachable, connect
from tasks.settings import Settings

PROGRAMS = ("redis-server", "valkey-server")
START_SECONDS = 10.0
CONFIGURATION = """
port {port}
bind 127.0.0.1
requirepass {password}
dir "{directory}"
logfile redis.log
save ""
appendonly no
maxmemory-policy noeviction
"""
ENDS_WITH_THE_DRILL = '"$0" "$1" & cat; kill -9 $!'
"""Runs a program until the shell's standard input, a pipe that the drill holds, ends: also when the drill is killed."""


@contextmanager
def own_redis(settings: Settings) -> Iterator[Settings]:
    """Run a Redis during the block, and yield the settings of a site that uses it. Raises NotPlayed, DrillFailed."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise NotPlayed(f"there is no {' or '.join(PROGRAMS)} on PATH, and your Redis is not to be filled")
    with tempfile.TemporaryDirectory(prefix="waybill-drill-") as directory:
        configuration, password, port = Path(directory, "redis.conf"), secrets.token_hex(32), _free_port()
        configuration.write_text(CONFIGURATION.format(port=port, password=password, directory=directory))
        server = subprocess.Popen(
            ["sh", "-c", ENDS_WITH_THE_DRILL, program, str(configuration)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the drill
        )
        try:
            address = SecretStr(f"redis://:{password}@127.0.0.1:{port}/0")
            own = settings.model_copy(update={"redis_url": address})
            _wait_until_it_answers(own)
            yield own
        finally:
            server.communicate()  # closes the pipe, and waits


def limit_memory(settings: Settings, most_bytes: int) -> None:
    """Let the Redis of these settings use no more memory than this; 0: as much as it wants."""
    with closing(connect(settings, connections=1)) as connection:
        connection.config_set("maxmemory", most_bytes)


def _wait_until_it_answers(settings: Settings) -> None:
    until = monotonic() + START_SECONDS
    while True:
        try:
            limit_memory(settings, 0)
            return
        except QueueUnreachable:
            if monotonic() > until:
                raise DrillFailed("the drill's own Redis did not start") from None
            sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
