"""What a browser or an API client talks to. Flask lives here, and only here."""

from __future__ import annotations

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from tasks import settings as settings_module
from tasks.database import engine_options
from tasks.settings import Settings
from webapp import models  # noqa: F401  (the tables must be known before anything asks for them)
from webapp.extensions import csrf, db, htmx, limiter, login, migrate


def create_app(settings: Settings | None = None) -> Flask:
    """The one place where the web parts are joined. Raises SettingsWrong when the environment will not do."""
    settings = settings or settings_module.load()
    settings_module.check_web(settings)
    app = Flask(__name__, template_folder="../templates", static_folder="../static")
    _configure(app, settings)
    if settings.proxy_hops:
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign]
            app.wsgi_app, x_for=settings.proxy_hops, x_proto=settings.proxy_hops, x_host=settings.proxy_hops
        )
    htmx.init_app(app)
    db.init_app(app)
    migrate.init_app(app, directory="webapp/migrations")
    csrf.init_app(app)
    login.init_app(app)
    limiter.init_app(app)
    return app


def _configure(app: Flask, settings: Settings) -> None:
    app.config.update(
        WAYBILL=settings,
        SECRET_KEY=settings.secret_key.get_secret_value() if settings.secret_key else "demo only, never on a real site",
        SQLALCHEMY_DATABASE_URI=settings.sqlalchemy_url,
        SQLALCHEMY_ENGINE_OPTIONS=engine_options(settings, "waybill-web"),
    )
