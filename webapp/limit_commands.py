"""`flask accounts limits …`: what an operator allows one account, from a terminal."""

from __future__ import annotations

from dataclasses import replace

import click
from sqlalchemy.exc import SQLAlchemyError

from tasks.ledger import limits
from tasks.ledger.limits import Limit, Limits
from webapp.cli import account_of, accounts_cli, no_database
from webapp.limits import NAMES
from webapp.parts import parts
from webapp.transactions import transaction

AS_SITE = "site"
MOST = {Limit.JOBS_PER_DAY: 2**31 - 1, Limit.JOBS_AT_ONCE: 2**31 - 1, Limit.TOKENS_PER_MONTH: 2**63 - 1}
HELP = "A number; 0 for no limit; `site` for what the site allows everybody."


class NumberOrSite(click.ParamType[int | str]):
    """A limit as it is typed."""

    name = "number"

    def __init__(self, limit: Limit) -> None:
        self.most = MOST[limit]

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value)
        if text == AS_SITE:
            return AS_SITE
        if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= self.most:
            return int(text)
        self.fail(f"{text!r} is neither a whole number up to {self.most} nor `{AS_SITE}`.", param, ctx)


@accounts_cli.command("limits")
@click.argument("email")
@click.option("--jobs-per-day", type=NumberOrSite(Limit.JOBS_PER_DAY), help=HELP)
@click.option("--jobs-at-once", type=NumberOrSite(Limit.JOBS_AT_ONCE), help=HELP)
@click.option("--tokens-per-month", type=NumberOrSite(Limit.TOKENS_PER_MONTH), help=HELP)
def show_or_set(email: str, **given: int | str | None) -> None:
    """Show the limits of an account, and how far they are used up. With options, change them first."""
    changed = {name: None if value == AS_SITE else value for name, value in given.items() if value is not None}
    site = parts().settings.limits
    try:
        with transaction() as session:
            account = account_of(session, email)
            own = replace(limits.own_limits(session, account.id), **changed)  # type: ignore[arg-type]
            if changed:
                limits.set_limits(session, account.id, own)
            standing = limits.standing(session, account.id, site)
    except SQLAlchemyError as error:
        raise no_database(error) from None
    for limit, used in standing.items():
        click.echo(f"{NAMES[limit]}: {used.used} of {used.most or 'any number'}{_whose(own, limit)}")


def _whose(own: Limits, limit: Limit) -> str:
    return "" if getattr(own, limit) is None else " (this account's own limit)"
