"""Tests that docs/settings.md agrees with the settings."""

from __future__ import annotations

import pytest

from tasks.__main__ import main
from tasks.settings import Settings, docs
from tests.support.factories import ROOT

PAGE = ROOT / "docs" / "settings.md"


def test_the_page_is_made_from_the_settings_of_today(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert main(["settings"]) == 0
    assert capsys.readouterr().out == PAGE.read_text(), "run: make settings"


def test_every_setting_is_described_in_a_sentence() -> None:
    descriptions = {name: field.description or "" for name, field in Settings.model_fields.items()}
    assert [name for name, words in descriptions.items() if len(words) < 15 or not words.endswith(".")] == []
    for name in Settings.model_fields:
        assert f"| `{name.upper()}` |" in docs.page()
