"""Traces for OpenTelemetry, where OTEL_EXPORTER_OTLP_ENDPOINT is set: requests and attempts, with ids and no words.

Spans are made here and nowhere else. The instrumentations of other packages write addresses, statements and messages
of exceptions into theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tasks.settings import Settings, SettingsWrong

NOT_INSTALLED = (
    "OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry is not installed. "
    "Install opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http, or unset it."
)
Value = str | int | bool | None

_tracer: Any = None


def start(settings: Settings, service: str) -> None:
    """Send spans from now on, if the site wants it. Raises SettingsWrong where the packages are missing."""
    global _tracer
    endpoint = settings.otel_exporter_otlp_endpoint
    if endpoint is None or _tracer is not None:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise SettingsWrong([NOT_INSTALLED]) from None
    provider = TracerProvider(resource=Resource({"service.name": service}))  # ends with the process, by atexit
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=5)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1000))
    _tracer = provider.get_tracer("waybill")


def begin(name: str, **facts: Value) -> Any:
    """A span that is ended by `end`; None where nobody collects them."""
    if _tracer is None:
        return None
    return _tracer.start_span(name, attributes=_known(facts), record_exception=False, set_status_on_exception=False)


def end(span: Any, **facts: Value) -> None:
    """End a span, with what is known only now."""
    if span is not None:
        span.set_attributes(_known(facts))
        span.end()


@contextmanager
def span(name: str, **facts: Value) -> Iterator[dict[str, Value]]:
    """A span around the block, which may put more facts into what it is given."""
    more: dict[str, Value] = {}
    begun = begin(name, **facts)
    try:
        yield more
    except BaseException as error:
        more["error"] = type(error).__name__
        raise
    finally:
        end(begun, **more)


def _known(facts: dict[str, Value]) -> dict[str, Any]:
    return {f"waybill.{name}": value for name, value in facts.items() if value is not None}
