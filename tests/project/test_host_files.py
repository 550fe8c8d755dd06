"""Tests that the hosts' configuration files agree with each other and with the app."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from typing import Any

import pytest
import yaml
from flask import Flask

from tasks.__main__ import parser
from tasks.settings import Settings
from tasks.settings.connection_urls import HOST_NAMES
from tests.support.factories import ROOT

RELEASE, WEB, WORKER, ALL = (
    "flask --app wsgi db upgrade",
    "gunicorn wsgi:app",
    "python -m tasks worker",
    "python -m webapp all",
)
HEALTH = "/healthz"
REQUIRED = {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "OPENAI_API_KEY"}
READ_BY_GUNICORN = {"HOST", "PORT", "WEB_CONCURRENCY", "WEB_THREADS"}
SECONDS_BETWEEN = 5
"""The remainder of the host's grace period after ours."""
HEROKU_GRACE_SECONDS = 30


def read(name: str) -> str:
    return (ROOT / name).read_text()


PROCFILE = dict(line.split(": ", 1) for line in read("Procfile").splitlines())
APP_JSON = json.loads(read("app.json"))
DOKKU = json.loads(read(".dokku/app.json"))
RENDER = yaml.safe_load(read("render.yaml"))
FLY = tomllib.loads(read("fly.toml"))
COMPOSE = yaml.safe_load(read("compose.yaml"))
DIGITALOCEAN = yaml.safe_load(read(".do/app.yaml"))
RENDER_SERVICES = {service["name"].removeprefix("waybill-"): service for service in RENDER["services"]}
OURS = {name: COMPOSE["services"][name] for name in ("release", "web", "worker")}
DO_PARTS = {part["name"]: part for kind in ("jobs", "services", "workers") for part in DIGITALOCEAN[kind]}


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


COMMANDS = {
    "Procfile": PROCFILE,
    "render.yaml": {
        "release": RENDER_SERVICES["web"]["preDeployCommand"],
        "web": RENDER_SERVICES["web"]["startCommand"],
        "worker": RENDER_SERVICES["worker"]["startCommand"],
    },
    "fly.toml": {"release": FLY["deploy"]["release_command"], **FLY["processes"]},
    "compose.yaml": {name: service["command"] for name, service in OURS.items()},
    ".do/app.yaml": {name: part["run_command"] for name, part in DO_PARTS.items()},
}
GROUP = {item["key"]: item.get("value") for item in RENDER["envVarGroups"][0]["envVars"]}
RENDER_OWN = {
    name: {item["key"]: item.get("value") for item in RENDER_SERVICES[name]["envVars"] if "key" in item}
    for name in ("web", "worker")
}
DO_ENV = {item["key"]: item.get("value") for item in DIGITALOCEAN["envs"]}
SET_BY_HAND = {name: None for name in re.findall(r"(\w+)=…", read("fly.toml"))}
ADDONS = {
    {"postgresql": "DATABASE_URL", "redis": "REDIS_URL"}[addon.split(":")[0].removeprefix("heroku-")]: None
    for addon in APP_JSON["addons"]
}
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "app.json": {**{name: said.get("value") for name, said in APP_JSON["env"].items()}, **ADDONS},
    "render.yaml web": {**GROUP, **RENDER_OWN["web"]},
    "render.yaml worker": {**GROUP, **RENDER_OWN["worker"]},
    "fly.toml": {**FLY["env"], **SET_BY_HAND},
    "compose.yaml": COMPOSE["x-app"]["environment"],
    ".do/app.yaml": DO_ENV,
}
GRACES = {
    "app.json": [HEROKU_GRACE_SECONDS],
    "render.yaml web": [RENDER_SERVICES["web"]["maxShutdownDelaySeconds"]],
    "render.yaml worker": [RENDER_SERVICES["worker"]["maxShutdownDelaySeconds"]],
    "fly.toml": [FLY["kill_timeout"]],
    "compose.yaml": [seconds(service["stop_grace_period"]) for service in OURS.values()],
    ".do/app.yaml": [DO_PARTS[name]["termination"]["grace_period_seconds"] for name in ("web", "worker")],
}


@pytest.mark.parametrize("file", COMMANDS)
def test_every_file_starts_the_same_commands(file: str) -> None:
    assert COMMANDS[file] == {"release": RELEASE, "web": WEB, "worker": WORKER}


def test_the_image_runs_everything_where_no_command_is_given() -> None:
    (command,) = re.findall(r"^CMD (\[.*\])$", read("Dockerfile"), re.MULTILINE)
    assert shlex.join(json.loads(command)) == ALL


def test_the_commands_are_ones_that_the_app_knows() -> None:
    assert parser().parse_args(WORKER.split()[3:]).run.__name__ == "work"
    assert 'add_parser("all"' in read("webapp/__main__.py")
    assert (ROOT / "wsgi.py").exists() and (ROOT / "gunicorn.conf.py").exists()


@pytest.mark.parametrize("file", ENVIRONMENTS)
def test_every_name_a_file_sets_is_read_and_no_needed_one_is_missing(file: str) -> None:
    named = set(ENVIRONMENTS[file])
    known = {name.upper() for name in Settings.model_fields} | READ_BY_GUNICORN | {"PYTHON_VERSION"}
    assert named <= known
    assert named >= REQUIRED


@pytest.mark.parametrize("file", GRACES)
def test_the_host_waits_longer_than_we_need(file: str) -> None:
    ours = int(ENVIRONMENTS[file]["SHUTDOWN_GRACE_SECONDS"])
    assert all(given >= ours + SECONDS_BETWEEN for given in GRACES[file])


def test_every_host_asks_the_web_process_alone_whether_it_lives(app: Flask) -> None:
    asked = [
        RENDER_SERVICES["web"]["healthCheckPath"],
        DO_PARTS["web"]["health_check"]["http_path"],
        *(check["path"] for check in FLY["http_service"]["checks"]),
        *(check["path"] for check in DOKKU["healthchecks"]["web"]),
        *re.findall(r"8000(/\w+)", " ".join(OURS["web"]["healthcheck"]["test"])),
    ]
    assert asked == [HEALTH] * 5
    assert app.test_client().get(HEALTH).status_code == 200


def test_the_doors_are_the_same_number_wherever_it_is_written() -> None:
    default = int(re.findall(r'"PORT"\) or "(\d+)"', read("gunicorn.conf.py"))[0])
    assert FLY["http_service"]["internal_port"] == int(FLY["env"]["PORT"]) == default
    assert DO_PARTS["web"]["http_port"] == default
    assert OURS["web"]["expose"] == [f"{default}"] and f"web:{default}" in read("Caddyfile")
    assert f"EXPOSE {default}" in read("Dockerfile")


def interpolated(value: str, **given: str) -> str:
    """Return what Compose makes of `${NAME:-default}`."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: given.get(found[1]) or found[2], value)


def test_compose_publishes_tls_alone_and_its_proxy_is_the_one_that_is_trusted() -> None:
    """Check that port 8000 is not published as plain http.

    Nobody could sign in there, and clients could choose their own address.
    """
    published = {name: service["ports"] for name, service in COMPOSE["services"].items() if "ports" in service}
    assert published == {"caddy": ["80:80", "443:443", "443:443/udp"]}
    environment = COMPOSE["x-app"]["environment"]
    assert environment["PROXY_HOPS"] == "1" and "trusted_proxies" not in re.sub(r"#.*", "", read("Caddyfile"))
    assert "./Caddyfile:/etc/caddy/Caddyfile:ro" in COMPOSE["services"]["caddy"]["volumes"]
    assert COMPOSE["services"]["caddy"]["depends_on"] == {"web": {"condition": "service_healthy"}}


def test_the_name_of_a_compose_site_is_said_once() -> None:
    base, name = COMPOSE["x-app"]["environment"]["APP_BASE_URL"], COMPOSE["services"]["caddy"]["environment"]
    assert interpolated(base) == "https://localhost" and interpolated(name["SITE_ADDRESS"]) == "localhost"
    given = {"SITE_ADDRESS": "waybill.example.org"}
    assert interpolated(base, **given) == "https://waybill.example.org"
    assert interpolated(name["SITE_ADDRESS"], **given) == "waybill.example.org"
    assert "{$SITE_ADDRESS:localhost} {" in read("Caddyfile").splitlines()


def test_redis_never_throws_messages_away() -> None:
    assert RENDER_SERVICES["redis"]["maxmemoryPolicy"] == "noeviction"
    assert "--maxmemory-policy noeviction" in COMPOSE["services"]["redis"]["command"]


def test_no_machine_of_fly_stops_by_itself() -> None:
    assert FLY["kill_signal"] == "SIGTERM"
    assert (FLY["http_service"]["auto_stop_machines"], FLY["http_service"]["min_machines_running"]) == ("off", 1)
    assert FLY["http_service"]["processes"] == ["web"]


def test_one_python_everywhere_and_not_too_old_a_one() -> None:
    (image,) = re.findall(r"^FROM python:(\d+\.\d+)-slim$", read("Dockerfile"), re.MULTILINE)
    asked = {".".join(own["PYTHON_VERSION"].split(".")[:2]) for own in RENDER_OWN.values()}
    assert asked == {image}
    least = tomllib.loads(read("pyproject.toml"))["project"]["requires-python"].removeprefix(">=")
    assert tuple(map(int, image.split("."))) >= tuple(map(int, least.split(".")))


def test_the_image_holds_what_runs_and_nothing_private() -> None:
    let_in = {line[1:] for line in read(".dockerignore").splitlines() if line.startswith("!")}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    top = {name.split("/")[0] for name in tracked}
    assert let_in <= top
    assert top - let_in <= {
        *(".ci", ".do", ".dokku", ".dockerignore", ".editorconfig", ".gitignore", ".pre-commit-config.yaml"),
        *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"),
        *("Caddyfile", "Dockerfile", "Makefile", "Procfile"),
        *("app.json", "benchmarks", "compose.yaml", "docs", "fly.toml", "pyproject.toml", "render.yaml", "tests"),
    }
    assert "*" in read(".dockerignore").splitlines()


def test_the_page_about_hosts_says_what_the_files_say() -> None:
    page = read("docs/deploy.md")
    assert all(f"`{command}`" in page for command in (RELEASE, WEB, WORKER, ALL))
    assert all(f"`{name}`" in page for names in HOST_NAMES.values() for name, _ in names)
    rows = {line.split("|")[1].strip(): line for line in page.splitlines() if line.startswith("| ")}
    for host, file in (("Render", "render.yaml web"), ("Fly", "fly.toml"), ("DigitalOcean", ".do/app.yaml")):
        assert f"{GRACES[file][0]} s |" in rows[host]
        assert rows[host].split("|")[-2].strip() == ENVIRONMENTS[file]["SHUTDOWN_GRACE_SECONDS"]
    assert "docs/deploy.md" in read("README.md")
