"""Loads the settings, and refuses those that cannot work together, naming each of them."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from tasks.settings import MINIMUM_SECRET_LENGTH, SAMPLE_SECRETS, Settings, SettingsWrong, connection_urls
from tasks.settings.prices import PricesWrong, parse_prices
from tasks.startup import notifications, sign_in, timeouts


def load() -> Settings:
    """Return the settings of this process, from its environment. Raises SettingsWrong, which names every problem."""
    try:
        settings = Settings()
    except ValidationError as error:
        raise SettingsWrong([_sentence(problem) for problem in error.errors(include_input=False)]) from None
    problems = [
        *connection_urls.problems(settings),
        *_provider_problems(settings),
        *_price_problems(settings),
        *_monitoring_problems(settings),
        *timeouts.problems(settings),
        *notifications.problems(settings),
        *sign_in.problems(settings),
    ]
    if problems:
        raise SettingsWrong(problems)
    return settings


def check_web(settings: Settings) -> None:
    """Check the settings that only the web process needs: a secret key and https. Raises SettingsWrong."""
    if settings.waybill_demo:
        return
    plain_http = None if settings.app_base_url is None else connection_urls.plain_http_fault(settings.app_base_url)
    if plain_http is not None:
        raise SettingsWrong([plain_http])
    secret = "" if settings.secret_key is None else settings.secret_key.get_secret_value().strip()
    if not secret:
        raise SettingsWrong(["SECRET_KEY is missing. Set it to a long random text, the same for every web process."])
    for name, keys in (("SECRET_KEY", [secret]), ("SECRET_KEY_FALLBACKS", settings.earlier_secret_keys)):
        if any(len(key) < MINIMUM_SECRET_LENGTH or key.lower() in SAMPLE_SECRETS for key in keys):
            raise SettingsWrong(
                [f"{name} is too short or a sample. Use at least {MINIMUM_SECRET_LENGTH} random characters."]
            )


def _sentence(problem: Any) -> str:
    name = str(problem["loc"][0]).upper() if problem["loc"] else "settings"
    return f"{name} is missing." if problem["type"] == "missing" else f"{name}: {problem['msg'].lower()}."


def _provider_problems(settings: Settings) -> list[str]:
    if settings.ai_provider == "openai" and settings.openai_api_key is None:
        return ["OPENAI_API_KEY is missing. Set it, or set AI_PROVIDER=local to run without an AI service."]
    if settings.openai_background and (settings.ai_provider, settings.openai_api) != ("openai", "responses"):
        return ["OPENAI_BACKGROUND=1 needs AI_PROVIDER=openai and OPENAI_API=responses. Change one of the three."]
    return []


def _price_problems(settings: Settings) -> list[str]:
    try:
        parse_prices(settings.model_prices)
    except PricesWrong as wrong:
        return [f"MODEL_PRICES: {wrong}. Write it like gpt-5-mini=0.25/2.00,other=1/4, or leave it empty."]
    return []


def _monitoring_problems(settings: Settings) -> list[str]:
    problems = []
    token = settings.metrics_token
    if token is not None and len(token.get_secret_value()) < MINIMUM_SECRET_LENGTH:
        problems.append(f"METRICS_TOKEN is too short. Use at least {MINIMUM_SECRET_LENGTH} random characters.")
    endpoint = settings.otel_exporter_otlp_endpoint
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        problems.append("OTEL_EXPORTER_OTLP_ENDPOINT must start with http:// or https://.")
    return problems
