"""Sentry and OpenTelemetry: nothing unless wanted, a clear sentence where a package is missing, and no words ever."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tasks.observability import sentry, tracing
from tasks.settings import Settings, SettingsWrong
from tests.support import factories

NOWHERE = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x", "REDIS_URL": "redis://127.0.0.1:1/0"}
OPTIONAL = ("sentry_sdk", "opentelemetry.exporter.otlp", "rq_dashboard")  # redis looks for opentelemetry itself
WORD = "markedword"


@pytest.fixture(autouse=True)
def off_again() -> Iterator[None]:
    yield
    sentry._sdk = tracing._tracer = None


def wanting(**changed: Any) -> Settings:
    return factories.settings(NOWHERE, **changed)


@pytest.mark.thorough
def test_nothing_of_it_is_imported_unless_wanted() -> None:
    code = (
        "import sys; from webapp import create_app; from tasks.startup.loading import load; create_app(load());"
        "from tasks.worker import process;"
        f"print([name for name in {OPTIONAL!r} if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=factories.ROOT,
        env=factories.environment(NOWHERE),
        capture_output=True,
        text=True,
    )
    assert ended.stdout == "[]\n", ended.stderr


def test_off_means_that_nothing_happens() -> None:
    sentry.start(wanting())
    tracing.start(wanting(), "test")
    sentry.report(ValueError(WORD), "event", job="1")
    sentry.flush()
    assert tracing.begin("span") is None
    with tracing.span("span", job="1") as facts:
        facts["state"] = "x"


@pytest.mark.parametrize(
    ("package", "wanted", "start"),
    [
        ("sentry_sdk", {"sentry_dsn": "http://key@127.0.0.1:1/1"}, sentry.start),
        (
            "opentelemetry.sdk.trace",
            {"otel_exporter_otlp_endpoint": "http://127.0.0.1:1"},
            lambda settings: tracing.start(settings, "test"),
        ),
    ],
)
def test_a_missing_package_is_said_with_the_setting_that_wants_it(
    monkeypatch: pytest.MonkeyPatch, package: str, wanted: dict[str, str], start: Any
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SettingsWrong) as wrong:
        start(wanting(**wanted))
    (setting,) = wanted
    assert wrong.value.problems[0].startswith(f"{setting.upper()} is set, but ")
    assert "not installed" in wrong.value.problems[0] and "127.0.0.1" not in wrong.value.problems[0]


def test_a_dsn_that_is_none_is_refused_without_being_told() -> None:
    with pytest.raises(SettingsWrong, match="SENTRY_DSN") as wrong:
        sentry.start(wanting(sentry_dsn=WORD))
    assert WORD not in str(wrong.value)


def test_of_a_fault_only_types_places_and_ids_are_sent() -> None:
    frame = {
        **{"filename": "attempt.py", "function": "run", "module": "tasks.worker.attempt", "lineno": 7, "in_app": True},
        **{"vars": {"text": WORD}, "context_line": WORD, "pre_context": [WORD], "abs_path": WORD},
    }
    event = {
        **{"event_id": "1", "level": "error", "platform": "python", "tags": {"job": "2"}},
        **{"request": {"url": WORD, "data": WORD}, "user": {"email": WORD}, "breadcrumbs": {"values": [WORD]}},
        **{"extra": {"x": WORD}, "message": WORD, "logentry": {"message": WORD}, "server_name": WORD, "modules": {}},
        "exception": {
            "values": [
                {"type": "KeyError", "value": WORD, "stacktrace": {"frames": [frame]}, "mechanism": {"data": WORD}},
                {"type": "ValueError", "module": "x", "value": WORD, "stacktrace": None},
            ]
        },
    }
    sent = sentry.only_what_is_allowed(event, {})
    assert WORD not in json.dumps(sent)
    assert sent["tags"] == {"job": "2"} and [one["type"] for one in sent["exception"]["values"]] == [
        "KeyError",
        "ValueError",
    ]
    assert sent["exception"]["values"][0]["stacktrace"]["frames"][0]["lineno"] == 7


def test_a_span_holds_ids_and_the_type_of_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("waybill"))
    with pytest.raises(ValueError), tracing.span("job.attempt", job="ab", generation=3, nothing=None) as facts:
        facts["state"] = "failed"
        raise ValueError(WORD)
    (span,) = kept.get_finished_spans()
    assert span.name == "job.attempt" and not span.events and WORD not in span.to_json()
    assert span.attributes == {
        "waybill.job": "ab",
        "waybill.generation": 3,
        "waybill.state": "failed",
        "waybill.error": "ValueError",
    }
