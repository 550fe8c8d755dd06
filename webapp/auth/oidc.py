"""The one module that speaks to a sign-in service: OpenID Connect, authorization code with PKCE, state and nonce.

Authlib keeps state, nonce and verifier in the session of the browser that began, and checks the answer against them.
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
"""Signatures that only the service can make. With any other, whoever knows a secret of ours could be anybody."""


class NotSignedIn(Exception):
    """The service cannot be reached, or what came from it proves nothing. `code` says which, in a word."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Person:
    """Who signed in: the service's name for them, which never changes, and their address, None if it is unverified."""

    issuer: str
    subject: str
    verified_email: str | None


class SignInService:
    """The service that the settings name."""

    def __init__(self, app: Flask, settings: Settings) -> None:
        from authlib.integrations.flask_client import OAuth  # only a site that has such a service pays for it

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
        """Send the browser there. `again`: even who is signed in there shows anew who they are. Raises NotSignedIn."""
        for key in [key for key in session if key.startswith("_state_")]:
            del session[key]  # of tries that were left; too many would not fit into a cookie
        more = {"prompt": "login"} if again else {}
        try:
            self._prepare()
            answer: Response = self._client.authorize_redirect(redirect_uri, **more)
        except _errors() as error:
            raise self._told(error) from None
        return answer

    def finish(self) -> Person:
        """Who came back, by the request that is being answered. Raises NotSignedIn."""
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
            raise self._told(error) from None

    def _person(self, token: dict[str, Any], claims: dict[str, Any]) -> Person:
        subject = claims["sub"]
        if "email" not in claims and self._client.load_server_metadata().get("userinfo_endpoint"):
            more = self._client.userinfo(token=token)
            claims = more if more.get("sub") == subject else {}
        address = claims.get("email") if claims.get("email_verified") is True else None
        return Person(self._issuer, str(subject), address if isinstance(address, str) else None)

    def _check_who_answers(self, issuer: str | None) -> None:
        """Refuse an answer that names another service, or none where ours says that it names itself (RFC 9207).

        Else a service that is under attack could have its codes sent to us as those of ours. Raises NotSignedIn.
        """
        named = self._client.load_server_metadata().get("authorization_response_iss_parameter_supported") is True
        if issuer != self._issuer and (named or issuer is not None):
            raise NotSignedIn("refused")

    def _prepare(self) -> None:
        """Read what the service says of itself, once a process. It must be the one that was asked."""
        said = self._client.load_server_metadata()
        if said.get("issuer") != self._issuer:
            said.pop("_loaded_at", None)  # so that it is asked again once that is put right
            raise NotSignedIn("unreachable")
        offered = said.get("id_token_signing_alg_values_supported") or ["RS256"]
        said["id_token_signing_alg_values_supported"] = [name for name in offered if name in SIGNED_WITH]

    def _told(self, error: Exception) -> NotSignedIn:
        """Note the sort of error; its message may hold a code or a token."""
        from requests import RequestException

        if isinstance(error, NotSignedIn):
            told = error
        else:
            told = NotSignedIn("unreachable" if isinstance(error, RequestException) else "refused")
        log.warning("sign_in_service.failed", code=told.code, error=type(error).__name__)
        return told


def _errors() -> tuple[type[Exception], ...]:
    """What can go wrong with an answer from outside."""
    from authlib.common.errors import AuthlibBaseError
    from joserfc.errors import JoseError
    from requests import RequestException

    return (NotSignedIn, AuthlibBaseError, JoseError, RequestException, ValueError, KeyError, TypeError, RuntimeError)
