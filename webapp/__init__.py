"""The web application: pages for browsers and an API for clients. Only this package imports Flask."""

from __future__ import annotations

from datetime import timedelta

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from tasks.database import begin_transactions, engine_options
from tasks.observability import sentry, tracing
from tasks.settings import Settings
from tasks.startup import loading
from webapp import accounts, api, auth, jobs, monitoring, notifications, ops, services, text, upload_links
from webapp.extensions import csrf, db, htmx, limiter, login, migrate
from webapp.http import errors, locale, path_prefix, proxy_faults, request_body, request_log, security, static_files
from webapp.ops import access

WITHOUT_COOKIES = frozenset({"api", "embed"})
"""Blueprints that ignore cookies: API clients send a token, and the form of an upload link carries a signed value."""
FORM_OVERHEAD_BYTES = 1024 * 1024
"""Bytes that a form may hold in addition to the file: its other fields, and the multipart wrapping of each."""


def create_app(settings: Settings | None = None) -> Flask:
    """Create the web app. Raises SettingsWrong if the environment is not usable."""
    settings = settings or loading.load()
    loading.check_web(settings)
    sentry.start(settings)
    tracing.start(settings, "waybill-web")
    app = Flask(__name__, template_folder="../templates", static_folder="../static")
    _configure(app, settings)
    # Each of these may respond before the page does; the first one registered comes first.
    request_log.init_app(app)
    locale.init_app(app)
    access.init_app(app)
    connection = services.init_app(app, settings).queue.connection
    app.config["RATELIMIT_STORAGE_URI"] = "redis://"
    app.config["RATELIMIT_STORAGE_OPTIONS"] = {"connection_pool": connection.connection_pool}
    proxy_faults.init_app(app, without_cookies=WITHOUT_COOKIES)
    _extend(app, settings)
    errors.init_app(app)
    security.init_app(app)
    static_files.init_app(app)
    for package in (text, auth, jobs, accounts, notifications, upload_links, api, ops, monitoring):
        package.init_app(app)
    if settings.proxy_hops:
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign]
            app.wsgi_app, x_for=settings.proxy_hops, x_proto=settings.proxy_hops, x_host=settings.proxy_hops
        )
    path_prefix.init_app(app, settings.app_base_url)
    return app


def _configure(app: Flask, settings: Settings) -> None:
    largest = settings.max_upload_bytes + FORM_OVERHEAD_BYTES
    app.config.update(
        WAYBILL=settings,
        SECRET_KEY=settings.signing_key,
        SECRET_KEY_FALLBACKS=settings.earlier_secret_keys,
        SQLALCHEMY_DATABASE_URI=settings.sqlalchemy_url,
        SQLALCHEMY_ENGINE_OPTIONS=engine_options(settings, "waybill-web"),
        MAX_CONTENT_LENGTH=largest,
        MAX_FORM_MEMORY_SIZE=largest,  # pasted text is a form field; its own limit is checked later, with a message
        SESSION_COOKIE_NAME="session" if settings.waybill_demo else "__Host-session",
        SESSION_COOKIE_SECURE=not settings.waybill_demo,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_REFRESH_EACH_REQUEST=False,  # otherwise an open tab that polls would keep its session alive forever
        PERMANENT_SESSION_LIFETIME=timedelta(days=14),
        WTF_CSRF_TIME_LIMIT=None,
    )


def _extend(app: Flask, settings: Settings) -> None:
    htmx.init_app(app)
    request_body.init_app(app)
    db.init_app(app)
    with app.app_context():
        begin_transactions(db.engine, may_have_session=settings.has_database_session)
    migrate.init_app(app, directory="webapp/migrations")
    csrf.init_app(app)
    login.init_app(app, add_context_processor=False)  # it would query the database for every error page
    login.unauthorized_handler(security.unauthorized)
    limiter.init_app(app)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
