"""Tests that docs/add-a-workflow.md, followed literally in a copy of the project, gives a working fourth workflow."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.processes.processes import asking

GUIDE = (factories.ROOT / "docs" / "add-a-workflow.md").read_text()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the project and write the files of the guide."""
    for name in ("tasks", "webapp", "wsgi.py", "templates", "static", "pyproject.toml"):
        source = factories.ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    if (known := factories.ROOT / ".mypy_cache").is_dir():  # reuse mypy's cache of the packages
        shutil.copytree(known, tmp_path / ".mypy_cache")
    (file,) = re.findall(r"^`(tasks/workflows/\w+\.py)`:$", GUIDE, re.MULTILINE)
    code, test = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / file).write_text(code)
    (tmp_path / "test_glossary.py").write_text(test)
    return tmp_path


def run(copy: Path, arguments: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=copy, env=variables, capture_output=True, text=True, timeout=170, check=False
    )


@pytest.mark.thorough
def test_the_guide_leads_to_a_job_that_succeeds(
    copy: Path, addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        job_id = factories.submit(
            session, account_id, workflow="glossary", options={"size": "few"}, title="Terms of the harbour"
        ).job_id
    with FakeProvider() as fake:
        fake.script([{"mode": "ok", "text": "* **Pier**: a landing place."}])
        ended = run(copy, ["-m", "tasks", "worker", "--burst"], factories.environment(addresses, **asking(fake)))
        assert ended.returncode == 0, ended.stderr
    with database.transaction() as session:
        assert factories.state_of(session, job_id) is State.SUCCEEDED, ended.stderr
        result = job_views.result_of(session, job_id, account_id)
    assert result is not None
    assert result.text == "* **Pier**: a landing place."


@pytest.mark.thorough
@pytest.mark.timeout(180)
def test_the_guides_code_keeps_the_houses_style_and_its_own_test_passes(copy: Path, addresses: dict[str, str]) -> None:
    variables = factories.environment(addresses)
    for arguments in (
        ["-m", "ruff", "check", "tasks/workflows/glossary.py", "test_glossary.py"],
        ["-m", "ruff", "format", "--check", "tasks/workflows/glossary.py"],
        ["-m", "mypy", "tasks/workflows/glossary.py"],
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_glossary.py"],
    ):
        ended = run(copy, arguments, variables)
        assert ended.returncode == 0, ended.stdout + ended.stderr
