"""`flask accounts …`: manages accounts from a terminal.

Exit codes: 0 done, 1 refused (one line on stderr says why), 2 the command was called wrongly.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

import click
from flask.cli import AppGroup
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from tasks.cli.messages import LONGEST_NOTE, command_line_user
from webapp.accounts import forms
from webapp.auth import account_access, api_tokens, email_addresses, invitations
from webapp.auth.account_access import Deciding
from webapp.auth.accounts import account_with, change_password, revoke_tokens_with_password
from webapp.auth.password_rules import password_problem
from webapp.auth.passwords import hash_password
from webapp.database import transaction
from webapp.models import Account, Role
from webapp.services import services
from webapp.text.strings import cut, one_line

accounts_cli = AppGroup(
    "accounts", help="Accounts: create, invite, promote, disable, set passwords and limits, make and revoke API tokens."
)


def with_commands(*modules: ModuleType) -> AppGroup:
    """Return `flask accounts`. Importing the given modules has added their commands to those defined here."""
    assert modules
    return accounts_cli


@accounts_cli.command("create")
@click.argument("email")
@click.option("--operator", is_flag=True, help="Open the operator's pages to this account.")
def create(email: str, operator: bool) -> None:
    """Create an account. The password comes from a prompt, or from ACCOUNT_PASSWORD where there is no terminal."""
    address = email_addresses.normal_email(email)
    if address is None:
        raise click.ClickException("This is not a complete e-mail address.")
    password = _new_password(address)
    role = Role.OPERATOR if operator else Role.USER
    try:
        with transaction() as session:
            session.add(Account(email=address, password_hash=hash_password(password), role=role))
    except IntegrityError:
        raise click.ClickException(f"There is an account {address} already.") from None
    except SQLAlchemyError as error:
        raise database_failed(error) from None
    click.echo(f"Created {address} ({role}).")


def _new_password(address: str) -> str:
    password = _password()
    problem = password_problem(password, address)
    if problem:
        raise click.ClickException(f"The password cannot be used. {problem}")
    return password


def _password() -> str:
    if sys.stdin.isatty():
        entered: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return entered
    given = os.environ.get("ACCOUNT_PASSWORD")
    if not given:
        raise click.ClickException("There is no terminal to ask for the password. Set ACCOUNT_PASSWORD.")
    return given


@accounts_cli.command("password")
@click.argument("email")
@click.option("--revoke-tokens", is_flag=True, help="Take its API tokens away too. An operator's always are.")
def password(email: str, revoke_tokens: bool) -> None:
    """Set a new password, and end all sessions of the account. The password comes as for `create`."""
    new_hash = hash_password(_new_password(_address_in(email)))
    try:
        with transaction() as session:
            account = account_of(session, email)
            address = account.email
            if change_password(session, account, new_hash) is None:
                raise click.ClickException("The password was changed elsewhere at the same moment. Nothing was done.")
            revoked = revoke_tokens_with_password(session, account, requested=revoke_tokens)
            remaining = len(api_tokens.tokens_of(session, account.id))
    except SQLAlchemyError as error:
        raise database_failed(error) from None
    note = ""
    if remaining:
        note = f" {remaining} API tokens go on working."
    elif revoked:
        note = f" {revoked} API tokens were revoked."
    click.echo(f"{address} has a new password and is signed out everywhere.{note}")


@accounts_cli.command("invite")
@click.argument("email", required=False)
@click.option(
    "--days",
    type=click.IntRange(1, invitations.MAX_DAYS),
    default=invitations.DAYS,
    show_default=True,
    help="How long it can be used.",
)
def invite(email: str | None, days: int) -> None:
    """Print a link that creates one account, once, and nothing else. With EMAIL: for this address only."""
    settings = services().settings
    if settings.registration != "invite":
        raise click.ClickException(f"REGISTRATION is {settings.registration}. Invitations count where it is invite.")
    if not settings.app_base_url:
        raise click.ClickException("APP_BASE_URL is missing. The link starts with it.")
    address = None if email is None else email_addresses.normal_email(email)
    if email is not None and address is None:
        raise click.ClickException("This is not a complete e-mail address.")
    try:
        with transaction() as session:
            made = invitations.invite(session, email=address, made_by=None, days=days)
    except SQLAlchemyError as error:
        raise database_failed(error) from None
    click.echo(f"{settings.app_base_url.rstrip('/')}/invitation/{made}")


@accounts_cli.command("promote")
@click.argument("email")
@click.option("--reason", default="", help="Why, kept with the decision.")
def promote(email: str, reason: str) -> None:
    """Give an account the operator's role."""
    why = cut(one_line(reason), LONGEST_NOTE)
    deciding = Deciding(services().settings.queue_name, by=command_line_user(), reason=why)
    try:
        with transaction() as session:
            account = account_of(session, email)
            address = account.email
            account_access.promote(session, account, deciding)
    except SQLAlchemyError as error:
        raise database_failed(error) from None
    click.echo(f"{address} is an operator now.")


@accounts_cli.command("token")
@click.argument("email")
@click.option("--name", required=True, help="What will use the token.")
def token(email: str, name: str) -> None:
    """Create an API token and print it, and nothing else."""
    named = forms.read_token_name({"name": name})
    if not named:
        raise click.ClickException("The name is empty.")
    try:
        with transaction() as session:
            account = account_of(session, email)
            if len(api_tokens.tokens_of(session, account.id)) >= api_tokens.MAX_TOKENS:
                raise click.ClickException(f"There are {api_tokens.MAX_TOKENS} tokens already. Revoke one first.")
            made = api_tokens.make_token(session, account.id, named)
    except SQLAlchemyError as error:
        raise database_failed(error) from None
    click.echo(made)


def account_of(session: Session, email: str) -> Account:
    """Return the account with this e-mail address. Raises ClickException."""
    address = _address_in(email)
    account = account_with(session, address)
    if account is None:
        raise click.ClickException(f"There is no account {address}.")
    return account


def _address_in(email: str) -> str:
    return email_addresses.normal_email(email) or email.strip().lower()


def database_failed(error: SQLAlchemyError) -> click.ClickException:
    """Return the error for a command that failed in the database."""
    return click.ClickException(f"The database failed ({type(error).__name__}).")
