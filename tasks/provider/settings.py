"""The settings of a provider."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

OPENAI_BASE_URL = "https://api.openai.com/v1"


@dataclass(frozen=True)
class ProviderSettings:
    """Holds the settings of a provider.

    `base_url` None means OpenAI itself. `connect_timeout_seconds` limits one attempt to connect to one address,
    `call_seconds` one read or write; neither is the wall-clock budget, which every call has as a parameter.
    `concurrency` is the maximum number of calls in flight. Raises ValueError for a limit that is zero, negative, NaN or
    infinite, because a stalled call would then never end.
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
        """Return the number of calls that may run at the same time.

        The local summariser gets one: it computes under the interpreter lock, where a second thread gains nothing and
        delays the heartbeat.
        """
        return 1 if self.provider == "local" else self.concurrency
