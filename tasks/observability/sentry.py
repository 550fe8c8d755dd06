"""Faults of ours for Sentry, where SENTRY_DSN is set: types, places and ids, and none of the words.

What is sent is built anew from a list of what is allowed, and not cleaned of what is known to be private. Sentry's
own integrations stay off: they read requests, queries, log lines and local variables.
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
    """Report from now on, if the site wants it. Raises SettingsWrong where the package is missing or the DSN wrong."""
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
            before_send=only_what_is_allowed,  # what decides; the rest spares work (send_default_pii is off by default)
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
    """Tell Sentry of a fault, under the name it has in the log. Does nothing where it is off."""
    if _sdk is None:
        return
    with _sdk.new_scope() as scope:
        scope.set_tag("event", event)
        for name, value in ids.items():
            if value is not None:
                scope.set_tag(name, value)
        scope.capture_exception(error)


def flush() -> None:
    """Send what is still to be sent, for two seconds at most. For a process that ends."""
    if _sdk is not None:
        _sdk.flush(2)


def only_what_is_allowed(event: Any, _: object) -> Any:
    """The event with types, places and our ids. The messages of exceptions may quote a document, so none is sent."""
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
