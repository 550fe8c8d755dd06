"""`flask accounts disable`, `enable`, `revoke-tokens`, `demote`: an operator's decisions about one account."""

from __future__ import annotations

from collections.abc import Callable

import click
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from tasks.cli.messages import LONGEST_NOTE, command_line_user
from webapp.accounts.cli import account_of, accounts_cli, database_failed
from webapp.auth import account_access
from webapp.auth.account_access import Deciding, NotDecided
from webapp.database import transaction
from webapp.models import Account
from webapp.services import services
from webapp.text.strings import cut, one_line

Decide = Callable[[Session, Account, Deciding], object]


def _reason(command: Callable[..., None]) -> Callable[..., None]:
    """Add the EMAIL argument and the --reason option that all of these commands take."""
    return click.argument("email")(
        click.option("--reason", required=True, help="Why, kept with the decision.")(command)
    )


@accounts_cli.command("disable")
@_reason
def disable(email: str, reason: str) -> None:
    """Lock an account out: its sessions, API tokens and upload links end at once, and none of its jobs start."""
    address, done = _decide(email, reason, account_access.disable)
    click.echo(f"{address} is disabled." if done else f"{address} was disabled already.")


@accounts_cli.command("enable")
@_reason
def enable(email: str, reason: str) -> None:
    """Let an account in again. Its waiting jobs, API tokens and upload links work again."""
    address, done = _decide(email, reason, account_access.enable)
    click.echo(f"{address} is enabled." if done else f"{address} was not disabled.")


@accounts_cli.command("revoke-tokens")
@_reason
def revoke_tokens(email: str, reason: str) -> None:
    """Revoke all API tokens of an account."""
    address, revoked = _decide(email, reason, account_access.revoke_tokens)
    click.echo(f"{address} had {revoked} API tokens. None is left.")


@accounts_cli.command("demote")
@_reason
def demote(email: str, reason: str) -> None:
    """Take the operator's role from an account. The last operator who can sign in keeps it."""
    address, done = _decide(email, reason, account_access.demote)
    click.echo(f"{address} is no operator any more." if done else f"{address} was no operator.")


def _decide(email: str, reason: str, decide: Decide) -> tuple[str, object]:
    """Apply the decision to the account with this e-mail address.

    Returns the stored address and the result of `decide`. Raises ClickException.
    """
    reason_text = cut(one_line(reason), LONGEST_NOTE)
    if not reason_text:
        raise click.ClickException("Say why: the reason is empty.")
    deciding = Deciding(services().settings.queue_name, by=command_line_user(), reason=reason_text)
    try:
        with transaction() as session:
            account = account_of(session, email)
            address = account.email
            return address, decide(session, account, deciding)
    except NotDecided as refused:
        raise click.ClickException(str(refused)) from None
    except SQLAlchemyError as error:
        raise database_failed(error) from None
