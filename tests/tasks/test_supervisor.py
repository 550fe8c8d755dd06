"""The supervisor of a container with web and worker: how it handles signals, children that end, and orphans."""

from __future__ import annotations

import signal
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from tests.support import factories
from tests.support.processes.processes import Process, process
from webapp.__main__ import main

KEEPER = """
    import ctypes, sys
    sys.path.insert(0, "webapp")
    import supervisor
    ctypes.CDLL(None).prctl(36, 1)  # orphans come to us, as they come to process 1 of a container
    {control}
    commands = {{n: [sys.executable, "-S", "-c", program] for n, program in enumerate({programs!r})}}
    sys.exit(supervisor.keep(commands, {grace}))
"""
COUNTS = """
    import signal, time
    received = []
    signal.signal(signal.SIGTERM, lambda *_: (received.append(1), print("TERM", flush=True)))
    print("up", flush=True)
    while not received:
        time.sleep(0.01)
    time.sleep({takes})
"""
STUBBORN = """
    import os, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.fork()
    print("up", flush=True)
    time.sleep(60)
"""
ENDS = "print('up', flush=True)"
LEAVES_AN_ORPHAN = """
    import os, time
    if os.fork() == 0:
        if os.fork() == 0:
            print("orphan", os.getpid(), "up", flush=True)
            time.sleep(0.2)
        os._exit(0)
    os.wait()
    time.sleep(60)
"""


@contextmanager
def keeper(*programs: str, grace: float = 10, control: str = "") -> Iterator[Process]:
    """Yield a supervisor whose children have started."""
    written = [textwrap.dedent(program) for program in programs]
    code = textwrap.dedent(KEEPER).format(programs=written, grace=grace, control=control)
    with process(["-S", "-P", "-c", code], {"PATH": "/usr/bin:/bin"}, fresh=True) as child:
        factories.wait_until(lambda: child.log.count("up") >= len(programs), what=lambda: child.log)
        yield child


def test_each_child_is_asked_once_however_often_the_host_asks() -> None:
    with keeper(COUNTS.format(takes=0.8), COUNTS.format(takes=0.1)) as here:
        for _ in range(3):
            here.signal(signal.SIGTERM)
            factories.wait_until(lambda: here.log.count("TERM") >= 2)
        here.signal(signal.SIGINT)
        assert here.wait() == 0, here.log
        assert here.log.count("TERM") == 2


def test_a_child_that_does_not_end_is_killed_with_its_children_when_the_grace_is_over() -> None:
    with keeper(STUBBORN, COUNTS.format(takes=0), grace=1) as here:
        factories.wait_until(lambda: here.log.count("up") == 3)
        family = psutil.Process(here.popen.pid).children(recursive=True)
        assert len(family) == 3
        here.signal(signal.SIGTERM)
        assert here.wait() == 1, here.log
        assert "0 did not end in time and is killed" in here.log
        factories.wait_until(lambda: not any(is_alive(child) for child in family))


@pytest.mark.parametrize("how", ["", "raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)"])
def test_a_child_that_ends_by_itself_ends_the_rest_in_order(how: str) -> None:
    with keeper(f"{ENDS}\n{how}", COUNTS.format(takes=0.2)) as here:
        assert here.wait() == 1
        assert "0 ended with" in here.log
        assert here.log.count("TERM") == 1
        assert "1 ended with 0" in here.log


@pytest.mark.parametrize("control", ["", "supervisor.ProcessGroup.reap = lambda self: []  # reaps nothing"])
def test_orphans_are_reaped(control: str) -> None:
    with keeper(LEAVES_AN_ORPHAN, control=control) as here:
        orphan = int(here.log.split("orphan ")[1].split()[0])

        def gone() -> bool:
            return not psutil.pid_exists(orphan)

        if control:
            factories.wait_until(lambda: psutil.Process(orphan).status() == psutil.STATUS_ZOMBIE)
            assert not gone()
        else:
            factories.wait_until(gone)


def is_alive(child: psutil.Process) -> bool:
    try:
        return child.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_settings_that_will_not_do_start_nothing(addresses: dict[str, str]) -> None:
    with process(["-m", "webapp", "all"], factories.environment(addresses, WAYBILL_DEMO="0")) as child:
        assert child.wait() == 1
        assert child.log.strip().startswith("SECRET_KEY is missing.")


def test_a_wrong_command_ends_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["everything"])
    assert ended.value.code == 2
    assert "usage: python -m webapp" in capsys.readouterr().err
