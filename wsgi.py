from __future__ import annotations

from tasks import logs
from tasks.database import Database
from tasks.settings import SettingsWrong, load
from webapp import create_app

logs.configure()
try:
    settings = load()
    app = create_app(settings)
    database = Database(settings, "waybill-start")
    database.require()
    database.close()
except SettingsWrong as wrong:
    raise SystemExit("\n".join(wrong.faults)) from None
