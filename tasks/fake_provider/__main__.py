"""python -m tasks.fake_provider --port 8099"""

from __future__ import annotations

from tasks.fake_provider import main

if __name__ == "__main__":
    main()
