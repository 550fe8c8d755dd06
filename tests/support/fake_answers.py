"""The scripted provider's answers, under the name that tests know."""

from __future__ import annotations

from tasks.drills.fake_answers import chat, response

__all__ = ["chat", "response"]
