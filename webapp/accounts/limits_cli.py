"""`flask accounts limits …`: sets the limits of one account from a terminal."""

from __future__ import annotations

import click
from sqlalchemy.exc import SQLAlchemyError

from tasks.cli.messages import command_line_user
from tasks.ledger.accounts import limits
from tasks.ledger.accounts.limits import Limit
from tasks.ledger.replays import operator_actions
from tasks.ledger.terms import Limits
from webapp.accounts.cli import account_of, accounts_cli, database_failed
from webapp.database import transaction
from webapp.limits import HIGHEST_VALUES, NAMES, limit_in
from webapp.services import services

AS_SITE = "site"
HELP = "A number; 0 for no limit; `site` for what the site allows everybody."


class NumberOrSite(click.ParamType[int | str]):
    """Parses a limit given on the command line."""

    name = "number"

    def __init__(self, limit: Limit) -> None:
        self.limit = limit

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value)
        if text == AS_SITE:
            return AS_SITE
        number = limit_in(text, self.limit)
        if number is not None:
            return number
        self.fail(f"{text!r} is neither a whole number up to {HIGHEST_VALUES[self.limit]} nor `{AS_SITE}`.", param, ctx)


@accounts_cli.command("limits")
@click.argument("email")
@click.option("--jobs-per-day", type=NumberOrSite(Limit.JOBS_PER_DAY), help=HELP)
@click.option("--jobs-at-once", type=NumberOrSite(Limit.JOBS_AT_ONCE), help=HELP)
@click.option("--tokens-per-month", type=NumberOrSite(Limit.TOKENS_PER_MONTH), help=HELP)
@click.option("--note", help="Why, kept with the decision.")
def show_or_set(email: str, note: str | None, **given: int | str | None) -> None:
    """Show the limits of an account and their use. With options, change them first."""
    requested = {
        Limit(name): value if isinstance(value, int) else None for name, value in given.items() if value is not None
    }
    settings = services().settings
    try:
        with transaction() as session:
            account = account_of(session, email)
            if requested:
                operator_actions.set_limits(
                    session, settings.queue_name, account.id, requested, by=command_line_user(), note=note
                )
            own = limits.own_limits(session, account.id)
            usage = limits.usage_of(session, account.id, settings.limits)
    except SQLAlchemyError as error:
        raise database_failed(error) from None
    for limit, used in usage.items():
        click.echo(f"{NAMES[limit]}: {used.used} of {used.maximum or 'any number'}{_whose(own, limit)}")


def _whose(own: Limits, limit: Limit) -> str:
    return "" if getattr(own, limit) is None else " (this account's own limit)"
