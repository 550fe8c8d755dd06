from __future__ import annotations

from tasks.settings import SettingsWrong
from webapp import create_app

try:
    app = create_app()
except SettingsWrong as wrong:
    raise SystemExit("\n".join(wrong.faults)) from None
