"""Tests the README's two commands as the first ones on a machine, and everything that can keep them from starting.

The order of the tests matters: the first of each user installs the packages.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.newcomer.person import TEXT, Browser, Checkout, Running, User
from webapp.local.ports import free_port

LONG = "/".join(["a folder with a rather long name"] * 6)
HARD_TIMES = {"HOME": "-", "LANG": "C", "LC_ALL": "C"}


@contextmanager
def demo(checkout: Checkout, *, umask: int = -1, **variables: str) -> Iterator[tuple[Running, str]]:
    """Run the demo until the block ends, then press Ctrl-C. Yields it and its address."""
    running = checkout.started("demo", umask=umask, **{"PORT": str(free_port()), **variables})
    try:
        yield running, running.ready()
    finally:
        output = running.interrupt()
    assert "Stopped. Your documents are kept" in output
    assert not [process for process in psutil.process_iter(["cwd", "status"]) if is_at_work_in(process, checkout)]


def is_at_work_in(process: psutil.Process, checkout: Checkout) -> bool:
    return process.info["cwd"] == str(checkout.folder) and process.info["status"] != psutil.STATUS_ZOMBIE


def signed_in(running: Running, address: str) -> Browser:
    found = running.says(r"sign in as (\S+) with password (\S+)")
    return Browser(address, found[1], found[2])


def modes_above(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return mode and owner of every folder above this one."""
    return {path: (path.stat().st_mode, path.stat().st_uid) for path in folder.resolve().parents}


def children_of(running: Running, name: str) -> list[psutil.Process]:
    tree = psutil.Process(running.process.pid).children(recursive=True)
    return [process for process in tree if name in process.name()]


def answers_without_a_password(running: Running) -> list[str]:
    """Return what another user of this machine can read from the services without a password."""
    got = []
    for server in children_of(running, "redis-server"):
        for one in server.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN:
                with socket.create_connection(("127.0.0.1", one.laddr.port), 5) as connection:
                    connection.sendall(b"PING\r\n")
                    got.append(connection.recv(64).decode())
    assert got, "there is no Redis"
    return got


def socket_folders(running: Running) -> list[Path]:
    """Return the folders of the sockets that PostgreSQL listens on."""
    found = {
        Path(one.laddr).parent
        for server in children_of(running, "postgres")
        for one in server.net_connections("unix")
        if one.laddr.endswith(".s.PGSQL.5432")
    }
    assert found, "PostgreSQL has no socket"
    return list(found)


def test_root_makes_a_summary_with_the_first_command_and_changes_nothing_else(roots: Checkout) -> None:
    before, users = modes_above(roots.folder), Path("/etc/passwd").read_text()
    with demo(roots) as (running, address):
        browser = signed_in(running, address)
        assert "north pier" in browser.get(browser.summary_of(TEXT))
        assert all("NOAUTH" in output for output in answers_without_a_password(running))
        for folder in socket_folders(running):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {server.username() for server in children_of(running, "postgres")} == {"nobody"}
    assert modes_above(roots.folder) == before
    assert Path("/etc/passwd").read_text() == users


def test_an_ordinary_user_does_so_while_root_does_at_a_path_with_spaces(roots: Checkout, ordinarys: Checkout) -> None:
    with demo(roots), demo(ordinarys, umask=0o077, **HARD_TIMES) as (running, address):
        browser = signed_in(running, address)
        assert "north pier" in browser.get(browser.summary_of(TEXT))
        assert all("NOAUTH" in output for output in answers_without_a_password(running))
        for folder in socket_folders(running):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_tests_can_be_the_first_command_of_a_user_and_start_their_services_once(ordinarys: Checkout) -> None:
    running = ordinarys.started("test", "ARGS=tests/database tests/project/test_startup.py")
    assert running.ended(within=900) == 0, running.said
    assert re.search(r"\d+ passed", running.said) and "error" not in running.said.splitlines()[-1]


def test_a_service_that_cannot_start_ends_the_tests_with_one_sentence(ordinarys: Checkout, grounds: Path) -> None:
    broken = grounds / "broken" / "redis-server"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    for path in (broken.parent, broken):
        path.chmod(0o755)
    running = ordinarys.started("test", "ARGS=tests/database", PATH=f"{broken.parent}:{os.environ['PATH']}")
    assert running.ended(within=300) != 0
    assert "Redis did not start." in running.said
    assert "ERROR tests/" not in running.said and "Traceback" not in running.said


def test_a_long_path_is_as_good_as_a_short_one(ordinarys: Checkout) -> None:
    folder = ordinarys.folder.parent / LONG
    folder.parent.mkdir(parents=True, exist_ok=True)
    for path in (folder.parent, *folder.parent.parents):
        if ordinarys.folder.parent in path.parents:
            os.chown(path, ordinarys.user.uid, ordinarys.user.gid)
    with demo(ordinarys.moved_copy(folder)) as (running, _):
        (sockets,) = socket_folders(running)
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
        assert all("NOAUTH" in output for output in answers_without_a_password(running))
    assert not sockets.exists()


def test_a_second_start_says_which_one_runs(ordinarys: Checkout) -> None:
    with demo(ordinarys) as (running, address):
        for port in (urlsplit(address).port, free_port()):
            output = ordinarys.refused(PORT=str(port))
            found = re.fullmatch(
                r"It runs already: (\S+) \(process (\d+)\)\. Stop it with Ctrl-C in its terminal\.", output
            )
            assert found and found[1] == address, output
            assert int(found[2]) in {one.pid for one in psutil.Process(running.process.pid).children(recursive=True)}
        assert "Waybill" in Browser(address, *running.says(r"as (\S+) with password (\S+)").groups()).get("/")


def test_a_demo_that_was_killed_starts_again_with_all_that_it_had(ordinarys: Checkout) -> None:
    port = str(free_port())
    running = ordinarys.started("demo", PORT=port)
    job = signed_in(running, running.ready()).summary_of("A document of the first start. It stays.")
    left = psutil.Process(running.process.pid).children(recursive=True)
    running.process.kill()
    for process in left:
        if "webapp.local.demo" in process.cmdline():
            process.kill()
    running.ended()
    assert [process for process in left if process.is_running() and "gunicorn" in process.cmdline()]
    with demo(ordinarys, PORT=port) as (again, address):
        assert "Saved" in signed_in(again, address).get(job)
        assert not [process for process in left if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("written", ["abc", "65536", "-1", "0", "8000.5", "９０００", "1" * 5000])
def test_a_port_that_is_none_is_said(ordinarys: Checkout, written: str) -> None:
    assert re.fullmatch(r"PORT is '.{1,40}', but a port is a number from 1 to 65535\.", ordinarys.refused(PORT=written))


def test_a_port_that_somebody_has_is_said(ordinarys: Checkout) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        output = ordinarys.refused(PORT=str(port))
    found = re.fullmatch(rf"Port {port} is in use\. Choose another: PORT=(\d+) make demo", output)
    assert found and int(found[1]) != port, output


def test_a_port_that_needs_rights_is_said(ordinarys: Checkout) -> None:
    first_free = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    if ordinarys.user.uid == 0 or not first_free.exists() or int(first_free.read_text()) <= 80:
        pytest.skip("Everybody may listen on port 80 here.")
    output = ordinarys.refused(PORT="80")
    assert output == "Port 80 needs more rights than you have. Choose another: PORT=8000 make demo"


def test_a_folder_that_cannot_be_written_to_is_said(root: User, ordinary: User, grounds: Path) -> None:
    somebody_elses = Checkout.copied(grounds / "read-only", root)
    output = Checkout(somebody_elses.folder, ordinary).refused()
    assert (
        output == "Nothing can be written to this folder. Copy the project to a folder of your own, and run it there."
    )


def test_data_that_cannot_be_written_are_said(ordinarys: Checkout) -> None:
    (ordinarys.folder / ".demo").rename(ordinarys.folder / "aside")
    (ordinarys.folder / ".demo").write_text("a file where the folder should be")
    try:
        output = ordinarys.refused()
    finally:
        (ordinarys.folder / ".demo").unlink()
        (ordinarys.folder / "aside").rename(ordinarys.folder / ".demo")
    assert re.fullmatch(r"Nothing can be written to \S.*\.demo \(File exists\)\. Run the demo in a copy .*", output)


def test_a_python_without_venv_is_said(ordinarys: Checkout, grounds: Path) -> None:
    bare = Checkout.copied(ordinarys.folder.parent / "bare", ordinarys.user)
    python = bare.folder / "python-without-venv"
    python.write_text(f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1;; esac\nexec {bare.user.python} "$@"\n')
    python.chmod(0o755)
    bare.user = User(bare.user.name, bare.user.uid, bare.user.gid, str(python).replace(" ", "\\ "))
    assert bare.refused() == "Python's venv module is missing. On Debian and Ubuntu: apt-get install python3-venv"


def test_services_of_ones_own_that_do_not_answer_are_said(ordinarys: Checkout) -> None:
    nowhere = f"postgresql://u:hunter2@127.0.0.1:{free_port()}/site"
    output = ordinarys.refused(DATABASE_URL=nowhere, PORT=str(free_port()))
    assert output.splitlines()[-1].startswith(
        "The database migration failed: DATABASE_URL: the database does not answer"
    )
    assert "hunter2" not in output


def test_a_setting_that_is_wrong_is_said(ordinarys: Checkout) -> None:
    output = ordinarys.refused(AI_PROVIDER="nobody", PORT=str(free_port()))
    assert "AI_PROVIDER" in output.splitlines()[-1]


def test_everything_of_a_demo_can_be_removed(roots: Checkout) -> None:
    data = (roots.folder / ".demo" / "postgresql" / "data").resolve()
    assert data.is_dir() and data.owner() == "nobody"
    assert roots.started("clean").ended() == 0
    assert not data.exists() and not (roots.folder / ".demo").exists()


def test_what_a_killed_demo_left_is_known_by_more_than_its_number(tmp_path: Path) -> None:
    from webapp.local.single_start import SingleStart

    single = SingleStart(tmp_path, "http://127.0.0.1:1")
    (tmp_path / "children").write_text(json.dumps([[os.getpid(), 1.0]]))  # our process id with another start time
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    single.end_leftovers()
    signal.signal(signal.SIGTERM, before)
    assert heard == []
    single.end()
