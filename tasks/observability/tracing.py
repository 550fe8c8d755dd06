"""Traces requests and attempts by OpenTelemetry if OTEL_EXPORTER_OTLP_ENDPOINT is set, with ids and no texts.

Spans are created here only. The instrumentations of other packages would write URLs, SQL statements and messages of
exceptions into them.
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
    """Start sending spans if the endpoint is set. Raises SettingsWrong if the packages are missing."""
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
    """Return a new span, which the caller ends with `end`; None if tracing is off."""
    if _tracer is None:
        return None
    return _tracer.start_span(name, attributes=_known(facts), record_exception=False, set_status_on_exception=False)


def end(span: Any, **facts: Value) -> None:
    """End a span, with the facts that are known only now."""
    if span is not None:
        span.set_attributes(_known(facts))
        span.end()


@contextmanager
def span(name: str, **facts: Value) -> Iterator[dict[str, Value]]:
    """Trace the block as a span. The block may add facts to the dictionary that it gets."""
    extra: dict[str, Value] = {}
    begun = begin(name, **facts)
    try:
        yield extra
    except BaseException as error:
        extra["error"] = type(error).__name__
        raise
    finally:
        end(begun, **extra)


def _known(facts: dict[str, Value]) -> dict[str, Any]:
    return {f"waybill.{name}": value for name, value in facts.items() if value is not None}
