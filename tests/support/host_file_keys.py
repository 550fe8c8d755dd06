"""The keys that three hosts read, from their references: none of them publishes a schema that may be copied.

Read on 30 November 2026. Written as JSON Schemas, so that each file is checked against them like a published one.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
WHOLE: Schema = {"type": "integer"}
YES_OR_NO: Schema = {"type": "boolean"}
ANYTHING: Schema = {}


def keys(names: str, *, needed: str = "", **known: Schema) -> Schema:
    """Return an object with these keys and no others; those without a schema may hold anything."""
    return {
        "type": "object",
        "properties": {**dict.fromkeys([*names.split(), *needed.split()], ANYTHING), **known},
        "required": needed.split(),
        "additionalProperties": False,
    }


def all_of(one: Schema) -> Schema:
    return {"type": "array", "items": one}


def seconds(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


# digitalocean/godo, apps.gen.go, 24 July 2026: the structs into which doctl reads an app spec.
DO_NAME: Schema = {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,30}[a-z0-9]$"}
DO_SOURCES = [{"required": [name]} for name in ("git", "github", "gitlab", "bitbucket", "image")]
DO_ENVS = all_of(keys("key value scope", needed="key", type={"enum": ["GENERAL", "SECRET"]}))
DO_COMPONENT = (
    "bitbucket github gitlab image dockerfile_path build_command run_command source_dir environment_slug "
    "instance_size_slug instance_count autoscaling alerts log_destinations"
)
DO_SHARED: dict[str, Schema] = {
    "name": DO_NAME,
    "git": keys("", needed="repo_clone_url", repo_clone_url=TEXT, branch=TEXT),
    "envs": DO_ENVS,
}
DO_HEALTH = (
    "path initial_delay_seconds period_seconds timeout_seconds success_threshold failure_threshold http_path port"
)
DO_GRACE: dict[str, Schema] = {"grace_period_seconds": seconds(1, 600)}


def _component(more: str, **known: Schema) -> Schema:
    return {**keys(f"{DO_COMPONENT} {more}", needed="name", **DO_SHARED, **known), "oneOf": DO_SOURCES}


DO_DATABASE: Schema = {
    **keys(
        "version size num_nodes cluster_name db_name db_user",
        needed="name engine",
        name=DO_NAME,
        engine={"enum": ["MYSQL", "PG", "REDIS", "MONGODB", "KAFKA", "OPENSEARCH", "VALKEY"]},
        production=YES_OR_NO,
    ),
    # A production database is an existing cluster.
    "if": {"properties": {"production": {"const": True}}, "required": ["production"]},
    "then": {"required": ["cluster_name"]},
    # App Platform creates a development database of PostgreSQL only.
    "else": {"properties": {"engine": {"const": "PG"}}},
}
DIGITALOCEAN = keys(
    "static_sites functions domains region alerts ingress egress features maintenance vpc disable_edge_cache "
    "disable_email_obfuscation enhanced_threat_control_enabled",
    needed="name",
    name=DO_NAME,
    envs=DO_ENVS,
    services=all_of(
        _component(
            "protocol routes cors internal_ports inactivity_sleep liveness_health_check",
            http_port=WHOLE,
            health_check=keys(DO_HEALTH),
            termination=keys("", drain_seconds=seconds(1, 110), **DO_GRACE),
        )
    ),
    workers=all_of(_component("liveness_health_check", termination=keys("", **DO_GRACE))),
    jobs=all_of(
        _component(
            "schedule timeout",
            kind={"enum": ["PRE_DEPLOY", "POST_DEPLOY", "FAILED_DEPLOY", "SCHEDULED"]},
            termination=keys("", **DO_GRACE),
        )
    ),
    databases=all_of(DO_DATABASE),
)

# superfly/docs, reference/configuration, and superfly/flyctl, internal/appconfig/config.go.
DURATION: Schema = {"type": "string", "pattern": r"^(\d+(ms|s|m|h))+$"}
FLY = keys(
    "swap_size_mb console_command experimental mounts services checks files host_dedication_id machine_config "
    "container machine_checks restart statics metrics",
    needed="app",
    app=TEXT,
    primary_region=TEXT,
    kill_signal={"enum": ["SIGINT", "SIGTERM", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGKILL", "SIGSTOP"]},
    kill_timeout=seconds(1, 300),  # one for all process groups
    build=keys("builder args buildpacks image settings builtin dockerfile ignorefile build-target"),
    deploy=keys(
        "strategy max_unavailable wait_timeout release_command release_command_timeout release_command_vm seed_command"
    ),
    env={"type": "object", "additionalProperties": TEXT},
    processes={"type": "object", "additionalProperties": TEXT},
    http_service=keys(
        "auto_start_machines concurrency tls_options http_options machine_checks",
        needed="internal_port",
        internal_port=WHOLE,
        force_https=YES_OR_NO,
        auto_stop_machines={"enum": ["off", "stop", "suspend"]},
        min_machines_running=WHOLE,
        processes=all_of(TEXT),
        checks=all_of(
            keys(
                "method path protocol tls_skip_verify tls_server_name headers",
                interval=DURATION,
                timeout=DURATION,
                grace_period=DURATION,
            )
        ),
    ),
    vm=all_of(keys("size memory cpu_kind cpus memory_mb gpus gpu_kind host_dedication_id kernel_args processes")),
)

# Render's Blueprint YAML reference.
RENDER_VALUE = keys("value", needed="key", key=TEXT, generateValue=YES_OR_NO)
"""The values of an environment group: it references nothing, and asks for nothing."""
RENDER_ENVS = all_of(
    {
        "oneOf": [
            keys("", needed="fromGroup", fromGroup=TEXT),
            keys(
                "value generateValue",
                needed="key",
                key=TEXT,
                sync={"const": False},
                fromDatabase=keys("property", needed="name property", name=TEXT),
                fromService=keys("property envVarKey", needed="name type", name=TEXT, type=TEXT),
            ),
        ]
    }
)
RENDER_PLANS: Schema = {"enum": ["free", "starter", "standard", "pro", "pro plus", "pro max", "pro ultra"]}
RENDER_KEY_VALUE = keys(
    "region previewPlan",
    needed="name type ipAllowList",
    name=TEXT,
    type={"enum": ["keyvalue", "redis"]},
    plan=RENDER_PLANS,
    ipAllowList={"type": "array"},
    maxmemoryPolicy={"enum": ["noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random",
                              "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"]},
)  # fmt: skip
RENDER_SERVICE = keys(
    "region repo branch autoDeploy autoDeployTrigger domains previews numInstances scaling disk rootDir buildFilter "
    "dockerCommand dockerfilePath dockerContext registryCredential image renderSubdomainPolicy initialDeployHook",
    needed="name type runtime buildCommand startCommand",
    name=TEXT,
    type={"enum": ["web", "pserv", "worker", "cron"]},
    runtime={"enum": ["node", "python", "elixir", "go", "ruby", "rust", "docker", "image", "static"]},
    plan=RENDER_PLANS,
    buildCommand=TEXT,
    startCommand=TEXT,
    preDeployCommand=TEXT,
    healthCheckPath=TEXT,
    maxShutdownDelaySeconds=seconds(1, 300),
    envVars=RENDER_ENVS,
)
RENDER = keys(
    "projects ungrouped previews",
    services=all_of(
        {
            "if": {"properties": {"type": {"enum": ["keyvalue", "redis"]}}},
            "then": RENDER_KEY_VALUE,
            "else": RENDER_SERVICE,
        }
    ),
    databases=all_of(
        keys(
            "plan previewPlan diskSizeGB previewDiskSizeGB region ipAllowList postgresMajorVersion databaseName user "
            "readReplicas highAvailability",
            needed="name",
        )
    ),
    envVarGroups=all_of(keys("", needed="name envVars", name=TEXT, envVars=all_of(RENDER_VALUE))),
)

# Dokku's app.json: zero-downtime checks and process scaling.
DOKKU = keys(
    "scripts cron",
    formation={"type": "object", "additionalProperties": keys("max_parallel autoscaling", quantity=WHOLE)},
    healthchecks={
        "type": "object",
        "additionalProperties": all_of(
            keys(
                "attempts command content httpHeaders initialDelay listening onFailure path port scheme timeout "
                "uptime wait warn",
                needed="type",
                name=TEXT,
                type={"enum": ["startup", "liveness", "readiness"]},
            )
        ),
    },
)
