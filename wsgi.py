from __future__ import annotations

from webapp import create_app

app = create_app()
