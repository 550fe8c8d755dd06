"""Runs a real Caddy or nginx in front of a web process, with the configuration that is shipped or documented."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from tests.support.factories import ROOT, wait_until
from tests.support.services.pgbouncer_and_tls import is_open, missing, self_signed
from webapp.local.ports import free_port

# Use ports that a test may open, and leave this machine's certificate store and Caddy's admin interface alone.
FOR_A_TEST = "{{\n\thttp_port {http}\n\thttps_port {https}\n\tadmin off\n\tskip_install_trust\n}}\n"
NGINX = """
daemon off;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    {servers}
}}
"""


@dataclass(frozen=True)
class Front:
    """The ports of a proxy on localhost, and what a client needs to trust its certificate."""

    http: int
    https: int
    trust: ssl.SSLContext


def blocks(language: str) -> list[str]:
    """Return the examples in this language from docs/own-server.md, in their order."""
    page = (ROOT / "docs" / "own-server.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


@contextmanager
def caddy(directory: Path, caddyfile: str, **variables: str) -> Iterator[Front]:
    """Run Caddy with this configuration. Skips if it is not installed."""
    program = shutil.which("caddy")
    if program is None:
        missing("Caddy", "WAYBILL_REQUIRE_CADDY")
        return
    ports = {"http": free_port(), "https": free_port()}
    config = directory / "Caddyfile"
    config.write_text(FOR_A_TEST.format(**ports) + caddyfile)
    own = {"PATH": os.environ["PATH"], "HOME": str(directory), "XDG_DATA_HOME": str(directory), **variables}
    authority = directory / "caddy/pki/authorities/local/root.crt"
    with running([program, "run", "--adapter", "caddyfile", "--config", str(config)], directory, ports["https"], own):
        wait_until(authority.exists, what="the certificate authority of Caddy")
        front = Front(**ports, trust=ssl.create_default_context(cafile=str(authority)))
        wait_until(lambda: shows_a_certificate(front), what="the certificate of Caddy")
        yield front


@contextmanager
def nginx(directory: Path, servers: str) -> Iterator[Front]:
    """Run nginx with these servers, with a test's ports and certificate. Skips if it is not installed."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        missing("nginx", "WAYBILL_REQUIRE_NGINX")
        return
    certificate, key = self_signed(directory)
    ports = {"http": free_port(), "https": free_port()}
    servers = servers.replace("listen 80;", f"listen 127.0.0.1:{ports['http']};")
    servers = servers.replace("listen 443 ssl;", f"listen 127.0.0.1:{ports['https']} ssl;")
    servers = re.sub(r"ssl_certificate \S+;", f"ssl_certificate {certificate};", servers)
    servers = re.sub(r"ssl_certificate_key \S+;", f"ssl_certificate_key {key};", servers)
    config = directory / "nginx.conf"
    config.write_text(NGINX.format(directory=directory, servers=servers))
    command = [program, "-p", str(directory), "-c", str(config)]
    with running(command, directory, ports["https"], {"PATH": os.environ["PATH"]}):
        yield Front(**ports, trust=ssl.create_default_context(cafile=str(certificate)))


def shows_a_certificate(front: Front) -> bool:
    """Return True once TLS works: Caddy listens before its certificate exists."""
    try:
        with socket.create_connection(("localhost", front.https), 5) as connection:
            front.trust.wrap_socket(connection, server_hostname="localhost").close()
    except OSError:  # ssl.SSLError is a subclass
        return False
    return True


@contextmanager
def running(command: list[str], directory: Path, port: int, variables: dict[str, str]) -> Iterator[None]:
    """Run a proxy as a child of this process until the block ends; waits for its port."""
    with (directory / "log").open("wb") as log:
        child = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
    try:
        wait_until(lambda: is_open(port) or child.poll() is not None, what=" ".join(command))
        assert child.poll() is None, (directory / "log").read_text()
        yield
    finally:
        child.terminate()
        child.wait(10)


@dataclass
class Answer:
    """The response of a request."""

    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def cookie(self) -> str:
        """Return the session cookie; a sign-in also sets the cookie of the known device."""
        given = [one.partition(";")[0] for one in self.headers.get_all("Set-Cookie") or []]
        return next((one for one in given if "session=" in one), "")

    @property
    def proof(self) -> str:
        return re.findall(r'name="csrf_token" value="([^"]+)"', self.text)[0]


@dataclass
class Visitor:
    """A browser at the site, or at the web process itself, bypassing the proxy."""

    front: Front
    web_port: int
    prefix: str = ""

    def ask(
        self, method: str, path: str, fields: dict[str, str] | None = None, *, past: bool = False, **headers: str
    ) -> Answer:
        """Send a request through the proxy, by https; `past` sends it to the web process.

        `_` in a header's name is `-`.
        """
        connection = (
            http.client.HTTPConnection("127.0.0.1", self.web_port, timeout=20)
            if past
            else http.client.HTTPSConnection("localhost", self.front.https, context=self.front.trust, timeout=20)
        )
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        # The CSRF check needs it, and browsers send it.
        named["Referer"] = f"https://localhost:{self.front.https}{self.prefix}/login"
        if fields is not None:
            named["Content-Type"] = "application/x-www-form-urlencoded"
        body = urlencode(fields or {}).encode()
        connection.request(method, self.prefix + path, body, {"Connection": "close", **named})
        answer = connection.getresponse()
        found = Answer(answer.status, answer.headers, answer.read().decode())
        connection.close()
        return found

    def sign_in(self, email: str, password: str) -> Answer:
        """Send the sign-in form of a page that was just opened."""
        page = self.ask("GET", "/login")
        fields = {"csrf_token": page.proof, "email": email, "password": password}
        return self.ask("POST", "/login", fields, Cookie=page.cookie)

    def guesses(self, count: int, *, past: bool = False, **headers: str) -> list[int]:
        """Return the statuses of this many failed sign-ins to one account, each from another made-up address."""
        page = self.ask("GET", "/login", past=past, **headers)

        def guess(number: int) -> int:
            fields = {"csrf_token": page.proof, "email": "a@example.org", "password": "-"}
            more = {**headers, "Cookie": page.cookie, "X_Forwarded_For": f"10.0.0.{number}"}
            return self.ask("POST", "/login", fields, past=past, **more).status

        return [guess(number) for number in range(count)]

    def plain(self, path: str) -> Answer:
        """Send a request by plain http."""
        connection = http.client.HTTPConnection("localhost", self.front.http, timeout=20)
        connection.request("GET", self.prefix + path)
        answer = connection.getresponse()
        found = Answer(answer.status, answer.headers, answer.read().decode())
        connection.close()
        return found
