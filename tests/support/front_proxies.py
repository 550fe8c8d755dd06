"""A real Caddy in front of a web process, with the Caddyfile that is shipped."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.house import ROOT, wait_until
from tests.support.neighbours import is_open, missing
from webapp.embedded import free_port

# Ports that a test may open, and nothing that reaches for this machine's administration or its list of authorities.
FOR_A_TEST = "{{\n\thttp_port {http}\n\thttps_port {https}\n\tadmin off\n\tskip_install_trust\n}}\n"


@dataclass(frozen=True)
class Caddy:
    """The ports it listens at, and what a client needs to trust its certificate."""

    http: int
    https: int
    trust: ssl.SSLContext


@contextmanager
def caddy(directory: Path, web_port: int) -> Iterator[Caddy]:
    """Run Caddy at https://localhost in front of that port of loopback. Skips where there is none."""
    program = shutil.which("caddy")
    if program is None:
        missing("Caddy", "WAYBILL_REQUIRE_CADDY")
        return
    http, https = free_port(), free_port()
    (directory / "Caddyfile").write_text(FOR_A_TEST.format(http=http, https=https) + (ROOT / "Caddyfile").read_text())
    variables = {"PATH": os.environ["PATH"], "HOME": str(directory), "XDG_DATA_HOME": str(directory)}
    with (directory / "log").open("wb") as log:
        child = subprocess.Popen(
            [program, "run", "--adapter", "caddyfile", "--config", str(directory / "Caddyfile")],
            env={**variables, "WEB_ADDRESS": f"127.0.0.1:{web_port}"},
            stdout=log,
            stderr=log,
        )
    authority = directory / "caddy/pki/authorities/local/root.crt"
    try:
        wait_until(lambda: (is_open(https) and authority.exists()) or child.poll() is not None, what="Caddy")
        assert child.poll() is None, (directory / "log").read_text()
        yield Caddy(http, https, ssl.create_default_context(cafile=str(authority)))
    finally:
        child.kill()
        child.wait()
