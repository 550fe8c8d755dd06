"""Reports internal errors to Sentry if SENTRY_DSN is set: types, places and ids, and no texts.

The report is built from a list of allowed fields, instead of removing what is known to be private. Sentry's own
integrations stay off: they read requests, queries, log lines and local variables.
"""

from __future__ import annotations

from typing import Any

from tasks.settings import Settings, SettingsWrong

NOT_INSTALLED = "SENTRY_DSN is set, but sentry-sdk is not installed. Install it, or unset SENTRY_DSN."
WRONG_DSN = "SENTRY_DSN is not an address that Sentry hands out."
OF_AN_EVENT = ("event_id", "timestamp", "platform", "level", "tags", "sdk", "release", "environment")
OF_A_FRAME = ("filename", "function", "module", "lineno", "in_app")

_sdk: Any = None


def start(settings: Settings) -> None:
    """Start reporting if SENTRY_DSN is set. Raises SettingsWrong if the package is missing or the DSN is wrong."""
    global _sdk
    if settings.sentry_dsn is None or _sdk is not None:
        return
    try:
        import sentry_sdk
    except ImportError:
        raise SettingsWrong([NOT_INSTALLED]) from None
    try:
        sentry_sdk.init(
            settings.sentry_dsn.get_secret_value(),
            before_send=only_what_is_allowed,  # this decides; the rest saves work (send_default_pii is off by default)
            include_local_variables=False,
            include_source_context=False,
            max_request_body_size="never",
            max_breadcrumbs=0,
            default_integrations=False,
            auto_enabling_integrations=False,
            auto_session_tracking=False,
            send_client_reports=False,
            server_name="",
        )
    except sentry_sdk.utils.BadDsn:
        raise SettingsWrong([WRONG_DSN]) from None
    _sdk = sentry_sdk


def report(error: BaseException, event: str, **ids: str | int | None) -> None:
    """Report an error to Sentry, under the event name that it has in the log. Does nothing if Sentry is off."""
    if _sdk is None:
        return
    with _sdk.new_scope() as scope:
        scope.set_tag("event", event)
        for name, value in ids.items():
            if value is not None:
                scope.set_tag(name, value)
        scope.capture_exception(error)


def flush() -> None:
    """Send pending reports, for at most two seconds. For a process that is about to end."""
    if _sdk is not None:
        _sdk.flush(2)


def only_what_is_allowed(event: Any, _: object) -> Any:
    """Return the event with types, places and our ids only: messages of exceptions may quote a document."""
    chain = event.get("exception", {}).get("values", [])
    return {
        **{name: event[name] for name in OF_AN_EVENT if name in event},
        "exception": {"values": [_only_places(error) for error in chain]},
    }


def _only_places(error: dict[str, Any]) -> dict[str, Any]:
    frames = (error.get("stacktrace") or {}).get("frames", [])
    return {
        "type": error.get("type"),
        "module": error.get("module"),
        "stacktrace": {"frames": [{name: frame.get(name) for name in OF_A_FRAME} for frame in frames]},
    }
