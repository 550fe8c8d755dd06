"""Turns the body of an HTTP 200 into an answer, complete or cut off, or one ProviderError.

These look like success but hold no answer: a refusal, a filter, a limit before the first word, a failure, a web page,
an empty string. We read plain JSON and not the SDK's objects, because the SDK checks nothing: for a 200 it returns
a string, None, a list or a model with missing fields, or raises errors of the json module.
"""

from __future__ import annotations

import json
from typing import Any

from tasks.ledger.errors import Category
from tasks.provider.base import Answer, ProviderError, clean_identifier, clean_text
from tasks.provider.error_classifier import verdict_on_status
from tasks.provider.error_codes import ErrorDetails, Verdict, parse_error_body, verdict_on_details

_TextAndVerdict = tuple[str, Verdict | None]

_CUT_OFF: Verdict = (Category.INVALID_REQUEST, "output_limit")
_FILTERED: Verdict = (Category.CONTENT_POLICY, "content_filter")
_REFUSED: Verdict = (Category.CONTENT_POLICY, "refusal")
_UNFINISHED: Verdict = (Category.UNCERTAIN, "unfinished")

_INCOMPLETE: dict[Any, Verdict] = {"max_output_tokens": _CUT_OFF, "content_filter": _FILTERED}
# OpenAI's reasons, and those of Mistral and OpenRouter. Some servers use other words, or none, for "stop".
_FINISH: dict[Any, Verdict] = {
    "length": _CUT_OFF,
    "max_tokens": _CUT_OFF,
    "model_length": _CUT_OFF,
    "content_filter": _FILTERED,
    "error": (Category.UNCERTAIN, "failed"),
}


def read_answer(api: str, body: bytes, *, model: str, request_id: str | None) -> Answer:
    """Return the answer in the body of a 200, also if the provider's limit cut it off, as long as it has text.

    `model` is the requested model, used if the response does not name its own. Raises ProviderError: UNCERTAIN for
    bodies that hold no answer, since the work may be done and billed.
    """
    data = json_object(body)
    if data is None:
        raise _error((Category.UNCERTAIN, "unreadable"), request_id)
    if data.get("error"):
        details = parse_error_body(data)
        raise _error(_verdict_on_reported(details), request_id, details.code or details.type)
    text, verdict = _read_response(data) if api == "responses" else _read_chat(data)
    text = clean_text(text)
    if verdict is None and not text:
        verdict = Category.UNCERTAIN, "empty"
    cut_off = verdict == _CUT_OFF and bool(text)
    if verdict is not None and not cut_off:
        raise _error(verdict, request_id)
    usage = _mapping(data.get("usage"))
    return Answer(
        text=text,
        model=clean_identifier(data.get("model")) or model,
        input_tokens=_count(usage.get("input_tokens", usage.get("prompt_tokens"))),
        output_tokens=_count(usage.get("output_tokens", usage.get("completion_tokens"))),
        request_id=clean_identifier(request_id),
        response_id=clean_identifier(data.get("id")),
        cut_off=cut_off,
    )


def _read_response(data: dict[str, Any]) -> _TextAndVerdict:
    """Return text and verdict of a Responses body. With a verdict, the text counts only if it was cut off."""
    status = data.get("status")
    if status == "failed":
        return "", (Category.UNCERTAIN, "failed")
    items = [_mapping(item) for item in _sequence(data.get("output"))]
    messages = [item for item in items if item.get("type") == "message"]
    parts = [_mapping(part) for message in messages for part in _sequence(message.get("content"))]
    if any(part.get("type") == "refusal" for part in parts):
        return "", _REFUSED
    text = "".join(_text(part.get("text")) for part in parts if part.get("type") == "output_text")
    if status == "incomplete":
        reason = _word(_mapping(data.get("incomplete_details")).get("reason"))
        return text, _INCOMPLETE.get(reason, _UNFINISHED)
    return text, None if status == "completed" or not text else _UNFINISHED


def _read_chat(data: dict[str, Any]) -> _TextAndVerdict:
    """Return text and verdict of a Chat Completions body. With a verdict, the text counts only if it was cut off."""
    choices = _sequence(data.get("choices"))
    choice = _mapping(choices[0] if choices else None)
    message = _mapping(choice.get("message"))
    if message.get("refusal"):
        return "", _REFUSED
    content = message.get("content")
    if isinstance(content, list):  # Mistral's models send parts
        content = "".join(_text(_mapping(part).get("text")) for part in content)
    return _text(content), _FINISH.get(_word(choice.get("finish_reason")))


def _verdict_on_reported(details: ErrorDetails) -> Verdict:
    """Return the verdict on an error inside a 200: by its details, or by the status in its code (OpenRouter)."""
    verdict = verdict_on_details(details)
    if verdict is not None:
        return verdict
    code = details.code
    if code is not None and code.isascii() and code.isdigit() and 400 <= int(code[:4]) < 600:
        return verdict_on_status(int(code[:4]), details)
    return Category.UNCERTAIN, "failed"


def _error(verdict: Verdict, request_id: str | None, error_code: str | None = None) -> ProviderError:
    return ProviderError(*verdict, sent=True, http_status=200, error_code=error_code, request_id=request_id)


def json_object(body: bytes) -> dict[str, Any] | None:
    """Return the JSON object in the body; None for anything else, also for nesting that is too deep for the parser."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    """Return the value if it is a token count that a database integer can hold, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None
