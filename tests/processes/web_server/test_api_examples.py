"""The examples of docs/api.md and docs/embed.md, run unchanged, and requests that no developer would write."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tests.processes.web_server.conftest import ProgrammedSite
from tests.support import factories
from tests.support.processes.processes import answers

API, EMBED = ((factories.ROOT / "docs" / name).read_text() for name in ("api.md", "embed.md"))
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
EXAMPLES, SEED = 5, 1


def blocks(text: str, language: str) -> list[str]:
    """Return the examples of a language, in their order in the document."""
    found = re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found
    return found


def run(arguments: list[str], site: ProgrammedSite, where: Path, **more: str) -> str:
    """Run the program and return its output. Fails with the whole output if the program fails."""
    variables = factories.environment({}, SITE=site.address, TOKEN=site.token, NO_PROXY="*", **more)
    ended = subprocess.run(
        arguments, cwd=where, env=variables, capture_output=True, text=True, timeout=200, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_python_of_the_guide_works(programmed_site: ProgrammedSite, tmp_path: Path) -> None:
    output = run([sys.executable, "-c", "\n".join(blocks(API, "python"))], programmed_site, tmp_path)
    assert "succeeded None" in output or "succeeded {'done': 1, 'total': 1}" in output, output
    assert "\nThe harbour committee met in March.\n" in output, output
    assert re.search(r"^2\d{3}-.* The harbour committee met in March", output, re.MULTILINE), "the list names it"


def test_the_curl_of_both_guides_works(programmed_site: ProgrammedSite, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("There is no curl on this machine.")
    [handed_in] = blocks(API, "sh")
    assert '"text": "The harbour' in run(["sh", "-euc", handed_in], programmed_site, tmp_path)
    made, listed = (run(["sh", "-euc", block], programmed_site, tmp_path) for block in blocks(EMBED, "sh"))
    assert f'"upload_url": "{programmed_site.address}/embed/' in made
    assert '"state": "open"' in listed


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_schemathesis_finds_nothing(programmed_site: ProgrammedSite, tmp_path: Path) -> None:
    """Run schemathesis. For a longer run, use the same command with more examples and another seed."""
    with programmed_site.database.transaction() as session:
        failed = factories.submit(session, programmed_site.account_id, b"a text that fails").job_id
        transitions.fail(session, factories.claim(session, failed), category=Category.QUOTA)
        deleted = factories.submit(session, programmed_site.account_id, b"a text that is deleted").job_id
    output = run(
        [
            str(SCHEMATHESIS),
            *("--config-file", str(factories.ROOT / "tests" / "support" / "schemathesis.toml")),
            *("run", f"{programmed_site.address}/api/openapi.json"),
            *("--header", f"Authorization: Bearer {programmed_site.token}"),
            *("--max-examples", str(EXAMPLES), "--seed", str(SEED), "--checks", "all", "--continue-on-failure"),
        ],
        programmed_site,
        tmp_path,
        FAILED_JOB=str(failed),
        DELETED_JOB=str(deleted),
    )
    assert "No issues found" in output, output
    tried = re.search(r"(\d+) generated, (\d+) passed", output)
    assert tried and int(tried[1]) == int(tried[2]) > 200, output


def waited(site: ProgrammedSite, path: str, seconds: int) -> str:
    """Return why a waiting request was answered."""
    request = urllib.request.Request(
        f"{site.address}{path}?wait={seconds}", headers={"Authorization": f"Bearer {site.token}"}
    )
    with urllib.request.urlopen(request, timeout=50) as answer:
        return str(answer.headers["Waybill-Wait"])


def waited_in_the_end(site: ProgrammedSite, path: str) -> str:
    """Return the same for a request that got a slot: requests of the test itself may have taken it for a moment."""
    while (ended := waited(site, path, 25)) == "full":
        pass
    return ended


def test_waiting_programs_leave_threads_to_others_and_let_the_process_end(programmed_site: ProgrammedSite) -> None:
    """Check the end of the web process, so this test is the last of the file."""
    site = programmed_site
    with site.database.transaction() as session:
        job_id = factories.submit(session, site.account_id, b"a text that waits").job_id
        transitions.retry_later(
            session, factories.claim(session, job_id), category=Category.OVERLOADED, delay_seconds=500
        )
    path = f"/api/v1/jobs/{job_id}"
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(waited_in_the_end, site, path) for _ in range(2)]
        factories.wait_until(lambda: waited(site, path, 1) == "full", what="two of four threads wait")
        assert answers(f"{site.address}/healthz") and not any(one.done() for one in waiting)
        site.web.signal(signal.SIGTERM)
        assert [one.result(20) for one in waiting] == ["stopping", "stopping"]
    assert site.web.wait() == 0
