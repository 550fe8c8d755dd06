"""Tests the scripted provider as a separate process, as tests with real workers use it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from typing import Any

PROXYLESS = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with PROXYLESS.open(urllib.request.Request(url, data, {"Content-Type": "application/json"}), timeout=10) as answer:
        return json.load(answer)


def test_process_is_steered_over_http_and_ends_on_sigterm() -> None:
    command = [sys.executable, "-m", "tasks.fake_provider", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            base_url = process.stdout.readline().strip()
            root = base_url.removesuffix("/v1")
            ask(f"{root}/_script", [{"mode": "ok", "text": "first"}, {"mode": "gate", "text": "later"}])
            ask(f"{root}/_script", {"marker": "MARKED", "steps": [{"mode": "echo", "characters": 5}]})
            ask(f"{root}/_release", {"gate": "default"})
            texts = [
                ask(f"{base_url}/chat/completions", {"messages": [{"role": "user", "content": content}]})
                for content in ("plain", "MARKED: abcde", "plain")
            ]
            assert [answer["choices"][0]["message"]["content"] for answer in texts] == ["first", "abcde", "later"]
            assert [seen["mode"] for seen in ask(f"{root}/_log")] == ["ok", "echo", "gate"]
            ask(f"{root}/_reset", {})
            assert ask(f"{root}/_log") == []
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
