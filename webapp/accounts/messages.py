"""The words about accounts: signing in, registering, passwords, invitations, sign-in services."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.i18n import _, lazy, ngettext

ALREADY_THERE = lazy("There is already an account with this address. Sign in instead.")
FORM_TOO_OLD = lazy("The form was open for too long, or cookies are turned off. Send it again.")
WRONG = lazy("Wrong e-mail address or password.")
DISABLED = lazy("This account is disabled. Nothing in it was deleted. Contact the operator of this site.")
NO_ADDRESS = lazy("This is not a complete e-mail address.")

NOT_YOUR_PASSWORD = lazy("Wrong password. Nothing was changed.")
SHOW_WHO_YOU_ARE = lazy("Sign in again first, with the button above. Nothing was changed.")
PASSWORD_CHANGED = lazy("Your password has been changed. You have been signed out on all other devices.")
CHANGED_MEANWHILE = lazy("Your password was changed elsewhere in the meantime. Sign in with the new one.")
SIGNED_OUT_EVERYWHERE = lazy("You are signed out everywhere. API tokens keep working until you revoke them.")
EXPORT_UNDER_WAY = lazy("An export is already running. You can start another when it finishes.")
EXPORTS_FULL = lazy("Several people are exporting right now. Try again in a few minutes.")

RESET_LINK_OVER = lazy("This link has been used, has expired or is incomplete. Request a new one.")
RESET_DONE = lazy("Your password has been changed, and you are signed out everywhere. Sign in with the new one.")
RESET_TOOK_BACK = lazy(
    "This e-mail address had never been confirmed. To be safe, we also removed the API tokens, upload links, webhook "
    "and sign-in services of this account."
)
REGISTRATION_LINK_OVER = lazy("This link has expired or is incomplete. Register again to get a new one.")
INVITATION_OVER = lazy("This invitation has been used, has expired, was revoked, or is incomplete. Ask for a new one.")

INVITED_WRONG_DAYS = "Enter a number of days from 1 to {most}."
INVITATION_WITHDRAWN = "The invitation has been revoked. Its link no longer works."

NAME_THE_TOKEN = lazy("Give the token a name, so you can tell later what uses it.")
KEEP_A_WAY_IN = lazy("Set a password first. Without one, this is the only way into your account.")

_REFUSED: Mapping[str, str] = {
    "unreachable": lazy("%(label)s could not be reached. Try again in a minute."),
    "refused": lazy("Signing in with %(label)s did not work, or was cancelled. Try again."),
    "unverified": lazy(
        "%(label)s has not verified your e-mail address, so you can’t use it to create an account here."
    ),
    "link_first": lazy(
        "There is already an account with your address. Sign in with its password, then connect %(label)s on your "
        "account page."
    ),
    "closed": lazy("You don’t have an account yet, and this site is invitation-only. Ask its operator."),
    "disabled": lazy("Your account here is disabled. Nothing in it was deleted. Contact the operator of this site."),
    "others": lazy("Your %(label)s sign-in is already connected to another account here. Nothing was changed."),
}


def invited_other(address: str) -> str:
    return _("This invitation is for %(address)s.", address=address)


def service_linked(label: str) -> str:
    return _("You can now sign in with %(label)s.", label=label)


def service_removed(label: str) -> str:
    return _("%(label)s has been disconnected from your account.", label=label)


def tokens_revoked(count: int) -> str:
    return ngettext("Your API token has been revoked.", "Your %(num)s API tokens have been revoked.", count, num=count)


def too_many_tokens(most: int) -> str:
    return _("You already have %(most)s tokens. Revoke one first.", most=most)


def refused_by_service(code: str, label: str) -> str:
    """Return why a person could not sign in with a service."""
    return _REFUSED[code] % {"label": label}
