"""Providers of summaries, and the only modules that import an AI SDK.

Every answer becomes an `Answer` or one classified `ProviderError`; nothing else leaves, save cancellation. Nobody here
retries, waits for a retry, or reads the environment (the HTTP client's proxy and certificate variables excepted).
"""

from __future__ import annotations

from tasks.provider.base import Answer, BackgroundProvider, CallProgress, Pending, Prompt, Provider, ProviderError
from tasks.provider.deadline import complete_within, within
from tasks.provider.settings import ProviderSettings


def make_provider(settings: ProviderSettings) -> Provider:
    """The provider that the settings name. Raises ProviderError when it cannot work with them.

    Each is imported when it is asked for: the SDK takes half a second and 40 MB, sumy comes with an extra only.
    """
    if settings.provider == "local":
        from tasks.provider.local import LocalProvider

        return LocalProvider()
    if settings.api == "responses":
        from tasks.provider.openai_background import BackgroundOpenAIProvider

        return BackgroundOpenAIProvider(settings)
    from tasks.provider.openai_api import OpenAIProvider

    return OpenAIProvider(settings)


__all__ = [
    "Answer",
    "BackgroundProvider",
    "CallProgress",
    "Pending",
    "Prompt",
    "Provider",
    "ProviderError",
    "ProviderSettings",
    "complete_within",
    "make_provider",
    "within",
]
