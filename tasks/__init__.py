"""The work after the request: claims, deliveries, provider calls, recovery. Does not import Flask."""

from __future__ import annotations
