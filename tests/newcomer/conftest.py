"""Fixtures for users of this machine who have never run the project, and their copies of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.newcomer.person import Checkout, User

NAME = "waybill-newcomer"
EARLIER_SERVICE_USER = "pgserver"
"""The user that a package creates. Code that depends on it works only on machines where it exists already."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.timeout(1500))


def usable_python(command: list[str]) -> str | None:
    """Return a Python that this command can start, new enough and able to make virtual environments."""
    for python in ("/usr/local/bin/python3", "/usr/bin/python3", sys.executable):
        check = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"
        if (
            os.path.exists(python)
            and subprocess.run([*command, python, "-c", check], capture_output=True).returncode == 0
        ):
            return python
    return None


@pytest.fixture(scope="session")
def grounds() -> Iterator[Path]:
    """Create a folder for homes, which everybody may enter."""
    folder = Path(tempfile.mkdtemp(prefix="waybill-newcomer-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def root() -> User:
    """Return root, on a machine without the service user."""
    if os.geteuid() != 0:
        pytest.skip("Only root can try what root would see.")
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(["userdel", EARLIER_SERVICE_USER], capture_output=True)
    python = usable_python([])
    assert python, "no Python with venv"
    return User.named("root", python)


@pytest.fixture(scope="session")
def ordinary(grounds: Path) -> Iterator[User]:
    """Create an ordinary user, removed again afterwards. If the tests run as one, return that one."""
    if os.geteuid() != 0:
        python = usable_python([])
        assert python, "no Python with venv"
        yield User(os.environ.get("USER", ""), os.geteuid(), os.getegid(), python)
        return
    remove_user()  # and what an earlier run left, which belongs to nobody or to somebody else by now
    subprocess.run(["useradd", "--no-create-home", "--home-dir", str(grounds / "home"), NAME], check=True)
    try:
        python = usable_python(["setpriv", f"--reuid={NAME}", "--clear-groups"])
        if python is None:
            if os.environ.get("WAYBILL_REQUIRE_NEWCOMER"):
                pytest.fail("An ordinary user has no Python with venv, and this run requires one.")
            pytest.skip("An ordinary user has no Python with venv on this machine: apt-get install python3-venv")
        yield User.named(NAME, python)
    finally:
        remove_user()


def remove_user() -> None:
    """Remove the ordinary user with the folder that pytest keeps for one of this name."""
    subprocess.run(["userdel", NAME], capture_output=True)
    shutil.rmtree(Path(tempfile.gettempdir(), f"pytest-of-{NAME}"), ignore_errors=True)


def home_of(user: User, grounds: Path) -> Path:
    """Create the home of a user, which only they may enter."""
    home = grounds / user.name
    home.mkdir(mode=0o700)
    os.chown(home, user.uid, user.gid)
    return home


@pytest.fixture(scope="session")
def roots(root: User, grounds: Path) -> Checkout:
    """Create root's copy, under a home that nobody else may enter."""
    return Checkout.copied(home_of(root, grounds) / "waybill", root)


@pytest.fixture(scope="session")
def ordinarys(ordinary: User, grounds: Path) -> Checkout:
    """Create an ordinary user's copy, at a path that is difficult for programs."""
    return Checkout.copied(home_of(ordinary, grounds) / "my projects" / "wäybill", ordinary)
