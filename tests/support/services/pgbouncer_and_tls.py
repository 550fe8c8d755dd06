"""A pooler in front of PostgreSQL, and TLS, as hosts put them between a site and its services."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from tests.support.factories import wait_until
from webapp.local.ports import free_port
from webapp.local.redis import redis_program
from webapp.local.services import temporary_directory

POOLED_CONNECTIONS = 3
PGBOUNCER = """
[databases]
* = {server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
client_tls_sslmode = require
client_tls_cert_file = {certificate}
client_tls_key_file = {key}
"""


def missing(what: str, required_by: str) -> None:
    """Skip this test with a reason; or fail it if the run requires everything to be there."""
    if os.environ.get(required_by):
        pytest.fail(f"There is no {what}, and this run requires one.")
    pytest.skip(f"There is no {what} on this machine; what needs one was not tried.")


def self_signed(directory: Path, name: str = "ours") -> tuple[Path, Path]:
    """Create a self-signed certificate for loopback, and its key."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    if shutil.which("openssl") is None:
        missing("openssl", "WAYBILL_REQUIRE_TLS")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2"),
            *("-out", str(certificate), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    key.chmod(0o644)  # the server may run as another user
    return certificate, key


@contextmanager
def pgbouncer(database_url: str) -> Iterator[str]:
    """Yield the address of the same database behind a PgBouncer in transaction mode that accepts only TLS."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        missing("pgbouncer", "WAYBILL_REQUIRE_PGBOUNCER")
        return
    url, port = make_url(database_url), free_port()
    host = str(url.query.get("host", url.host or "127.0.0.1"))
    with temporary_directory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        certificate, key = self_signed(directory)
        server = f"host={host} port={url.port or 5432} user={url.username}"
        written = PGBOUNCER.format(
            server=server + (f" password={url.password}" if url.password else ""),
            port=port,
            size=POOLED_CONNECTIONS,
            certificate=certificate,
            key=key,
        )
        (directory / "pgbouncer.ini").write_text(written)
        # It refuses to run as root; and only the owner of the server's socket can connect to it.
        user = (os.stat(host).st_uid if host.startswith("/") else "nobody") if os.geteuid() == 0 else None
        with (directory / "log").open("wb") as log:
            child = subprocess.Popen([program, str(directory / "pgbouncer.ini")], stdout=log, stderr=log, user=user)
        try:
            wait_until(lambda: is_open(port) or child.poll() is not None, what="pgbouncer")
            assert child.poll() is None, (directory / "log").read_text()
            yield f"postgres://{url.username}@127.0.0.1:{port}/{url.database}?sslmode=require"
        finally:
            child.kill()
            child.wait()


@contextmanager
def redis_with_tls(directory: Path, password: str) -> Iterator[tuple[int, Path]]:
    """Yield the port and the self-signed certificate of a Redis that accepts only TLS."""
    certificate, key = self_signed(directory)
    port = free_port()
    with (directory / "log").open("wb") as log:
        child = subprocess.Popen(
            [
                *(redis_program(), "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1"),
                *("--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-auth-clients", "no"),
                *("--tls-ca-cert-file", str(certificate), "--requirepass", password, "--dir", str(directory)),
                *("--save", "", "--maxmemory-policy", "noeviction"),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: is_open(port) or child.poll() is not None, what="Redis with TLS")
        if child.poll() is not None:
            missing("Redis that speaks TLS", "WAYBILL_REQUIRE_TLS")
        yield port, certificate
    finally:
        child.kill()
        child.wait()


def is_open(port: int) -> bool:
    """Return True if somebody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
