"""A new user of this machine with a home and a copy of the project, and what they see in the browser."""

from __future__ import annotations

import http.cookiejar
import os
import pwd
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.factories import ROOT, wait_until

NETWORK = ("PIP_", "REQUESTS_CA", "SSL_CERT", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Variables that a machine may need to reach the package registry."""
START_SECONDS = 600
TEXT = "The harbour committee met in March. The north pier will be closed until August. Costs rose to 57,500."


@dataclass(frozen=True)
class User:
    """A user of this machine, and a Python that they can run."""

    name: str
    uid: int
    gid: int
    python: str

    @classmethod
    def named(cls, name: str, python: str) -> User:
        found = pwd.getpwnam(name)
        return cls(name, found.pw_uid, found.pw_gid, python)


@dataclass
class Checkout:
    """A copy of the project that belongs to a user."""

    folder: Path
    user: User
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def copied(cls, folder: Path, user: User) -> Checkout:
        """Copy what a clone would have, with the changes that are not committed yet."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.decode().split("\0")):
            if (ROOT / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, user.uid, user.gid, follow_symlinks=False)
        return cls(folder, user)

    def moved_copy(self, folder: Path) -> Checkout:
        """Copy it with its installed packages, to another path."""
        subprocess.run(["cp", "-a", str(self.folder), str(folder)], check=True)
        shutil.rmtree(folder / ".demo", ignore_errors=True)
        return Checkout(folder, self.user)

    def started(self, target: str, *arguments: str, umask: int = -1, **variables: str) -> Running:
        """Run `make TARGET` as a person at a terminal would, but with its output kept."""
        network = {name: value for name, value in os.environ.items() if name.upper().startswith(NETWORK)}
        base = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder.parent)}
        chosen = {**base, **network, **self.environment, **variables}
        process = subprocess.Popen(
            ["make", f"PYTHON={self.user.python}", target, *arguments],
            cwd=self.folder,
            env={name: value for name, value in chosen.items() if value != "-"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            user=self.user.uid,
            group=self.user.gid,
            extra_groups=[],
            umask=umask,
            start_new_session=True,
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        return Running(process)

    def refused(self, target: str = "demo", *arguments: str, **variables: str) -> str:
        """Run `make TARGET`, which must fail, and return its output before make's own line."""
        running = self.started(target, *arguments, **variables)
        try:
            assert running.ended(within=START_SECONDS) != 0, running.said
        finally:
            running.interrupt()  # one that was not refused goes on, and holds the folder of the next test
        lines = [line for line in running.said.splitlines() if not line.startswith("make: ")]
        assert "Traceback" not in running.said, running.said
        return "\n".join(lines)


class Running:
    """A running command and its output so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._said = b""

    @property
    def said(self) -> str:
        assert self.process.stdout is not None
        if not self.process.stdout.closed:
            self._said += self.process.stdout.read() or b""
        return self._said.decode(errors="replace")

    def says(self, pattern: str, *, within: float = START_SECONDS) -> re.Match[str]:
        """Wait until the output matches. Fails if the command ends before."""

        def found() -> re.Match[str] | bool:
            return re.search(pattern, self.said) or self.process.poll() is not None

        wait_until(found, within=within, every=0.1, what=lambda: f"{pattern} in:\n{self.said}")
        match = re.search(pattern, self.said)
        assert match, self.said
        return match

    def ready(self) -> str:
        """Wait for the demo, and return its address."""
        return self.says(r"Ready: (http://\S+)")[1]

    def ended(self, *, within: float = 60) -> int:
        """Wait for its end and return its exit code."""

        def over() -> bool:
            # reads its output, so that it can continue
            return self.said is not None and self.process.poll() is not None

        wait_until(over, within=within, every=0.1, what=lambda: self.said)
        assert self.said is not None and self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait()

    def interrupt(self) -> str:
        """Press Ctrl-C: the whole foreground group gets it. Returns all output."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, 2)
        self.ended()
        return self.said


class Browser:
    """A browser with its cookies, signed in to a demo."""

    def __init__(self, address: str, email: str, password: str) -> None:
        self.address = address
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(jar)
        self.send("/login", "/login", email=email, password=password)

    def get(self, path: str) -> str:
        with self._opener.open(urllib.parse.urljoin(self.address, path), timeout=20) as answer:
            return answer.read().decode()  # type: ignore[no-any-return]

    def send(self, page: str, action: str, **fields: str) -> str:
        """Fill in the form of a page and return the address that it leads to."""
        hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', self.get(page)))
        body = urllib.parse.urlencode({**hidden, **fields}).encode()
        with self._opener.open(urllib.parse.urljoin(self.address, action), body, timeout=20) as answer:
            return urllib.parse.urlsplit(answer.url).path

    def summary_of(self, text: str) -> str:
        """Hand in a text, wait until its summary is saved, and return the address of its page."""
        job = self.send("/", "/jobs", text=text, workflow="summary")
        wait_until(lambda: "Saved" in self.get(job), within=60, every=0.2, what=lambda: self.get(job))
        return job
