"""The extensions, made once and joined to an app in `create_app`."""

from __future__ import annotations

from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from flask_login import LoginManager
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from flask_wtf.csrf import CSRFProtect  # type: ignore[import-untyped]
from htmx_flask import Htmx
from sqlalchemy.orm import DeclarativeBase

from tasks.ledger.models import Base


class WebBase(DeclarativeBase):
    """The ledger's tables under Flask-SQLAlchemy, which insists on making a base of its own."""

    metadata = Base.metadata


db = SQLAlchemy(model_class=WebBase, session_options={"expire_on_commit": False})
migrate = Migrate(db=db)
csrf = CSRFProtect()
login = LoginManager()
# Counted: sign-in, registration, refused API tokens, notices on demand. Without Redis each process counts for itself.
limiter = Limiter(key_func=get_remote_address, in_memory_fallback_enabled=True, swallow_errors=True)
htmx = Htmx()
