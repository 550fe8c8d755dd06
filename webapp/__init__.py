"""What a browser or an API client talks to. Flask lives here, and only here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flask import Flask, g
from flask_login import current_user
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.middleware.proxy_fix import ProxyFix

from tasks import sentry, traces
from tasks import settings as settings_module
from tasks.database import end_forsaken_transactions, engine_options
from tasks.settings import Settings
from webapp import (
    account_commands,  # noqa: F401 (adds its commands to those for accounts)
    accounts,
    api,
    api_docs,
    as_text,
    assets,
    bodies,
    cost_words,
    documents,
    embed,
    errors,
    front_faults,
    health,
    jobs,
    languages,
    limit_commands,  # noqa: F401 (adds its command to those for accounts)
    measures,
    metrics,
    models,
    moments,
    my_upload_links,
    notice_words,
    notices,
    operators,
    ops,
    ops_accounts,
    ops_decisions,
    ops_invitations,
    ops_replays,
    own_account,  # noqa: F401 (adds its pages to those of accounts)
    parts,
    prefix,
    provenance,
    queue_dashboard,
    registration,  # noqa: F401 (as above)
    render,
    request_log,
    resetting,  # noqa: F401 (as above)
    security,
    sessions,
    single_sign_on,  # noqa: F401 (as above)
    upload_links_api,  # noqa: F401 (adds its routes to the API)
    wording,
    work_words,
)
from webapp.cli import accounts_cli
from webapp.extensions import csrf, db, htmx, limiter, login, migrate

WITHOUT_COOKIES = (api.api, embed.embed)
"""Where no cookie counts: programs send a token, and the form of an upload link brings a proof of its own."""
FORM_OVERHEAD_BYTES = 1024 * 1024
"""What a form may hold besides the file: its other fields, and the wrapping of each."""


def create_app(settings: Settings | None = None) -> Flask:
    """The one place where the web parts are joined. Raises SettingsWrong when the environment will not do."""
    settings = settings or settings_module.load()
    settings_module.check_web(settings)
    sentry.start(settings)
    traces.start(settings, "waybill-web")
    app = Flask(__name__, template_folder="../templates", static_folder="../static")
    _configure(app, settings)
    request_log.init_app(app)
    languages.init_app(app)
    operators.init_app(app)
    joined = parts.join(app, settings)
    app.config["RATELIMIT_STORAGE_URI"] = "redis://"
    app.config["RATELIMIT_STORAGE_OPTIONS"] = {"connection_pool": joined.queue.connection.connection_pool}
    front_faults.init_app(app, without_cookies={blueprint.name for blueprint in WITHOUT_COOKIES})
    _extend(app)
    errors.init_app(app)
    security.init_app(app)
    assets.init_app(app)
    _furnish_templates(app)
    pages = (
        jobs.jobs,
        documents.documents,
        accounts.accounts,
        notices.notices,
        my_upload_links.my_upload_links,
        embed.embed,
        api_docs.api_docs,
    )
    for_operators = (
        ops.ops,
        ops_accounts.ops_accounts,
        ops_decisions.ops_decisions,
        ops_replays.ops_replays,
        ops_invitations.ops_invitations,
    )
    for blueprint in (*pages, *for_operators, api.api, health.health, metrics.metrics):
        app.register_blueprint(blueprint)
    if settings.rq_dashboard_enabled:
        queue_dashboard.init_app(app, joined)
    for blueprint in WITHOUT_COOKIES:
        csrf.exempt(blueprint)
    app.cli.add_command(accounts_cli)
    app.after_request(sessions.keep_fresh)
    if settings.proxy_hops:
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign]
            app.wsgi_app, x_for=settings.proxy_hops, x_proto=settings.proxy_hops, x_host=settings.proxy_hops
        )
    prefix.init_app(app, settings.app_base_url)
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
        MAX_FORM_MEMORY_SIZE=largest,  # pasted text is a field of the form; its own limit is checked in words
        SESSION_COOKIE_NAME="session" if settings.waybill_demo else "__Host-session",
        SESSION_COOKIE_SECURE=not settings.waybill_demo,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_REFRESH_EACH_REQUEST=False,  # else an open tab that polls would keep its session for ever
        PERMANENT_SESSION_LIFETIME=timedelta(days=14),
        WTF_CSRF_TIME_LIMIT=None,
    )


def _extend(app: Flask) -> None:
    htmx.init_app(app)
    bodies.init_app(app)
    db.init_app(app)
    with app.app_context():
        end_forsaken_transactions(db.engine)
    migrate.init_app(app, directory="webapp/migrations")
    csrf.init_app(app)
    login.init_app(app, add_context_processor=False)  # it would ask the database for every error page
    login.unauthorized_handler(security.unauthorized)
    limiter.init_app(app)


def _furnish_templates(app: Flask) -> None:
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(
        summary_html=render.summary_html,
        plain_text=as_text.as_text,
        duration=measures.duration_in_words,
        size=measures.size_in_words,
        clock_in_words=moments.clock_in_words,
        day_in_words=moments.day_in_words,
        counted=wording.counted,
        kind_label=provenance.kind_label,
        workflow_title=work_words.title_of,
        mid_sentence=work_words.mid_sentence,
        usage=cost_words.usage_in_words,
        why_not_sent=notice_words.why_not_sent,
    )
    app.jinja_env.globals["now"] = lambda: datetime.now(UTC)
    app.context_processor(lambda: {"viewer": _viewer()})


def _viewer() -> models.Account | None:
    """Whoever is signed in, for the top of the page; None also where the database cannot say."""
    try:
        if g.get("nobody") or not current_user.is_authenticated:
            return None
    except SQLAlchemyError:
        g.nobody = True
        return None
    account: models.Account = current_user._get_current_object()
    return account
