"""A real OpenID Connect provider on loopback. It signs everybody in as the person that a test has set."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

CLIENT, SECRET = "waybill", "the secret of the client"


@dataclass
class SignInService:
    """The provider. `claims` is the person; `wrong` changes the ID token; `key` and `alg` sign it."""

    issuer: str = ""
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "77"})
    more: dict[str, Any] = field(default_factory=dict)  # added by the userinfo endpoint
    wrong: dict[str, Any] = field(default_factory=dict)
    said_issuer: str | None = None
    names_itself: bool = False  # whether it announces that it names itself in responses (RFC 9207)
    named: str | None = None  # the issuer that its responses to a browser name
    key: Any = field(default_factory=lambda: ECKey.generate_key("P-256", {"kid": "1"}))
    shown_key: Any = None
    alg: str = "ES256"
    asked: list[dict[str, str]] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def about(self) -> dict[str, Any]:
        return {
            "issuer": self.said_issuer or self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/me",
            "id_token_signing_alg_values_supported": ["ES256", "HS256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            **({"authorization_response_iss_parameter_supported": True} if self.names_itself else {}),
        }

    def authorize(self, asked: dict[str, str]) -> str:
        """Return the URL to which the browser is redirected."""
        self.asked.append(asked)
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        answer = {"code": code, "state": asked["state"]}
        if self.named is not None:
            answer["iss"] = self.named
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def token(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """Return the tokens for a code, once, to the client that it was issued for; else None."""
        asked = self.codes.pop(form.get("code", ""), None)
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".replace(" ", "+").encode()).decode()
        plain = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if asked is None or authorization not in (f"Basic {basic}", f"Basic {plain}"):
            return None
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if asked["code_challenge"] != base64.urlsafe_b64encode(digest).rstrip(b"=").decode():
            return None
        if form.get("redirect_uri") != asked["redirect_uri"]:
            return None
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims |= {**self.claims, **self.wrong}
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": self.alg, **({"kid": "1"} if self.alg == "ES256" else {})}
        id_token = jwt.encode(header, claims, self.key, algorithms=[self.alg])
        return {"access_token": "an access token", "token_type": "Bearer", "expires_in": 300, "id_token": id_token}

    def sign_with_the_clients_secret(self) -> None:
        """Sign as somebody would who knows the client's secret but no key of the service."""
        self.shown_key, self.key, self.alg = self.key, OctKey.import_key(SECRET), "HS256"


@contextmanager
def sign_in_service() -> Iterator[SignInService]:
    """Listen while the block runs."""
    service = SignInService()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            if address.path == "/authorize":
                asked = {name: values[0] for name, values in parse_qs(address.query).items()}
                self.send_response(302)
                self.send_header("location", service.authorize(asked))
                self.send_header("content-length", "0")
                self.end_headers()
                return
            shown = service.shown_key or service.key
            answers = {
                "/.well-known/openid-configuration": service.about(),
                "/keys": {"keys": [shown.as_dict(private=False)]},
                "/me": {"sub": service.claims["sub"], **service.more},
            }
            self._say(answers.get(address.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._say(service.token(form, self.headers.get("authorization", "")))

        def _say(self, answer: dict[str, Any] | None) -> None:
            body = json.dumps({"error": "invalid_grant"} if answer is None else answer).encode()
            self.send_response(400 if answer is None else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: tests read the requests themselves."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
