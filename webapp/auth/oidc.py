"""The only module that talks to a sign-in service: OpenID Connect, authorization code with PKCE, state and nonce.

Authlib keeps state, nonce and verifier in the session of the browser that began, and checks the response against them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog
from flask import Flask, Response, request, session

if TYPE_CHECKING:
    from tasks.settings import Settings

log = structlog.get_logger()

NAME = "service"
ANSWERS_WITHIN_SECONDS = 10.0
SIGNED_WITH = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Signature algorithms with a private key.

With any other, anybody who knows our client secret could forge a sign-in.
"""


class NotSignedIn(Exception):
    """Raised if the service is unreachable or its response proves nothing. `code` tells which."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Person:
    """Represents the person who signed in, by the service's unchanging name for them.

    `verified_email` is None if the service has not verified the address.
    """

    issuer: str
    subject: str
    verified_email: str | None


class SignInService:
    """The client of the configured service."""

    def __init__(self, app: Flask, settings: Settings) -> None:
        from authlib.integrations.flask_client import OAuth  # only sites that use it pay for the import

        assert settings.oidc_issuer is not None and settings.oidc_client_secret is not None
        self._issuer = settings.oidc_issuer
        self._client = OAuth(app).register(
            NAME,
            client_id=settings.oidc_client_id,
            client_secret=settings.oidc_client_secret.get_secret_value(),
            server_metadata_url=f"{self._issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": "openid email",
                "code_challenge_method": "S256",
                "default_timeout": ANSWERS_WITHIN_SECONDS,
            },
        )

    def begin(self, redirect_uri: str, *, again: bool) -> Response:
        """Redirect the browser to the service. Raises NotSignedIn.

        `again` makes people prove who they are even if they are signed in there.
        """
        for key in [key for key in session if key.startswith("_state_")]:
            del session[key]  # of abandoned attempts; too many would not fit into a cookie
        more = {"prompt": "login"} if again else {}
        try:
            self._prepare()
            response: Response = self._client.authorize_redirect(redirect_uri, **more)
        except _errors() as error:
            raise self._failure(error) from None
        return response

    def finish(self) -> Person:
        """Return the person who came back with the current request. Raises NotSignedIn."""
        try:
            self._prepare()
            self._check_who_answers(request.args.get("iss"))
            token = self._client.authorize_access_token(
                claims_options={
                    "iss": {"essential": True, "value": self._issuer},
                    "sub": {"essential": True},
                    "nonce": {"essential": True},
                }
            )
            claims = token.get("userinfo")
            if claims is None:  # without an ID token nothing is proven
                raise NotSignedIn("refused")
            return self._person(token, claims)
        except _errors() as error:
            raise self._failure(error) from None

    def _person(self, token: dict[str, Any], claims: dict[str, Any]) -> Person:
        subject = claims["sub"]
        if "email" not in claims and self._client.load_server_metadata().get("userinfo_endpoint"):
            more = self._client.userinfo(token=token)
            claims = more if more.get("sub") == subject else {}
        address = claims.get("email") if claims.get("email_verified") is True else None
        return Person(self._issuer, str(subject), address if isinstance(address, str) else None)

    def _check_who_answers(self, issuer: str | None) -> None:
        """Refuse a response that names another service, or none although the service announces its name (RFC 9207).

        Otherwise an attacked service could have its codes sent here as if they came from ours. Raises NotSignedIn.
        """
        named = self._client.load_server_metadata().get("authorization_response_iss_parameter_supported") is True
        if issuer != self._issuer and (named or issuer is not None):
            raise NotSignedIn("refused")

    def _prepare(self) -> None:
        """Load the service's metadata, once per process. Raises NotSignedIn if it describes another issuer."""
        metadata = self._client.load_server_metadata()
        if metadata.get("issuer") != self._issuer:
            metadata.pop("_loaded_at", None)  # so that it is loaded again once the service is fixed
            raise NotSignedIn("unreachable")
        offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
        metadata["id_token_signing_alg_values_supported"] = [name for name in offered if name in SIGNED_WITH]

    def _failure(self, error: Exception) -> NotSignedIn:
        """Log the type of the error only: its message may contain a code or a token."""
        from requests import RequestException

        if isinstance(error, NotSignedIn):
            failure = error
        else:
            failure = NotSignedIn("unreachable" if isinstance(error, RequestException) else "refused")
        log.warning("sign_in_service.failed", code=failure.code, error=type(error).__name__)
        return failure


def _errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that an external response can cause."""
    from authlib.common.errors import AuthlibBaseError
    from joserfc.errors import JoseError
    from requests import RequestException

    return (NotSignedIn, AuthlibBaseError, JoseError, RequestException, ValueError, KeyError, TypeError, RuntimeError)
