"""The words about accounts: signing in, registering, passwords, invitations, sign-in services."""

from __future__ import annotations

from collections.abc import Mapping

ALREADY_THERE = "There is an account with this address already. Sign in instead."
FORM_TOO_OLD = "The form was open for too long, or cookies are switched off. Send it again."
WRONG = "The address or the password is wrong."
NO_ADDRESS = "This is not a complete e-mail address."

NOT_YOUR_PASSWORD = "This is not the password of your account. Nothing was changed."
SHOW_WHO_YOU_ARE = "Sign in once more first, with the button above. Nothing was changed."
PASSWORD_CHANGED = "Your password has been changed. Everywhere but here you are signed out."
CHANGED_MEANWHILE = "Your password was changed elsewhere in the meantime. Sign in with the new one."
SIGNED_OUT_EVERYWHERE = "You are signed out everywhere. API tokens go on working until you revoke them."
EXPORT_UNDER_WAY = "An export is under way already. When it has ended, you can have another one."
EXPORTS_FULL = "Several people are exporting right now. Try again in a few minutes."

RESET_LINK_OVER = "This link has been used, is too old or incomplete. Ask for a new one."
RESET_DONE = "Your password has been changed, and you are signed out everywhere. Sign in with the new one."
RESET_TOOK_BACK = (
    "Nobody had shown before that this address is theirs. So API tokens, upload links, webhook and sign-in services of "
    "this account were removed too."
)
REGISTRATION_LINK_OVER = "This link is too old or incomplete. Register again, and a new one is sent."
INVITATION_OVER = "This invitation has been used, has expired, was withdrawn, or is incomplete. Ask for a new one."
INVITED_OTHER = "This invitation is for {address}."

INVITED_WRONG_DAYS = "Write a number of days from 1 to {most}."
INVITATION_WITHDRAWN = "The invitation has been withdrawn. Its link opens nothing any more."

SERVICE_LINKED = "You can sign in with {label} from now on."
SERVICE_REMOVED = "Signing in with {label} has been switched off for your account."
KEEP_A_WAY_IN = "Set a password first. Without one, this is the only way into your account."

_REFUSED: Mapping[str, str] = {
    "unreachable": "{label} could not be reached. Try again in a minute.",
    "refused": "Signing in with {label} did not work, or was cancelled. Try again.",
    "unverified": "{label} has not verified an e-mail address of yours, so it cannot open an account here.",
    "link_first": "There is an account with your address already. Sign in with its password; then you can switch on "
    "{label} on the page of your account.",
    "closed": "You have no account here yet, and this site takes no new ones by itself. Ask its operator.",
    "others": "This identity at {label} opens another account here. Nothing was changed.",
}


def refused_by_service(code: str, label: str) -> str:
    """Why somebody could not sign in with a service."""
    return _REFUSED[code].format(label=label)
