"""The scripted provider, under the name that tests know. Also: python -m tests.support.fake_provider --port 8099"""

from __future__ import annotations

from tasks.drills.fake_provider import FakeProvider, main

__all__ = ["FakeProvider", "main"]

if __name__ == "__main__":
    main()
