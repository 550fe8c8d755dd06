"""What a provider needs to know before it can make its first call."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

OPENAI_BASE_URL = "https://api.openai.com/v1"


@dataclass(frozen=True)
class ProviderSettings:
    """Refuses a limit that is no limit (zero, negative, NaN, infinite): a stalled call would then never end.

    `base_url` None means OpenAI itself. `connect_timeout_seconds` bounds one attempt to connect to one address,
    `call_seconds` one read or write; neither is the wall-clock budget, which each call brings along. `concurrency`
    is the number of calls in flight.
    """

    provider: Literal["openai", "local"]
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = field(default=None, repr=False)  # may hold a password for a gateway
    api: Literal["responses", "chat"] = "responses"
    model: str = ""
    connect_timeout_seconds: float = 5.0
    call_seconds: float = 120.0
    concurrency: int = 200

    def __post_init__(self) -> None:
        for name in ("connect_timeout_seconds", "call_seconds", "concurrency"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a number above 0, not {value!r}")

    @property
    def calls_at_once(self) -> int:
        """How many calls may run at the same time.

        The local summariser computes under the interpreter lock, where a second thread gains nothing and keeps the
        heartbeat waiting.
        """
        return 1 if self.provider == "local" else self.concurrency
