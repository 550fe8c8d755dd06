"""The words about accounts: signing in, registering, passwords, invitations, sign-in services."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.i18n import _, lazy, ngettext

ALREADY_THERE = lazy("There is an account with this address already. Sign in instead.")
FORM_TOO_OLD = lazy("The form was open for too long, or cookies are switched off. Send it again.")
WRONG = lazy("The address or the password is wrong.")
DISABLED = lazy("This account is disabled. Nothing in it was deleted. Ask whoever runs this site.")
NO_ADDRESS = lazy("This is not a complete e-mail address.")

NOT_YOUR_PASSWORD = lazy("This is not the password of your account. Nothing was changed.")
SHOW_WHO_YOU_ARE = lazy("Sign in once more first, with the button above. Nothing was changed.")
PASSWORD_CHANGED = lazy("Your password has been changed. Everywhere but here you are signed out.")
CHANGED_MEANWHILE = lazy("Your password was changed elsewhere in the meantime. Sign in with the new one.")
SIGNED_OUT_EVERYWHERE = lazy("You are signed out everywhere. API tokens go on working until you revoke them.")
EXPORT_UNDER_WAY = lazy("An export is under way already. When it has ended, you can have another one.")
EXPORTS_FULL = lazy("Several people are exporting right now. Try again in a few minutes.")

RESET_LINK_OVER = lazy("This link has been used, is too old or incomplete. Ask for a new one.")
RESET_DONE = lazy("Your password has been changed, and you are signed out everywhere. Sign in with the new one.")
RESET_TOOK_BACK = lazy(
    "Nobody had shown before that this address is theirs. So API tokens, upload links, webhook and sign-in services of "
    "this account were removed too."
)
REGISTRATION_LINK_OVER = lazy("This link is too old or incomplete. Register again, and a new one is sent.")
INVITATION_OVER = lazy(
    "This invitation has been used, has expired, was withdrawn, or is incomplete. Ask for a new one."
)

INVITED_WRONG_DAYS = "Write a number of days from 1 to {most}."
INVITATION_WITHDRAWN = "The invitation has been withdrawn. Its link opens nothing any more."

NAME_THE_TOKEN = lazy("Give the token a name, so that you know later what uses it.")
KEEP_A_WAY_IN = lazy("Set a password first. Without one, this is the only way into your account.")

_REFUSED: Mapping[str, str] = {
    "unreachable": lazy("%(label)s could not be reached. Try again in a minute."),
    "refused": lazy("Signing in with %(label)s did not work, or was cancelled. Try again."),
    "unverified": lazy("%(label)s has not verified an e-mail address of yours, so it cannot open an account here."),
    "link_first": lazy(
        "There is an account with your address already. Sign in with its password; then you can switch on "
        "%(label)s on the page of your account."
    ),
    "closed": lazy("You have no account here yet, and this site takes no new ones by itself. Ask its operator."),
    "disabled": lazy("Your account here is disabled. Nothing in it was deleted. Ask whoever runs this site."),
    "others": lazy("This identity at %(label)s opens another account here. Nothing was changed."),
}


def invited_other(address: str) -> str:
    return _("This invitation is for %(address)s.", address=address)


def service_linked(label: str) -> str:
    return _("You can sign in with %(label)s from now on.", label=label)


def service_removed(label: str) -> str:
    return _("Signing in with %(label)s has been switched off for your account.", label=label)


def tokens_revoked(count: int) -> str:
    return ngettext("Your API token has been revoked.", "Your %(num)s API tokens have been revoked.", count, num=count)


def too_many_tokens(most: int) -> str:
    return _("There are %(most)s tokens already. Revoke one first.", most=most)


def refused_by_service(code: str, label: str) -> str:
    """Why somebody could not sign in with a service."""
    return _REFUSED[code] % {"label": label}
