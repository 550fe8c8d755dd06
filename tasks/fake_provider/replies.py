"""Builds the responses of an OpenAI-compatible provider: answers and errors in the formats of both of its APIs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

DEFAULT_TEXT = "The document describes a plan. It will be carried out next year."
HTML = b"<!doctype html><title>Just a moment...</title><h1>Checking your browser</h1>"


@dataclass
class Reply:
    """Represents an HTTP response."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


def chat(text: Any, finish: Any = "stop", **message: Any) -> dict[str, Any]:
    """Return a Chat Completions answer."""
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "fake-1",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": text, "refusal": None, **message},
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def response(text: Any, status: str = "completed", reason: str | None = None, **changes: Any) -> dict[str, Any]:
    """Return a Responses answer; `reason` says why it is incomplete, and `text` None leaves the message out."""
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "msg-fake", "type": "message", "role": "assistant", "status": status, "content": [part]}
    return {
        "id": "resp-fake",
        "object": "response",
        "created_at": 1700000000,
        "model": "fake-1",
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [] if text is None else [{"id": "rs-fake", "type": "reasoning", "summary": []}, message],
        "usage": {
            "input_tokens": 11,
            "output_tokens": 7,
            "total_tokens": 18,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
        **changes,
    }


def refused_response() -> dict[str, Any]:
    answer = response("")
    answer["output"][1]["content"] = [{"type": "refusal", "refusal": "I can't help with that."}]
    return answer


def null_message() -> dict[str, Any]:
    answer = chat("")
    answer["choices"][0]["message"] = None
    return answer


def failed(code: str) -> dict[str, Any]:
    """Return a Responses answer that failed with this code; its HTTP status is still 200."""
    return response(None, "failed", error={"code": code, "message": "It failed (fake)."})


def error(status: int, step: dict[str, Any], **defaults: Any) -> Reply:
    """Return an error with OpenAI's body, or with the step's own `body` (text, or any JSON value)."""
    headers = dict(step.get("headers") or {})
    if "body" in step:
        body = step["body"]
        raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        return Reply(
            status, raw, step.get("ctype", "text/html" if isinstance(body, str) else "application/json"), headers
        )
    words = {"message": "It went wrong (fake).", "type": None, "param": None, "code": None, **defaults}
    for theirs, ours in (("message", "message"), ("type", "type"), ("code", "err")):
        words[theirs] = step.get(ours, words[theirs])
    return Reply(status, json.dumps({"error": words}).encode(), headers=headers)


def rate_limit(step: dict[str, Any]) -> Reply:
    """Return a 429 with `retry_after` (seconds or a date), `retry_after_ms`, or neither."""
    reply = error(429, step, message="Rate limit reached (fake).", type="requests", code="rate_limit_exceeded")
    for key, header in (("retry_after", "Retry-After"), ("retry_after_ms", "Retry-After-Ms")):
        if key in step:
            reply.headers[header] = str(step[key])
    return reply


def reply_for(step: dict[str, Any], path: str, request: bytes, authorization: str) -> Reply | None:
    """Return the response of a step whose mode is a plain response; None for other modes."""
    is_chat = path.endswith("/chat/completions")
    text = step.get("text", DEFAULT_TEXT)
    mode = step["mode"]
    if mode in ("ok", "raw", "gate", "drip", "drip_headers"):
        answer = chat(text) if is_chat else response(text)
        return _json({**answer, "model": step.get("model", answer["model"])})
    if mode == "echo":
        text = _last_characters_asked(request, step.get("characters", 300))
        return _json(chat(text) if is_chat else response(text))
    if mode in _ERRORS:
        status, words = _ERRORS[mode]
        return error(status, step, **words)
    if mode == "auth":  # it quotes the key, as the real provider does
        return error(401, step, code="invalid_api_key", message=f"Incorrect API key provided: {authorization}")
    if mode == "rate":
        return rate_limit(step)
    if mode == "status":
        return error(step["code"], step)
    if mode == "redirect":
        return Reply(step.get("code", 307), b"", headers={"Location": step["to"]})
    if mode in _BYTES:
        return _BYTES[mode]
    other = _answers(mode, step, text, is_chat)
    return None if other is None else _json(other)


_ERRORS: dict[str, tuple[int, dict[str, Any]]] = {
    "quota": (429, {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your quota."}),
    "overloaded": (503, {"type": "service_unavailable_error", "message": "Overloaded (fake)."}),
    "context": (
        400,
        {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "Too long (fake)."},
    ),
}

_BYTES = {
    "html200": Reply(200, HTML, "text/html"),
    "text200": Reply(200, b"unsupported model: fake-1", "text/plain"),
    "empty200": Reply(200, b""),
    "badjson": Reply(200, b'{"choices": [{"message": {"content": "cut of'),
    "badutf8": Reply(200, b'{"text": "\xff\xfe\xff"}'),
    "badgzip": Reply(200, b"this is not gzip", headers={"Content-Encoding": "gzip"}),
    "null200": Reply(200, b"null"),
    "list200": Reply(200, b"[1]"),
    "string200": Reply(200, b'"hi"'),
    "obj200": Reply(200, b"{}"),
}


def _answers(mode: str, step: dict[str, Any], text: str, is_chat: bool) -> dict[str, Any] | None:
    """Return an answer that has status 200 but is no success; None for other modes."""
    if mode == "failed":
        return failed(step.get("err", "server_error"))
    if mode == "error200":
        return {"error": {"message": "It went wrong (fake).", "code": step.get("err"), "type": step.get("type")}}
    if mode == "status200":  # any other status of a Responses answer
        return response(None, step["status"])
    answers = {
        "length": (chat(text, "length"), response(text, "incomplete", "max_output_tokens")),
        "length_empty": (chat(None, "length"), response(None, "incomplete", "max_output_tokens")),
        "refusal": (chat(None, refusal="I can't help with that."), refused_response()),
        "filter": (chat("Partial", "content_filter"), response("Partial", "incomplete", "content_filter")),
        "nochoices": ({**chat(""), "choices": []}, response(None)),
        "nullmessage": (null_message(), response(None)),
        "blank": (chat(" \n"), response(" \n")),
    }
    return answers[mode][0 if is_chat else 1] if mode in answers else None


def _last_characters_asked(request: bytes, characters: int) -> str:
    try:
        parsed = json.loads(request)
        prompt = parsed["messages"][-1]["content"] if "messages" in parsed else parsed["input"]
        return str(prompt)[-characters:]
    except (ValueError, KeyError, TypeError, LookupError):
        return "unreadable request"


def _json(answer: dict[str, Any]) -> Reply:
    return Reply(200, json.dumps(answer).encode())
