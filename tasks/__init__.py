"""What happens after the request: claims, deliveries, provider calls, recovery. Knows nothing of Flask."""

from __future__ import annotations
