from __future__ import annotations

import os
import sys

from tasks.database import Database
from tasks.observability import logs
from tasks.settings import SettingsWrong
from tasks.startup.loading import load
from webapp import create_app

# Commands (`flask …`) write their answer to stdout, so only the web process may log there.
logs.configure(sys.stderr if "FLASK_RUN_FROM_CLI" in os.environ else sys.stdout)
try:
    settings = load()
    app = create_app(settings)
    database = Database(settings, "waybill-start")
    database.require()
    database.close()
except SettingsWrong as wrong:
    raise SystemExit("\n".join(wrong.problems)) from None
