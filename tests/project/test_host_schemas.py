"""Tests that each host's file contains only keys that the host reads: others are ignored there, or refused."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from tests.support import host_file_keys
from tests.support.factories import ROOT

SCHEMAS = ROOT / "tests" / "support" / "schemas"


def published(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text())


FILES: dict[str, tuple[Callable[[str], Any], Any]] = {
    "compose.yaml": (yaml.safe_load, published("compose-spec.json")),
    "app.json": (json.loads, published("heroku-app.json")),
    ".dokku/app.json": (json.loads, host_file_keys.DOKKU),
    "render.yaml": (yaml.safe_load, host_file_keys.RENDER),
    "fly.toml": (tomllib.loads, host_file_keys.FLY),
    ".do/app.yaml": (yaml.safe_load, host_file_keys.DIGITALOCEAN),
}


def read(file: str) -> Any:
    parse, _ = FILES[file]
    return parse((ROOT / file).read_text())


def faults(file: str, content: Any) -> list[str]:
    """Return the errors by the host's schema."""
    found = Draft7Validator(FILES[file][1]).iter_errors(content)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in found]


@pytest.mark.parametrize("file", FILES)
def test_the_host_reads_every_key(file: str) -> None:
    Draft7Validator.check_schema(FILES[file][1])
    assert faults(file, read(file)) == []


WRONG: list[tuple[str, list[Any], Any]] = [
    ("compose.yaml", ["services", "web", "stop_grace"], "60s"),
    ("compose.yaml", ["services", "caddy", "ports"], "80:80"),
    ("app.json", ["healthchecks"], {"web": []}),
    ("app.json", ["formation", "web", "size"], "large"),
    (".dokku/app.json", ["healthchecks", "web", 0, "type"], "start"),
    ("render.yaml", ["services", 0, "maxShutdownDelaySeconds"], 301),
    ("render.yaml", ["services", 0, "healthcheckPath"], "/healthz"),
    ("render.yaml", ["envVarGroups", 0, "envVars", 0, "sync"], False),
    ("render.yaml", ["services", 2, "maxmemoryPolicy"], "none"),
    ("fly.toml", ["kill_timeout"], 301),
    ("fly.toml", ["kill_timeout"], "60s"),
    ("fly.toml", ["http_service", "kill_timeout"], 60),
    (".do/app.yaml", ["databases", 1, "production"], False),
    (".do/app.yaml", ["databases", 1, "cluster_name"], None),
    (".do/app.yaml", ["services", 0, "git"], None),
    (".do/app.yaml", ["services", 0, "termination", "grace_period_seconds"], 601),
]


@pytest.mark.parametrize(("file", "path", "value"), WRONG, ids=[f"{file} {path[-1]}" for file, path, _ in WRONG])
def test_what_the_host_does_not_read_is_seen(file: str, path: list[Any], value: Any) -> None:
    """Check that the test can fail: these files had such keys, or might; None removes a key."""
    content = copy.deepcopy(read(file))
    parent = content
    for step in path[:-1]:
        parent = parent[step]
    if value is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    assert faults(file, content)


def test_the_repository_is_named_once_for_digitalocean() -> None:
    spec = read(".do/app.yaml")
    sources = [part["git"] for kind in ("jobs", "services", "workers") for part in spec[kind]]
    assert sources == [sources[0]] * 3
    assert (ROOT / ".do" / "app.yaml").read_text().count("repo_clone_url") == 1
